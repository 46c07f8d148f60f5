"""What tests on Spark have in common: environments in either mode, results, scripts, processes below the driver."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from penstock.common import Configuration, Encoder, JobStatus
from penstock.connectors.base.rate_limiter import RateLimiter, RateLimiterStrategy, SteadyRateLimiter
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.datastream.functions import KeyedProcessFunction, MapFunction, RuntimeContext
from penstock.hosts.spark.driver.class_archive import ClassArchive
from penstock.hosts.spark.driver.java import find_java

ROOT = Path(__file__).parents[2]
STREAMING, BATCH = RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH
MODES = {"pipelined": STREAMING, "batched": BATCH}
in_both_modes = pytest.mark.parametrize("mode", MODES.values(), ids=MODES.keys())


def in_one_mode(mode: RuntimeExecutionMode) -> pytest.MarkDecorator:
    """Return the mark of a program that simulated jobs run in both modes: on Spark it runs in this one.

    The other one is in the soak. Of the programs of a file, every second one is batched.
    """
    both = [pytest.param(one, id=name, marks=[] if one is mode else [pytest.mark.soak]) for name, one in MODES.items()]
    return pytest.mark.parametrize("mode", both)


pipelined, batched = in_one_mode(STREAMING), in_one_mode(BATCH)
END_SECONDS = 30
"""A generous upper bound for what is to end at once."""


def environment(
    mode: RuntimeExecutionMode = STREAMING, parallelism: int = 2, settings: dict[str, str] | None = None
) -> StreamExecutionEnvironment:
    configuration = Configuration()
    for key, value in (settings or {}).items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    return env.set_parallelism(parallelism).set_runtime_mode(mode)


def lines_to(out: Path) -> FileSink:
    """A sink of lines that are visible with each checkpoint."""
    builder = FileSink.for_row_format(out, Encoder.simple_string_encoder())
    return builder.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()


def collect(stream: Any) -> list[Any]:
    """All values of a bounded stream."""
    with stream.execute_and_collect() as values:
        return list(values)


def failure_of(run: Callable[[], Any]) -> str:
    """The text of the PenstockError that `run` raises."""
    from penstock.common.errors import PenstockError

    with pytest.raises(PenstockError) as raised:
        run()
    return str(raised.value)


def wait_until(condition: Callable[[], Any], what: str, seconds: float = END_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"after {seconds} s: {what}"
        time.sleep(0.05)


def wait_until_running(client: Any) -> None:
    def running() -> bool:
        status = client.get_job_status().result()
        assert not status.is_globally_terminal_state(), f"the job has ended: {status}"
        return status is JobStatus.RUNNING

    wait_until(running, "the job does not run", 60)


def processes(root: int | None = None) -> list[tuple[int, int, str]]:
    """(pid, parent, command) of every process below this one, or below `root`."""
    lines = subprocess.check_output(["ps", "-ww", "-eo", "pid=,ppid=,args="], text=True).splitlines()
    fields = (line.split(None, 2) for line in lines)
    return below(root or os.getpid(), [(int(f[0]), int(f[1]), f[2]) for f in fields if len(f) == 3])


def below(root: int, all_processes: Iterable[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    children: dict[int, list[tuple[int, int, str]]] = {}
    for process in all_processes:
        children.setdefault(process[1], []).append(process)
    found: list[tuple[int, int, str]] = []
    waiting = [root]
    while waiting:
        for process in children.get(waiting.pop(), []):
            found.append(process)
            waiting.append(process[0])
    return found


def _daemons_and_workers(root: int | None) -> dict[int, int]:
    """Parents by pid. Workers are forked by daemons, which stay."""
    return {pid: parent for pid, parent, command in processes(root) if re.search(r"python\S* -m \S*daemon\b", command)}


def workers(root: int | None = None) -> list[int]:
    """Python workers of Spark below this process, or below `root`."""
    parents = _daemons_and_workers(root)
    return [pid for pid, parent in parents.items() if parent in parents]


def daemons(root: int | None = None) -> list[int]:
    """From which Spark forks the Python workers below this process, or below `root`."""
    parents = _daemons_and_workers(root)
    return [pid for pid, parent in parents.items() if parent not in parents]


def no_worker_left() -> None:
    wait_until(lambda: not workers(), "Python workers of a job that is over are still there")


def run_script(
    folder: Path, source: str, *arguments: str, command: tuple[str, ...] = (), variables: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Write a program into `folder` and run it as a user would: by `penstock run`, unless `command` says otherwise."""
    script = folder / "job.py"
    script.write_text(textwrap.dedent(source))
    starter = command or (str(Path(sys.executable).with_name("penstock")), "run")
    return subprocess.run(
        [*starter, str(script), *arguments],
        capture_output=True,
        text=True,
        timeout=180,
        cwd=folder,
        env={**os.environ, **(variables or {})},
    )


def jvm_options() -> str:
    """Options for a JVM of Spark that penstock does not start: those of tests/conftest.py, and the class archive."""
    return f"{os.environ['SPARK_SUBMIT_OPTS']} {ClassArchive(find_java(os.environ), os.environ).options}"


class SlowUntil(RateLimiterStrategy):
    """So many records a second until there is a file, then as many as can be read.

    So the job is in its middle while a test looks at it, and nobody waits for its end.
    """

    def __init__(self, records_per_second: float, file: Path) -> None:
        self.records_per_second = records_per_second
        self.file = file

    def create_rate_limiter(self, parallelism: int, subtask: int) -> RateLimiter:
        return _SlowUntil(self.records_per_second / parallelism, self.file)


class _SlowUntil(SteadyRateLimiter):
    def __init__(self, records_per_second: float, file: Path) -> None:
        super().__init__(records_per_second)
        self.file = file

    def due(self, now_ms: int) -> int:
        return 1_000 if self.file.exists() else super().due(now_ms)


class Subtask(MapFunction[Any, tuple[str, int, Any]]):
    """Says which subtask a value came to: (label, subtask, value)."""

    def __init__(self, label: str) -> None:
        self.label = label

    def open(self, runtime_context: RuntimeContext) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()

    def map(self, value: Any) -> tuple[str, int, Any]:
        return self.label, self.subtask, value


class Marked(KeyedProcessFunction[Any, Any, Any]):
    """Passes values on and leaves a file for each call of open and close."""

    def __init__(self, folder: Path, fail_on: Any = None) -> None:
        self.folder = folder
        self.fail_on = fail_on

    def open(self, runtime_context: RuntimeContext) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()
        self._mark("open")

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        if self.fail_on is not None and value == self.fail_on:
            raise ValueError(f"refuse {value}")
        yield value

    def close(self) -> None:
        self._mark("close")

    def _mark(self, what: str) -> None:
        with (self.folder / f"{what}-{self.subtask}").open("a") as file:
            file.write(f"{os.getpid()}\n")


def marks(folder: Path) -> dict[str, int]:
    """How often each subtask of `Marked` was opened and closed."""
    return {path.name: len(path.read_text().splitlines()) for path in sorted(folder.iterdir())}
