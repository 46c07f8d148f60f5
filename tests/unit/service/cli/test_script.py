"""A job's file runs as under `python`, and its errors are reported without penstock's frames."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import typer

from penstock.common.doors.pyflink_alias import PyFlinkFinder
from penstock.service.cli.script import run_script


def script(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "job.py"
    path.write_text(text)
    return path


def test_a_script_sees_what_python_would_show_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Jobs with their own argparse, or with a module beside them, would not start."""
    (tmp_path / "beside_the_job.py").write_text("name = 'found'\n")
    path = script(
        tmp_path,
        "import sys\nfrom beside_the_job import name\n"
        "if __name__ == '__main__':\n    print(name, sys.argv[1:], sys.argv[0] == __file__)\n",
    )
    before = list(sys.argv), list(sys.path)

    run_script(path, ["--day", "monday"])

    assert capsys.readouterr().out == "found ['--day', 'monday'] True\n"
    assert (sys.argv, sys.path) == before


def test_a_program_error_names_the_line_of_the_users_call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Users would have to find the mistake in a traceback of penstock's own calls."""
    path = script(
        tmp_path,
        "from penstock.common.errors import ProgramError\n\ndef build():\n"
        "    raise ProgramError('two operators have the uid airport-delay')\n\nbuild()\n",
    )

    with pytest.raises(typer.Exit) as exit_info:
        run_script(path, [])

    assert exit_info.value.exit_code == 1
    assert capsys.readouterr().err == (
        "penstock.ProgramError: two operators have the uid airport-delay\n"
        f"  File \"{path}\", line 4: raise ProgramError('two operators have the uid airport-delay')\n"
    )


def test_an_error_of_the_run_is_its_message_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The user's own traceback, which the message contains, would be hidden by the driver's."""
    path = script(
        tmp_path,
        "from penstock.common.errors import UserFunctionError\nraise UserFunctionError('operator delay\\n  line 41')\n",
    )

    with pytest.raises(typer.Exit):
        run_script(path, [])

    assert capsys.readouterr().err == "penstock.UserFunctionError: operator delay\n  line 41\n"


def test_any_other_error_has_the_traceback_that_python_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Frames of the command and of runpy would precede the user's."""
    path = script(tmp_path, "def divide():\n    return 1 / 0\n\ndivide()\n")

    with pytest.raises(typer.Exit):
        run_script(path, [])

    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["Traceback (most recent call last):", f'  File "{path}", line 4, in <module>']
    assert lines[-1] == "ZeroDivisionError: division by zero"
    assert "runpy" not in "".join(lines)


def test_the_scripts_own_exit_code_passes_through(tmp_path: Path) -> None:
    """A scheduler would treat a failed job as successful."""
    with pytest.raises(SystemExit) as exit_info:
        run_script(script(tmp_path, "import sys\nsys.exit(3)\n"), [])

    assert exit_info.value.code == 3


def test_a_misspelt_name_is_suggested_as_python_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`python job.py` would say more than `penstock run job.py`."""
    with pytest.raises(typer.Exit):
        run_script(script(tmp_path, "counts = 1\nprint(coutns)\n"), [])

    assert "Did you mean: 'counts'?" in capsys.readouterr().err


@pytest.mark.parametrize("module", ["pyflink", "pyflink.datastream"])
def test_a_pyflink_program_without_the_option_is_told_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], module: str
) -> None:
    """The user would install PyFlink, to run the program by penstock."""
    path = script(tmp_path, f"raise ModuleNotFoundError('No module named {module}', name={module!r})\n")
    with pytest.raises(typer.Exit):
        run_script(path, [])

    assert "put --pyflink before the file" in capsys.readouterr().err


def test_a_pyflink_program_with_the_option_is_not_told_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that needs what is not there would be run with the option again and again."""
    monkeypatch.setattr(sys, "meta_path", [PyFlinkFinder(), *sys.meta_path])
    with pytest.raises(typer.Exit):
        run_script(script(tmp_path, "from pyflink.ml import Stage\n"), [])

    said = capsys.readouterr().err
    assert "penstock has no penstock.ml to stand for pyflink.ml" in said and "--pyflink" not in said


def test_another_missing_module_is_not_pyflinks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The advice would lead astray."""
    with pytest.raises(typer.Exit):
        run_script(script(tmp_path, "import module_that_is_not_there\n"), [])

    assert "pyflink" not in capsys.readouterr().err
