"""Worker processes that are killed: transparent in batched mode, reported at once in pipelined mode."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.spark.jobs import (
    BATCH,
    STREAMING,
    collect,
    daemons,
    environment,
    no_worker_left,
    wait_until_running,
    workers,
)

from penstock.common import Encoder, JobStatus, WatermarkStrategy
from penstock.common.errors import TaskLostError
from penstock.connectors.base.data_generator import DataGeneratorSource
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.connectors.files.source import FileSource, StreamFormat
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.functions import KeyedProcessFunction, RuntimeContext
from penstock.datastream.state import ValueStateDescriptor

pytestmark = pytest.mark.spark
NONE = WatermarkStrategy.no_watermarks()


def kill_once(folder: Path, name: str) -> None:
    """Kill the process that calls this, as the kernel would when memory is short; the next one to call it lives."""
    try:
        (folder / name).touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


class CountsAndDies(KeyedProcessFunction[int, int, Any]):
    """Counts per key, and kills its worker once in each subtask, after a part of its input."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))
        self.name = f"{type(self).__name__}-{runtime_context.get_index_of_this_subtask()}"
        self.seen = 0

    def process_element(self, value: int, ctx: Any) -> Any:
        self.seen += 1
        if self.seen == 1_500:
            kill_once(self.folder, self.name)
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield ctx.get_current_key(), count, value


def killing(folder: Path, name: str, at: int) -> Callable[[int], int]:
    def pass_on(value: int) -> int:
        if value == at:
            kill_once(folder, name)
        return value

    return pass_on


def killed(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_batched_workers_killed_in_each_stage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A task that Spark runs again would count records twice, or lose those that its first run had sent."""
    deaths, out = tmp_path / "deaths", tmp_path / "out"
    deaths.mkdir()
    env = environment(BATCH, 2)
    numbers = env.from_source(NumberSequenceSource(0, 9_999), NONE, "numbers").map(killing(deaths, "source", 7_000))
    counted = numbers.shuffle().map(lambda v: v).key_by(lambda v: v % 50).process(CountsAndDies(deaths))
    last = counted.rebalance().map(lambda row: row).map(killing_row(deaths, "last"))
    last.map(lambda row: f"{row[0]},{row[1]},{row[2]}").sink_to(
        FileSink.for_row_format(out, Encoder.simple_string_encoder()).build()
    )
    last.filter(lambda row: row[1] == 200).map(lambda row: row[0]).print("full")
    collected = collect(last)

    assert killed(deaths) == ["CountsAndDies-0", "CountsAndDies-1", "last", "source"], "all of them were killed"
    assert len(collected) == 10_000
    assert sorted(value for _, _, value in collected) == [*range(10_000)]
    assert Counter(key for key, _, _ in collected) == dict.fromkeys(range(50), 200)
    for key in range(50):
        assert sorted(count for k, count, _ in collected if k == key) == [*range(1, 201)]
    printed = [line.split("> ")[1] for line in capsys.readouterr().out.splitlines() if line.startswith("full:")]
    assert sorted(map(int, printed)) == [*range(50)]
    lines = [line for path in visible(out) for line in path.read_text().splitlines()]
    assert sorted(int(line.split(",")[2]) for line in lines) == [*range(10_000)]
    no_worker_left()


def killing_row(folder: Path, name: str) -> Callable[[Any], Any]:
    die = killing(folder, name, 5_000)

    def pass_on(row: Any) -> Any:
        die(row[2])
        return row

    return pass_on


def visible(folder: Path) -> list[Path]:
    """The files of a FileSink that a reader would see."""
    inside = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    return [folder / path for path in inside if not any(part.startswith((".", "_")) for part in path.parts)]


def test_batched_reading_of_files_killed(tmp_path: Path) -> None:
    """A reader of files that is started again would read a piece twice, or another piece."""
    deaths = tmp_path / "deaths"
    deaths.mkdir()
    (tmp_path / "in").mkdir()
    for number in range(4):
        lines = "".join(f"{number * 5_000 + i}\n" for i in range(5_000))
        (tmp_path / "in" / f"{number}.txt").write_text(lines)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), tmp_path / "in")
    env = environment(BATCH, 2)
    numbers = env.from_source(source.set_split_size(4_000).build(), NONE, "files").map(int)
    sums = numbers.map(killing(deaths, "reader", 13_000)).key_by(lambda v: v % 2).reduce(lambda a, b: a + b)

    assert sorted(collect(sums)) == sorted([sum(range(0, 20_000, 2)), sum(range(1, 20_000, 2))])
    assert killed(deaths) == ["reader"]


@pytest.mark.parametrize("levels", [1, 2])
def test_pipelined_worker_killed(levels: int) -> None:
    """A job that has lost a part of itself would go on, silent and wrong, or hang."""
    env = environment(STREAMING, 2)
    stream = env.from_source(DataGeneratorSource(lambda i: i), NONE, "endless")
    if levels == 2:
        stream = stream.key_by(lambda v: v % 100).map(lambda v: v)
    stream.filter(lambda v: False).print()
    client = env.execute_async()
    wait_until_running(client)
    time.sleep(1)
    os.kill(workers()[-1], signal.SIGKILL)

    with pytest.raises(TaskLostError) as raised:
        client.get_job_execution_result().result(60)
    message = str(raised.value)
    assert any(words in message for words in ("went away", "lost", "was killed from outside (SIGKILL")), message
    assert "org.apache" not in message
    assert client.get_job_status().result() is JobStatus.FAILED
    no_worker_left()


def kill_daemons_that_start(times: int, random: Random) -> threading.Thread:
    """Kill those that there are, and then so many, each a moment after it has begun."""

    def kill() -> None:
        known = set(daemons())
        for pid in known:
            os.kill(pid, signal.SIGKILL)
        for _ in range(times):
            deadline = time.monotonic() + 20
            while not (new := set(daemons()) - known) and time.monotonic() < deadline:
                time.sleep(0.005)
            time.sleep(random.uniform(0, 0.1))
            for pid in new:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            known |= new

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


@pytest.mark.soak
def test_daemons_that_are_killed_while_they_start() -> None:
    """An executor that keeps a daemon without its address would fail each restart of each job from then on."""
    random = Random(1)
    settings = {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "20",
        "restart-strategy.fixed-delay.delay": "100 ms",
    }
    for _ in range(20):
        killer = kill_daemons_that_start(random.choice((1, 2, 3)), random)
        env = environment(STREAMING, 2, settings)
        sums = collect(env.from_collection(range(10)).key_by(lambda v: v % 5).reduce(lambda a, b: a + b))
        killer.join()
        assert {5, 7, 9, 11, 13} <= set(sums)
