"""Spark's JVM is killed, as by the kernel when memory runs out: a new one takes its place, if penstock may start it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.chaos import store
from tests.spark.jobs import daemons, processes, run_script, workers

pytestmark = pytest.mark.spark

PROGRAM = """
import logging, os, signal, sys, time
from pyspark import SparkContext
from pyspark.sql import SparkSession
from penstock.common import Configuration, Types, WatermarkStrategy
from penstock.common.errors import PenstockError
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.connectors import NumberSequenceSource
from penstock.hosts.spark.driver.java import find_java
from penstock.hosts.spark.internals.settings import FIXED_AT_START

logging.basicConfig(level=logging.WARNING, stream=sys.stdout, format="%(message)s")

def slowly(value):
    if value % 100 == 0:
        time.sleep(0.05)
    return value

def environment(spark=None, mode=RuntimeExecutionMode.STREAMING):
    settings = {
        "execution.checkpointing.interval": "200 ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "5",
        "restart-strategy.fixed-delay.delay": "100 ms",
    }
    configuration = Configuration()
    for key, value in settings.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration, spark=spark)
    return env.set_parallelism(2).set_runtime_mode(mode)

def started(env):
    numbers = env.from_source(NumberSequenceSource(1, 6_000), WatermarkStrategy.no_watermarks(), "numbers")
    sums = numbers.map(slowly, Types.LONG()).key_by(lambda v: 0).reduce(lambda a, b: a + b)
    sums.filter(lambda v: v == 6_000 * 6_001 // 2).map(lambda v: f"sum: {v}").print()
    return env.execute_async("sum")

def kill_jvm(client):
    until = time.monotonic() + 90
    while not client.get_checkpoints():
        assert time.monotonic() < until
        time.sleep(0.05)
    os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)

def outcome(client):
    before = time.monotonic()
    try:
        client.get_job_execution_result().result()
        return "it ended well"
    except PenstockError as error:
        return f"{type(error).__name__}: {error}, after {time.monotonic() - before:.0f} s"
"""


def said(folder: Path, program: str) -> str:
    done = run_script(folder, PROGRAM + program, command=(sys.executable,))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.soak
def test_a_job_goes_on_in_a_new_jvm(tmp_path: Path) -> None:
    """The job would restart twice a second against a session that is gone; and so would the next one of the program."""
    text = said(
        tmp_path,
        """
client = started(environment())
kill_jvm(client)
print("first:", outcome(client))
os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
print("second:", outcome(started(environment())))
""",
    )
    assert "first: it ended well" in text and "second: it ended well" in text, text
    assert len(re.findall("sum: 18003000", text)) == 2, text
    assert text.count("starting a new session") == 1, text


@pytest.mark.soak
def test_a_session_of_the_users_that_is_gone_fails_the_job_at_once(tmp_path: Path) -> None:
    """A job would restart without end, or in a session that lacks what its user has set up."""
    text = said(
        tmp_path,
        """
os.environ["JAVA_HOME"] = str(find_java(os.environ).path)
os.environ["PYSPARK_PYTHON"] = sys.executable
builder = SparkSession.builder.master("local[8]").config("spark.ui.enabled", "false")
for key, value in FIXED_AT_START.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
client = started(environment(spark))
kill_jvm(client)
print("running:", outcome(client))
try:
    started(environment(spark))
except PenstockError as error:
    print(f"next: {type(error).__name__}: {error}")
""",
    )
    gone = "SessionLostError: the SparkSession of this job has lost its JVM, which was killed or ran out of memory"
    # A second line names the newest checkpoint.
    (seconds,) = re.findall(f"running: {gone}.* Start a session, .*-s latest\n.*, after (\\d+) s", text)
    assert int(seconds) < 60
    assert f"next: {gone}" in text


NUMBERS = """
import sys, time
from pathlib import Path
from penstock.common import Encoder, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import NumberSequenceSource
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy

out, to_end = sys.argv[1:]

