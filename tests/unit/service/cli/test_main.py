"""The `penstock` command, without Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import penstock
from penstock.service.cli.main import app


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "job.py"
    path.write_text("import sys\nprint('ran with', sys.argv[1:])\n")
    return path


@pytest.fixture
def settings_job(tmp_path: Path) -> Path:
    """A job that prints the settings its environments start from."""
    path = tmp_path / "settings.py"
    path.write_text(
        "import sys\n"
        "from penstock.service.client.context_environment import context_environment\n"
        "print('ran with', sys.argv[1:], context_environment().configuration.to_dict())\n"
    )
    return path


def test_help_teaches_by_example() -> None:
    """New users would have to read a manual before their first job."""
    result = CliRunner().invoke(app, ["--help"])

    assert result.exit_code == 0
    assert "penstock run -p 4 job.py" in result.output
    assert "execution.runtime-mode" in result.output


def test_a_program_without_run_is_told_the_command() -> None:
    """A newcomer would only read that there is no such command."""
    result = CliRunner().invoke(app, ["count.py"])

    assert result.exit_code == 2
    assert "count.py is a program, not a command. To run it: penstock run count.py" in result.output


def test_options_before_the_job_are_ours_and_after_it_the_jobs(settings_job: Path) -> None:
    """A job with an option called -p could not be given it."""
    result = CliRunner().invoke(app, ["run", "-p", "2", str(settings_job), "-p", "9", "--help"])

    assert result.stdout == "ran with ['-p', '9', '--help'] {'parallelism.default': '2'}\n"


def test_an_option_of_ours_after_the_job_gets_a_word(settings_job: Path) -> None:
    """`penstock run job.py -p 4` would run with one subtask, and nobody would know why."""
    result = CliRunner().invoke(app, ["run", str(settings_job), "--day", "x", "-Da=b"])

    assert result.stdout == "ran with ['--day', 'x', '-Da=b'] {}\n"
    assert "-Da=b stands after settings.py" in result.stderr
    assert "penstock run -Da=b … settings.py" in result.stderr


@pytest.mark.parametrize("command", ["run", "explain"])
@pytest.mark.parametrize("option", ["--conf-file=my.yaml", "--pyflink", "-Da=b"])
def test_each_option_of_a_command_gets_a_word(command: str, option: str, settings_job: Path) -> None:
    """`penstock run job.py --conf-file my.yaml` ran without that file's settings, and nobody was told."""
    result = CliRunner().invoke(app, [command, str(settings_job), option])

    assert f"{option} stands after settings.py" in result.stderr
    assert f"penstock {command} {option} … settings.py" in result.stderr


def test_all_that_stand_after_the_job_are_named(settings_job: Path) -> None:
    """Who mends the one that is told of would have to run it again to be told of the next one."""
    result = CliRunner().invoke(app, ["run", str(settings_job), "-p", "2", "-Da=b", "x"])

    assert "-p and -Da=b stand after settings.py, so they are passed to the job" in result.stderr


@pytest.mark.parametrize("state", [["-s", "savepoint"], ["--fromSavepoint=savepoint"], ["-s/savepoint"]])
def test_a_state_that_stands_after_the_job_is_refused(settings_job: Path, state: list[str]) -> None:
    """The job began anew, read everything again, and doubled its output: a warning of another option was all."""
    result = CliRunner().invoke(app, ["run", str(settings_job), "-p", "2", *state])

    assert result.exit_code == 2
    assert "would start without that state" in result.stderr.replace("\n", " ")
    assert "ran with" not in result.stdout


@pytest.mark.parametrize(
    ("before", "behind", "mentioned"),
    [
        ([], ["-s"], ""),
        ([], ["-silent"], ""),
        (["-s", "none"], ["-s", "x"], ""),
        (["-D", "execution.state-recovery.path=none"], ["-s", "x"], ""),
        ([], ["-s", "x"], '# "-s"'),
    ],
)
def test_an_option_of_the_jobs_own_is_not_refused(
    before: list[str], behind: list[str], mentioned: str, settings_job: Path
) -> None:
    """A program whose parser is in a module that it imports could not be run any more."""
    settings_job.write_text(f"{settings_job.read_text()}\n{mentioned}\n")
    result = CliRunner().invoke(app, ["run", *before, str(settings_job), *behind])

    assert "start without that state" not in result.stderr
    assert result.exit_code != 2


