"""The script for the shell, as the shell runs it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from edgecape.cli.main import COMMANDS, main


@pytest.fixture
def complete(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Typed words → what bash offers for the last one."""
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "edgecape"
    script.write_text(capsys.readouterr().out)

    def offered(*words: str) -> list[str]:
        ask = 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tyro_edgecape; printf "%s\\n" "${COMPREPLY[@]}"'
        done = subprocess.run(
            ["bash", "-c", ask, str(script), "edgecape", *words], capture_output=True, text=True, timeout=60, check=True
        )
        assert done.stderr == ""
        return done.stdout.split()

    return offered


def test_bash_offers_commands_subcommands_and_options(complete) -> None:
    assert set(COMMANDS) <= set(complete(""))
    assert complete("pre") == ["predict"]
    assert {"check", "assemble", "split"} <= set(complete("data", ""))
    assert {"noisy-prior", "compare", "all"} <= set(complete("experiment", ""))
    assert complete("evaluate", "--sho") == ["--shots"]
    assert complete("train", "small", "--settings.bat") == ["--settings.batch"]
    assert {"--edge-base", "--json", "--quiet"} <= set(complete("data", "check", "--"))
    assert complete("predict", "--support", "/") == []  # a file: bash knows those itself


def test_bash_completes_files_where_nothing_else_fits(capsys: pytest.CaptureFixture[str]) -> None:
    main(["completion", "bash"])
    script = capsys.readouterr().out + "\ncomplete -p edgecape"
    done = subprocess.run(["bash"], input=script, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "complete -o bashdefault -o default -F _tyro_edgecape edgecape"


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells(shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in COMMANDS) and "--edge-base" in script
    if shutil.which(shell):
        (tmp_path / "script").write_text(script)
        subprocess.run([shell, "-n", str(tmp_path / "script")], check=True, timeout=60)
