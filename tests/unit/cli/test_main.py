"""The `penstock` command, without Spark."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

import penstock
from penstock.cli import explain, options
from penstock.cli.main import app


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "job.py"
    path.write_text("import sys\nprint('ran with', sys.argv[1:])\n")
    return path


@pytest.fixture
def defaults(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The defaults that the command sets for environments of the program."""
    taken: dict[str, str] = {}
    monkeypatch.setattr(options, "set_defaults", taken.update)
    return taken


def test_help_teaches_by_example() -> None:
    """New users would have to read a manual before their first job."""
    result = CliRunner().invoke(app, ["--help"])

    assert result.exit_code == 0
    assert "penstock run -p 4 job.py" in result.output
    assert "execution.runtime-mode" in result.output


def test_options_before_the_job_are_ours_and_after_it_the_jobs(job: Path, defaults: dict[str, str]) -> None:
    """A job with an option -p of its own could not receive it."""
    result = CliRunner().invoke(app, ["run", "-p", "2", str(job), "-p", "9", "--help"])

    assert result.output == "ran with ['-p', '9', '--help']\n"
    assert defaults == {"parallelism.default": "2"}


def test_settings_in_flinks_spelling(job: Path, defaults: dict[str, str]) -> None:
    """Command lines written for `flink run` would have to be changed."""
    result = CliRunner().invoke(
        app, ["run", "-Dexecution.runtime-mode=BATCH", "-D", "spark.driver.extraJavaOptions=-Da=b", str(job)]
    )

    assert result.exit_code == 0
    assert defaults == {"execution.runtime-mode": "BATCH", "spark.driver.extraJavaOptions": "-Da=b"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "-D", "parallelism.default", "JOB"], "'parallelism.default' is not KEY=VALUE"),
        (["run", "-p", "0", "JOB"], "'-p'"),
        (["run", "nowhere.py"], "'nowhere.py' does not exist"),
    ],
)
def test_a_wrong_command_line_is_refused_with_words(job: Path, arguments: list[str], words: str) -> None:
    """A typing error would end in a traceback, or in a job with other settings than intended."""
    result = CliRunner().invoke(app, [str(job) if argument == "JOB" else argument for argument in arguments])

    assert result.exit_code == 2
    assert words in result.output


@contextmanager
def one_plan() -> Iterator[list[SimpleNamespace]]:
    vertex = SimpleNamespace(id=1, name="", level=0, parallelism=2, operators=["numbers", "print"])
    yield [SimpleNamespace(vertices=[vertex], edges=[])]


def test_explain_draws_even_if_the_program_then_fails_for_want_of_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that reads the job's result could not be explained."""
    monkeypatch.setattr(explain, "recorded_plans", one_plan)
    job = tmp_path / "job.py"
    job.write_text("import sys\nsys.exit('no results')\n")

    result = CliRunner().invoke(app, ["explain", str(job)])

    assert result.exit_code == 0
    assert "│ ╰ print" in result.output


def test_explain_says_when_a_program_executes_nothing(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Users would see an empty screen."""

    @contextmanager
    def no_plan() -> Iterator[list[SimpleNamespace]]:
        yield []

    monkeypatch.setattr(explain, "recorded_plans", no_plan)

    result = CliRunner().invoke(app, ["explain", str(job)])

    assert result.exit_code == 1
    assert "executes nothing" in result.output


def test_version_is_the_packages() -> None:
    """Bug reports would name the wrong version."""
    assert f"penstock {penstock.__version__}\n" in CliRunner().invoke(app, ["version"]).output


def test_the_command_starts_without_what_is_slow_to_import() -> None:
    """`penstock --help` would take seconds."""
    slow = {"numpy", "pandas", "py4j", "pyarrow", "pyspark", "rich"}
    program = "import sys, penstock.cli.main; print(*{name.partition('.')[0] for name in sys.modules})"

    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert slow.isdisjoint(loaded.split())