@pytest.mark.parametrize("command", ["run", "explain"])
def test_a_value_that_can_not_be_is_refused_before_the_program_runs(command: str, settings_job: Path) -> None:
    """What the program does before it executes, an hour of reading perhaps, would be done in vain."""
    result = CliRunner().invoke(app, [command, "-D", "parallelism.default=two", str(settings_job)])

    assert result.exit_code == 2
    assert "'parallelism.default' must be a whole number" in result.stderr
    assert "ran with" not in result.stdout


def test_settings_of_a_file_are_those_of_the_drawing(tmp_path: Path, settings_job: Path) -> None:
    """A job that is run with a file of settings could not be drawn with them."""
    file = tmp_path / "my.yaml"
    file.write_text("parallelism.default: 3\n")
    result = CliRunner().invoke(app, ["explain", "--conf-file", str(file), str(settings_job)])

    assert "'parallelism.default': '3'" in result.stdout


def test_an_option_that_the_job_knows_is_the_jobs(tmp_path: Path) -> None:
    """Each run of a job with an option -p would begin with a warning."""
    job = tmp_path / "job.py"
    job.write_text(
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('-p')\nparser.parse_args()\n"
    )

    assert "stands after" not in CliRunner().invoke(app, ["run", str(job), "-p", "4"]).output


def test_a_program_that_executes_nothing_says_so(job: Path) -> None:
    """The user would wait for results of streams that nobody has started."""
    command = [sys.executable, "-m", "penstock.service.cli.main", "run", str(job)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert done.stdout == "ran with []\n"
    assert done.stderr == (
        "job.py has ended without executing a job: call env.execute() or execute_and_collect() to run its streams\n"
    )


def test_settings_in_flinks_spelling(settings_job: Path) -> None:
    """Command lines that were written for `flink run` would have to be changed."""
    result = CliRunner().invoke(
        app, ["run", "-Dexecution.runtime-mode=BATCH", "-D", "spark.driver.extraJavaOptions=-Da=b", str(settings_job)]
    )

    assert result.exit_code == 0
    assert "'execution.runtime-mode': 'BATCH'" in result.output
    assert "'spark.driver.extraJavaOptions': '-Da=b'" in result.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "-D", "parallelism.default", "JOB"], "got 'parallelism.default'"),
        (["run", "-p", "0", "JOB"], "'-p'"),
        (["run", "nowhere.py"], "'nowhere.py' does not exist"),
        (["run", "."], "'.' is a directory"),
    ],
)
def test_a_wrong_command_line_is_refused_with_words(job: Path, arguments: list[str], words: str) -> None:
    """A typing error would end in a traceback, or in a job with other settings than intended."""
    result = CliRunner().invoke(app, [str(job) if argument == "JOB" else argument for argument in arguments])

    assert result.exit_code == 2
    assert words in result.output


def test_settings_end_with_the_program(settings_job: Path) -> None:
    """A second program in the same process would run with settings that nobody gave it."""
    CliRunner().invoke(app, ["run", "-p", "2", str(settings_job)])

    assert CliRunner().invoke(app, ["run", str(settings_job)]).stdout == "ran with [] {}\n"


_PLANNED = """
from penstock.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1, 2]).print()
env.execute()
"""


def test_explain_draws_what_the_program_would_run(tmp_path: Path) -> None:
    """The user would have to run a job to see its plan."""
    job = tmp_path / "job.py"
    job.write_text(_PLANNED)

    result = CliRunner().invoke(app, ["explain", str(job)])

    assert result.exit_code == 0
    assert "Collection Source" in result.output and "Print to Std. Out" in result.output


_ITERATION = """
from penstock.datastream import StreamExecutionEnvironment
from penstock.iteration import iterate_delta, superstep_windows

env = StreamExecutionEnvironment.get_execution_environment()
vertices = env.from_collection([(1, 9), (2, 9)])
edges = env.from_collection([(1, 2)])


def first(value):
    return value[0]


iteration = iterate_delta(vertices, env.from_collection([(1, 0)]), 20, key=first)
kept = iteration.workset.replay(edges)
messages = iteration.workset.join(kept).where(first).equal_to(first).window(superstep_windows()).apply(
    lambda value, edge: (edge[1], value[1] + 1)
)
changed = iteration.solution_set.co_group(messages, lambda key, entry, found: None, key=first)
iteration.close_with(changed, changed.rebalance()).print()
env.execute()
"""


