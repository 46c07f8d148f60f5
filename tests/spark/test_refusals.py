"""Programs that can't run are refused before anything runs, wherever possible."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.spark.jobs import BATCH, STREAMING, collect, environment, in_both_modes, jvm_options, run_script

from penstock.common import WatermarkStrategy
from penstock.common.errors import PenstockError, ProgramError, SourceError
from penstock.connectors.base.data_generator import DataGeneratorSource
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.connectors.files.source import FileSource, StreamFormat
from penstock.datastream import RuntimeExecutionMode

pytestmark = pytest.mark.spark
NONE = WatermarkStrategy.no_watermarks()


def numbers(env: Any) -> Any:
    return env.from_source(NumberSequenceSource(0, 99), NONE, "numbers")


@in_both_modes
def test_lambdas_that_can_not_be_pickled(mode: RuntimeExecutionMode) -> None:
    """A function that holds a lock fails deep inside Spark, or hangs."""
    lock = threading.Lock()
    env = environment(mode)

    with pytest.raises(ProgramError, match=r"map at .*: the argument func can't be pickled.*open\(\)"):
        numbers(env).map(lambda v: (lock, v))


def test_key_selectors_that_can_not_be_pickled() -> None:
    """The same for what is between operators."""
    lock = threading.Lock()

    with pytest.raises(ProgramError, match=r"key_by at .*: the argument key_selector can't be pickled"):
        numbers(environment()).key_by(lambda v: (lock, v)[1])


def test_two_operators_with_one_uid() -> None:
    """State of one would be restored into the other."""
    env = environment()
    stream = numbers(env).map(lambda v: v).name("first").uid("twin")
    stream.key_by(lambda v: v).map(lambda v: v).name("second").uid("twin").print()

    with pytest.raises(ProgramError, match="'twin': 'first' and 'second'"):
        env.execute()


def test_unbounded_sources_in_batch_mode() -> None:
    """The job would never give a result."""
    env = environment(BATCH)
    env.from_source(DataGeneratorSource(lambda i: i), NONE, "endless").print()

    with pytest.raises(ProgramError, match="'endless' is unbounded"):
        env.execute()


@in_both_modes
def test_missing_files(mode: RuntimeExecutionMode, tmp_path: Path) -> None:
    """A wrong path looks like an empty file."""
    env = environment(mode)

    with pytest.raises(PenstockError, match=r"nowhere\.txt"):
        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), tmp_path / "nowhere.txt").build()
        env.from_source(source, NONE, "lines").print()
        env.execute()


@in_both_modes
def test_lines_that_are_not_json(mode: RuntimeExecutionMode, tmp_path: Path) -> None:
    """One broken line in a million: which file, which line?"""
    path = tmp_path / "events.json"
    path.write_text('{"n": 1}\n{"n": 2}\n{"n": 3\n{"n": 4}\n')
    env = environment(mode)
    source = FileSource.for_record_stream_format(StreamFormat.json_lines_format(), path).build()
    events = env.from_source(source, NONE, "events")

    with pytest.raises(SourceError, match=r"events\.json") as raised:
        collect(events)
    assert '{"n": 3' in str(raised.value)
    assert "org.apache" not in str(raised.value)


def test_wrong_parallelism() -> None:
    """Zero subtasks, or a forward between unequal ones, would lose records in silence."""
    env = environment()
    with pytest.raises(ValueError, match="parallelism"):
        env.set_parallelism(0)
    with pytest.raises(ValueError, match="one subtask reads a collection"):
        env.from_collection([1]).set_parallelism(2)
    numbers(env).forward().map(lambda v: v).set_parallelism(3).print()
    with pytest.raises(ProgramError, match=r"parallelism 2.*parallelism 3"):
        env.execute()
    env = environment().set_max_parallelism(2)
    numbers(env).set_parallelism(4).print()
    with pytest.raises(ProgramError, match="maximum parallelism 2"):
        env.execute()


def test_nothing_to_execute() -> None:
    """A forgotten print() would look like a job without results."""
    with pytest.raises(ProgramError, match="nothing to execute"):
        environment().execute()


def test_sessions_of_the_users_own(tmp_path: Path) -> None:
    """A session that lacks settings would take seconds for each record; one that is too small would wait for ever."""
    done = run_script(
        tmp_path,
        """
        import os
        from pyspark.sql import SparkSession
        from penstock.common.errors import PenstockError
        from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
        from penstock.hosts.spark.driver.java import find_java
        from penstock.hosts.spark.internals.settings import FIXED_AT_START

        def job(spark, parallelism, mode=RuntimeExecutionMode.STREAMING):
            env = StreamExecutionEnvironment.get_execution_environment(spark=spark)
            env.set_parallelism(parallelism).set_runtime_mode(mode)
            words = env.from_collection("to be or not to be".split()).map(lambda word: (word, 1))
            with words.key_by(lambda v: v[0]).reduce(lambda a, b: (a[0], a[1] + b[1])).execute_and_collect() as it:
                return dict(it)

        def refusal(*arguments):
            try:
                return job(*arguments)
            except PenstockError as error:
                return f"{type(error).__name__}: {error}".replace(chr(10), " ")

        os.environ["JAVA_HOME"] = str(find_java(os.environ).path)
        spark = SparkSession.builder.master("local[4]").config("spark.ui.enabled", "false").getOrCreate()
        print("plain, pipelined:", refusal(None, 1))
        print("plain, batched:", refusal(None, 2, RuntimeExecutionMode.BATCH))
        spark.stop()
        builder = SparkSession.builder.master("local[4]").config("spark.ui.enabled", "false")
        for key, value in FIXED_AT_START.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        print("ready, pipelined:", refusal(spark, 1))
        print("too small:", refusal(spark, 8))
        print("goes on:", spark.range(5).count())
        frame = spark.range(100)
        env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
        frame = env.set_runtime_mode(RuntimeExecutionMode.STREAMING).from_data_frame(frame).to_data_frame()
        print("frames:", sum(row.id for row in frame.collect()), frame.sparkSession is spark)
        """,
        command=(sys.executable,),
        variables={"PYSPARK_PYTHON": sys.executable, "SPARK_SUBMIT_OPTS": jvm_options()},
    )
    said = dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)
    counts = "{'to': 2, 'be': 2, 'or': 1, 'not': 1}"

    assert "ConfigurationError" in said["plain, pipelined"], done.stderr
    assert "spark.shuffle.streaming.readerMaxMemory=262144" in said["plain, pipelined"]
    assert sorted(said["plain, batched"]) == sorted(counts)
    assert sorted(said["ready, pipelined"]) == sorted(counts)
    assert "NotEnoughSlotsError" in said["too small"]
    assert "needs 18 slots" in said["too small"] and "local[4] has 4" in said["too small"]
    assert said["goes on"] == "5", "the session is the user's: it is not stopped"
    assert said["frames"] == "4950 True", done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("startup", "refusal"),
    [
        pytest.param(
            "class Absent:\n"
            "    def find_spec(self, name, path=None, target=None):\n"
            "        if name.split('.')[0] == 'penstock':\n"
            "            raise ModuleNotFoundError(\"No module named 'penstock'\", name='penstock')\n"
            "sys.meta_path.insert(0, Absent())\n",
            "penstock is not installed on the executors",
            marks=pytest.mark.soak,
        ),
        ("import penstock\npenstock.__version__ = '0.0.1.other'\n", "this executor has penstock 0.0.1.other"),
    ],
    ids=["none", "another version"],
)
def test_executors_without_the_same_penstock(tmp_path: Path, startup: str, refusal: str) -> None:
    """A cluster that was set up by hand fails with a stack of Java's, or worse, half works."""
    (tmp_path / "sitecustomize.py").write_text(f"import os, sys\n{startup}")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}:$PYTHONPATH" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    told_in_both_modes(tmp_path, str(python), refusal)


@pytest.mark.soak
def test_executors_without_the_python_of_the_driver(tmp_path: Path) -> None:
    """On a cluster that has its environment elsewhere the job fails with a stack of Java's, after four tries."""
    told_in_both_modes(tmp_path, str(tmp_path / "nowhere" / "python"), f"an executor has no {tmp_path}/nowhere/python")


def told_in_both_modes(folder: Path, python: str, refusal: str) -> None:
    """A job in each mode, on executors that run `python`, fails with this text."""
    done = run_script(
        folder,
        """
        from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
        from penstock.common.errors import PenstockError

        for mode in (RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH):
            env = StreamExecutionEnvironment.get_execution_environment().set_runtime_mode(mode)
            env.from_collection([1, 2]).map(lambda v: v).print()
            try:
                env.execute()
            except PenstockError as error:
                print(mode.name, type(error).__name__, str(error).splitlines()[0])
        """,
        command=(sys.executable,),
        variables={"PYSPARK_PYTHON": python},
    )

    for mode in (STREAMING, BATCH):
        lines = [line for line in done.stdout.splitlines() if line.startswith(mode.name)]
        line = lines[0] if lines else done.stdout + done.stderr
        assert "ConfigurationError" in line
        assert refusal in line
