from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgecape import __version__
from edgecape.cli.main import COMMANDS, main
from edgecape.errors import EdgeCapeError

import toy


def test_help_lists_every_command(capsys):
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"  {name}" in out for name in COMMANDS)
    assert main([]) == 0 and main(["--version"]) == 0
    assert __version__ in capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(command, capsys):
    arguments = [command, "check", "--help"] if command == "data" else [command, "--help"]
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 0
    out = capsys.readouterr().out
    assert "Example: edgecape" in out.replace("\n", " ") and f"edgecape {command}" in out


def test_an_unknown_command_gets_a_hint(capsys):
    assert main(["predcit"]) == 2
    assert "did you mean 'predict'" in capsys.readouterr().err


def test_an_error_is_one_line_and_exit_code_2(capsys, monkeypatch):
    failing(monkeypatch, EdgeCapeError("the value is 7; use 8"))
    assert main(["convert"]) == 2
    captured = capsys.readouterr()
    assert captured.err == "error: the value is 7; use 8\n" and captured.out == ""


def test_help_of_a_command_and_version_anywhere(capsys):
    assert main(["help"]) == 0
    assert capsys.readouterr().out.startswith("usage: edgecape COMMAND")
    for words in (["help", "predict"], ["help", "data", "check"]):
        with pytest.raises(SystemExit) as stop:
            main(words)
        assert stop.value.code == 0
        assert capsys.readouterr().out.startswith(f"usage: edgecape {' '.join(words[1:])}")
    assert main(["help", "predcit"]) == 2
    assert "did you mean 'predict'" in capsys.readouterr().err
    for words in (["-V"], ["predict", "--version"], ["data", "check", "--version"]):
        assert main(words) == 0
        assert capsys.readouterr().out == f"edgecape {__version__}\n"


# --- the boundary ------------------------------------------------------------------------------------------------


def failing(monkeypatch, error: BaseException) -> None:
    def fail(arguments):
        raise error

    monkeypatch.setattr("edgecape.cli.convert.main", fail)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "/root/model"), 2, "Permission denied: /root/model"),
        (OSError(errno.ENOSPC, "No space left on device"), 2, "No space left on device"),
        (TypeError("'NoneType' object\nis not iterable"), 3, "(TypeError: 'NoneType' object is not iterable); please"),
        (MemoryError(), 3, "(MemoryError: )"),
        (ValueError("x" * 100_000), 3, "xxx …)"),
        (RecursionError("too deep"), 3, "too deep"),
    ],
)
def test_any_other_error_is_one_line_too(capsys, monkeypatch, error, code, said):
    failing(monkeypatch, error)
    assert main(["convert"]) == code
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ") and captured.err.count("\n") == 1 and len(captured.err) < 600
    assert said in captured.err and captured.out == ""
    assert ("issue" in captured.err and "--debug" in captured.err) == (code == 3)


@pytest.mark.parametrize("words", ["--debug convert a", "convert --debug a", "convert a --debug"])
def test_debug_anywhere_shows_the_traceback_and_the_command_does_not_see_it(capsys, monkeypatch, words):
    seen = []

    def fail(arguments):
        seen.append(arguments)
        raise TypeError("seven")

    monkeypatch.setattr("edgecape.cli.convert.main", fail)
    assert main(words.split()) == 3
    err = capsys.readouterr().err
    assert "Traceback" in err and 'TypeError("seven")' in err and err.splitlines()[-1].startswith("error: ")
    assert seen == [["a"]]


def shell(words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """As a user types it, with `edgecape` for this Python's."""
    line = f'set -o pipefail; edgecape() {{ "{sys.executable}" -m edgecape.cli.main "$@"; }}; {words}'
    return subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, timeout=120, env={**os.environ, **environment}
    )


@pytest.mark.parametrize("words", ["edgecape completion bash", "edgecape data check lamps", "edgecape predict --help"])
def test_a_broken_pipe_is_quiet(tmp_path: Path, words: str):
    """Plain prints, tables and help texts alike."""
    toy.write_lamps(tmp_path / "lamps", 2)
    done = shell(f"cd {tmp_path}; {words} | true")
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("words", ["--help", "completion bash", "data check lamps", "data check --help"])
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_output_that_has_no_room(tmp_path: Path, words: str):
    toy.write_lamps(tmp_path / "lamps", 2)
    done = shell(f"cd {tmp_path}; edgecape {words} > /dev/full")
    assert (done.returncode, done.stderr) == (2, "error: No space left on device\n")


def test_a_place_that_may_not_be_written(tmp_path: Path):
    toy.write_lamps(tmp_path / "lamps", 2, ("lamp", "light"))
    (tmp_path / "file").write_text("")
    done = shell(f"cd {tmp_path}; edgecape data split lamps/lamps.json --hold-out furniture -o file")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and done.stderr.startswith("error: ")


def test_interrupting_is_quiet(capsys, monkeypatch):
    failing(monkeypatch, KeyboardInterrupt())
    assert main(["convert"]) == 130
    assert "stopped" in capsys.readouterr().err


def test_starting_imports_nothing_heavy():
    heavy = {"torch", "cv2", "numpy", "transformers", "tyro", "rich", "matplotlib", "PIL", "onnx", "huggingface_hub"}
    start = "import sys, edgecape, edgecape.cli.main as cli; cli.main(['--version']); cli.main(['--help'])"
    code = f"{start}; print('heavy:', *{heavy} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[-1] == "heavy:"