def test_explain_says_what_an_iteration_repeats(tmp_path: Path) -> None:
    """A user would not see that a stream is sent again in each superstep, which costs as much as the first time."""
    job = tmp_path / "job.py"
    job.write_text(_ITERATION)

    result = CliRunner().invoke(app, ["explain", "-p", "2", str(job)])

    text = " ".join(result.output.split())
    assert "iteration: 'Delta iteration' runs 3, 4, 5 and 6 in each of at most 20 supersteps;" in text
    assert "2 → 4 is kept in the memory of its subtasks, and emitted in each superstep" in text
    assert "0 → 6 is read once, in superstep 0: what is needed later is state of 'Solution set'" in text
    assert "1 → 3" not in text[text.index("iteration:") :], "the first workset is no static input"


def test_explain_draws_even_if_the_program_then_fails_for_want_of_results(tmp_path: Path) -> None:
    """A program that reads the job's result could not be explained."""
    job = tmp_path / "job.py"
    job.write_text(_PLANNED + "raise SystemExit('no results')\n")

    result = CliRunner().invoke(app, ["explain", str(job)])

    assert result.exit_code == 0
    assert "Print to Std. Out" in result.output


_FAULTY = """
import threading
from penstock.common import WatermarkStrategy
from penstock.datastream import OutputTag, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSource, StreamFormat

held = []
late = OutputTag("late")

def split(value, ctx):
    yield late, value

env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(30000)
source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), __file__).build()
lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines").uid("the-lines")
parts = lines.key_by(len).process(split).name("split")
# It is pickled on submission, since `more` has no value yet.
parts.map(lambda value: (held, more, value)).name("guarded").print()
held.append(threading.Lock())
more = 1
parts.get_side_output(late).rebalance().print("late")
env.execute("faulty")
"""


def test_explain_finds_what_would_fail_later(tmp_path: Path) -> None:
    """The user would start a cluster job, and learn after a minute what was known before."""
    job = tmp_path / "job.py"
    job.write_text(_FAULTY)

    result = CliRunner().invoke(app, ["explain", str(job)])

    assert result.exit_code == 1
    assert "NotEnoughSlotsError: the job 'faulty' needs 90,000 slots at once" in result.stderr
    drawn = "".join(part for part in result.stdout if part not in " \n│")
    assert "ProgramError: operator 'guarded': its function can't be pickled" in result.stderr
    assert f"linesuidthe-lines{job}" in drawn
    assert "sideoutput'late'" in drawn
    assert "parallelism30000" in drawn


def test_a_misspelt_key_is_refused_at_once(job: Path) -> None:
    """The program would run up to its first execute() before it fails."""
    result = CliRunner().invoke(app, ["run", "-D", "paralellism.defualt=2", str(job)])

    assert result.exit_code == 2
    assert "Did you mean 'parallelism.default'?" in " ".join(result.stderr.split())


def test_explain_says_when_a_program_executes_nothing(job: Path) -> None:
    """The user would look at an empty screen."""
    result = CliRunner().invoke(app, ["explain", str(job)])

    assert result.exit_code == 1
    assert "executes no job" in result.output


def test_version_is_the_packages() -> None:
    """Bug reports would name the wrong version."""
    assert f"penstock {penstock.__version__}\n" in CliRunner().invoke(app, ["version"]).output
    assert CliRunner().invoke(app, ["--version"]).output == CliRunner().invoke(app, ["version"]).output


def test_the_command_starts_without_what_is_slow_to_import() -> None:
    """`penstock --help` would take seconds."""
    slow = {"numpy", "pandas", "py4j", "pyarrow", "pyspark", "rich"}
    program = "import sys, penstock.service.cli.main; print(*{name.partition('.')[0] for name in sys.modules})"

    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert slow.isdisjoint(loaded.split())
