from __future__ import annotations

import subprocess
import sys

import pytest

from edgecape import __version__
from edgecape.cli.main import COMMANDS, main
from edgecape.errors import EdgeCapeError


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
    def fail(arguments):
        raise EdgeCapeError("the value is 7; use 8")

    monkeypatch.setattr("edgecape.cli.convert.main", fail)
    assert main(["convert"]) == 2
    captured = capsys.readouterr()
    assert captured.err == "error: the value is 7; use 8\n" and captured.out == ""


def test_interrupting_is_quiet(capsys, monkeypatch):
    def stop(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("edgecape.cli.convert.main", stop)
    assert main(["convert"]) == 130
    assert "stopped" in capsys.readouterr().err


def test_starting_imports_nothing_heavy():
    heavy = {"torch", "cv2", "numpy", "transformers", "tyro", "matplotlib", "PIL"}
    code = f"import sys, edgecape.cli.main; print(*{heavy} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.split() == []