def slowly(value):
    if value % 10 == 0 and not Path(to_end).exists():
        time.sleep(0.05)
    return value

env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
numbers = env.from_source(NumberSequenceSource(1, 100_000), WatermarkStrategy.no_watermarks(), "numbers")
sink = FileSink.for_row_format(out, Encoder.simple_string_encoder())
sink = sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()
numbers.map(slowly).key_by(lambda v: v % 10).map(str).sink_to(sink)
env.execute("numbers")
"""
SETTINGS = {
    "execution.checkpointing.interval": "200ms",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "100",
    "restart-strategy.fixed-delay.delay": "100ms",
}
PATIENCE_S = 240
"""A generous upper bound: beside other work a JVM takes a minute until its first job runs."""


class Numbers:
    """100,000 numbers on their way into files, slowly until `ends`."""

    def __init__(self, folder: Path, settings: Mapping[str, str], variables: Mapping[str, str]) -> None:
        self._settings, self._environment = settings, {**os.environ, **variables}
        self._out, self._to_end, self._log = folder / "out", folder / "to end", folder / "log"
        self._checkpoints = folder / "checkpoints"
        self._program = folder / "numbers.py"
        self._program.write_text(NUMBERS)
        self._killed: set[int] = set()
        self.start()

    def start(self, *going_on: str) -> None:
        """Start its driver, as its user does."""
        settings = {**SETTINGS, **self._settings, "execution.checkpointing.dir": str(self._checkpoints)}
        defaults = [argument for key, value in settings.items() for argument in ("-D", f"{key}={value}")]
        command = [sys.executable, "-m", "penstock.service.cli.main", "run", *defaults, *going_on, str(self._program)]
        with self._log.open("a") as log:
            self.driver = subprocess.Popen(
                [*command, str(self._out), str(self._to_end)], stdout=log, stderr=log, env=self._environment
            )

    def stop(self, age_s: float) -> None:
        """Stop the JVM that starts, so long after it has appeared: it hangs."""
        self.kill(jvms, age_s, signal.SIGSTOP)

    def has_said(self, text: str) -> None:
        """It has."""
        self._until(lambda: text in self._log.read_text(), f"it has not said {text}")

    def names_the_loss(self) -> None:
        """It has said of each JVM that it was killed, and not just that it does not answer."""
        text = self._log.read_text()
        assert "JVM has ended" in text and "the connection to Spark's JVM was lost" not in text, text

    def is_killed(self, after_s: float) -> None:
        """Its driver is killed."""
        self._wait(after_s)
        self.driver.kill()
        self.driver.wait()

    def runs(self) -> None:
        """It has taken a checkpoint and has workers."""
        self._until(lambda: any(self._checkpoints.rglob("_metadata")), "there is no checkpoint")
        self._until(lambda: workers(self.driver.pid), "there are no workers")

    def kill(self, found: Callable[[int], list[int]], age_s: float, number: signal.Signals = signal.SIGKILL) -> None:
        """Kill such a process that was not killed before, so long after it has appeared; of a daemon, its workers, too.

        They would run on without it, and nothing would be restarted.
        """
        (pid, *_) = self._until(lambda: set(found(self.driver.pid)) - self._killed, "there is none to kill")
        self._wait(age_s)
        self._killed.add(pid)
        for one in [pid, *(below for below, *_ in processes(pid) if found is daemons)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, number)

    def ends(self) -> list[int]:
        """Let it end, and return what is in the files."""
        self._to_end.touch()
        assert self.driver.wait(PATIENCE_S) == 0, self._log.read_text()
        files = [path for path in self._out.rglob("*") if path.is_file()]
        visible = [path for path in files if not path.name.startswith((".", "_"))]
        return sorted(int(line) for path in visible for line in path.read_text().splitlines())

    def _wait(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        self._until(lambda: time.monotonic() >= until_s, "the clock stands")

    def _until(self, condition: Callable[[], Any], what: str) -> Any:
        until_s = time.monotonic() + PATIENCE_S
        while not (result := condition()):
            assert self.driver.poll() is None and time.monotonic() < until_s, f"{what}\n{self._log.read_text()}"
            time.sleep(0.05)
        return result


@contextlib.contextmanager
def running(folder: Path, variables: Mapping[str, str] | None = None, **settings: str) -> Iterator[Numbers]:
    started = Numbers(folder, settings, variables or {})
    try:
        yield started
    finally:
        started.driver.kill()
        started.driver.wait()


@pytest.fixture
def numbers(tmp_path: Path) -> Iterator[Numbers]:
    with running(tmp_path) as started:
        yield started


def jvms(root: int) -> list[int]:
    """Of Spark below this process; not that of its launcher, which only makes the command line."""
    below = [(pid, command) for pid, _, command in processes(root) if "org.apache.spark.deploy.SparkSubmit" in command]
    return [pid for pid, command in below if "bin/java " in command and "launcher.Main" not in command]


@pytest.mark.slow
@pytest.mark.soak
def test_a_second_fault_while_the_first_is_mended_is_one_more_restart(numbers: Numbers) -> None:
    """A job with 990 restarts left would end, with half of its output, because a new JVM was killed as it started."""
    numbers.runs()
    numbers.kill(jvms, 0)
    numbers.kill(jvms, 1)
    numbers.kill(daemons, 0)
    assert numbers.ends() == [*range(1, 100_001)]
    numbers.names_the_loss()


@pytest.mark.soak
def test_a_jvm_that_hangs_as_it_starts_is_one_more_restart(tmp_path: Path) -> None:
    """A job would wait for ever for a JVM that was stopped, or that waits for a disk which does not answer."""
    with running(tmp_path, **{"penstock.spark.start-timeout": "20 s"}) as numbers:
        numbers.runs()
        numbers.kill(jvms, 0)
        numbers.stop(0)
        numbers.has_said("did not start within 20 s, and was ended")
        numbers.stop(1.5)
        numbers.has_said("(restart 3)")
        assert numbers.ends() == [*range(1, 100_001)]


@pytest.mark.soak
def test_a_disk_that_is_full_while_a_job_restarts_is_no_end(tmp_path: Path) -> None:
    """A job would end, with restarts left, because Spark or RocksDB has no room on a disk for a moment."""
    if not store.is_possible(tmp_path / "trial"):
        pytest.skip("a disk of its own needs root, loop devices and ext4")
    with store.mounted(tmp_path / "mounted") as disk:
        on_disk = {"spark.local.dir": str(disk), "state.backend.type": "rocksdb"}
        with running(tmp_path, {"TMPDIR": str(disk)}, **on_disk) as numbers:
            numbers.runs()
            with store.Store(disk).full():
                numbers.kill(jvms, 0)
                numbers.has_said("(restart 4)")
            assert numbers.ends() == [*range(1, 100_001)]


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(1, 10))
def test_ten_faults_one_after_the_other_are_ten_restarts(numbers: Numbers, seed: int) -> None:
    """A fault at an unforeseen moment of a start would end the job, or lose records."""
    random = Random(seed)
    numbers.runs()
    for _ in range(10):
        numbers.kill(random.choice([jvms, jvms, daemons]), random.uniform(0, 8))
    assert numbers.ends() == [*range(1, 100_001)]


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(1, 7))
def test_a_driver_that_is_killed_while_a_lost_jvm_is_replaced(numbers: Numbers, seed: int) -> None:
    """Who starts the job again from the latest checkpoint would find output missing or twice, or no checkpoint."""
    random = Random(seed)
    for _ in range(3):
        numbers.runs()
        numbers.kill(jvms, random.uniform(0, 2))
        numbers.is_killed(random.choice([0, random.uniform(0, 8)]))
        numbers.start("-s", "latest")
    numbers.runs()
    assert numbers.ends() == [*range(1, 100_001)]
