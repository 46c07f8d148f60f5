"""Large rows in memory that workers share, in real jobs: kills, a stopped receiver, a full directory."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.first_cases import first_of
from tests.spark.jobs import STREAMING, environment, lines_to, no_worker_left, wait_until, workers
from tests.spark.test_lost_workers import killed, killing, visible

from penstock.common import WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, RuntimeContext
from penstock.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from penstock.datastream.state import ValueStateDescriptor

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has what shared memory needs"),
]

NONE = WatermarkStrategy.no_watermarks()
DIRECTORY, SIZE = "penstock.network.shared-memory.directory", "penstock.network.shared-memory.size"
RECORDS, KEYS, BYTES = 1_500, 5, 150_000
_PAGE = 4096


def large(number: int) -> tuple[int, bytes]:
    return number, number.to_bytes(4, "big") * (BYTES // 4)


class Checks(KeyedProcessFunction[int, tuple[int, bytes], str]):
    """Counts per key, and says which number it is if each byte of its payload is right. `folder`: notes who it is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))
        (self.folder / f"receiver-{os.getpid()}").touch()

    def process_element(self, value: tuple[int, bytes], ctx: Any) -> Any:
        number, payload = value
        assert payload == large(number)[1]
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{number},{count}"


def pools(directory: Path) -> list[Path]:
    folder = directory / f"penstock-{os.geteuid()}"
    return list(folder.iterdir()) if folder.exists() else []


def claims_in(directory: Path) -> int:
    """How many blocks of all pools have held a payload."""
    used = 0
    for path in pools(directory):
        stamps = path.read_bytes()[_PAGE : _PAGE + 8 * 128]
        used += sum(any(stamps[at : at + 8]) for at in range(0, len(stamps), 8))
    return used


def receivers(notes: Path) -> set[int]:
    """The running processes of receivers."""
    noted = {int(name.partition("-")[2]) for name in killed(notes) if name.startswith("receiver-")}
    return noted & set(workers())


def started(tmp_path: Path, settings: dict[str, str]) -> tuple[Any, Path]:
    """A job on large records, whose source kills its worker once; the folder of notes."""
    notes = tmp_path / "notes"
    notes.mkdir()
    env = environment(
        STREAMING,
        2,
        {
            "execution.checkpointing.interval": "200 ms",
            "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.delay": "0 s",
            **settings,
        },
    )
    source = DataGeneratorSource(lambda n: n, RECORDS, RateLimiterStrategy.per_second(500))
    numbers = env.from_source(source, NONE, "numbers").map(killing(notes, "source", RECORDS // 3)).map(large)
    numbers.key_by(lambda pair: pair[0] % KEYS).process(Checks(notes)).sink_to(lines_to(tmp_path / "out"))
    return env.execute_async("large"), notes


def check_results(tmp_path: Path) -> None:
    lines = [line for path in visible(tmp_path / "out") for line in path.read_text().splitlines()]
    assert sorted(int(line.partition(",")[0]) for line in lines) == list(range(RECORDS))
    assert Counter(int(line.partition(",")[2]) for line in lines) == dict.fromkeys(range(1, RECORDS // KEYS + 1), KEYS)


@pytest.mark.parametrize("unaligned", first_of(1, ["true", "false"]))
def test_kills_and_a_stopped_receiver(tmp_path: Path, unaligned: str) -> None:
    """Payloads would be lost with a worker, exchanged, or read after their blocks were used again."""
    shared = tmp_path / "shared"
    shared.mkdir()
    client, notes = started(tmp_path, {DIRECTORY: str(shared), "execution.checkpointing.unaligned.enabled": unaligned})
    wait_until(lambda: claims_in(shared) > 10, "no payload has come through shared memory", 60)
    wait_until(lambda: "source" in killed(notes), "the source lives", 60)
    wait_until(lambda: client.get_num_restarts() == 1, "the job has not restarted", 60)
    wait_until(lambda: receivers(notes), "no receiver has started", 60)
    stopped = receivers(notes).pop()
    os.kill(stopped, signal.SIGSTOP)
    time.sleep(1)
    os.kill(stopped, signal.SIGCONT)
    client.get_job_execution_result().result()
    check_results(tmp_path)
    no_worker_left()
    assert pools(shared) == [], "killed workers' too"


@pytest.mark.parametrize("settings", first_of(1, [{DIRECTORY: "/proc"}, {SIZE: "0"}]))
def test_without_shared_memory_rows_travel_through_spark(tmp_path: Path, settings: dict[str, str]) -> None:
    """A machine whose directory is full or missing would not run jobs."""
    client, _ = started(tmp_path, settings)
    client.get_job_execution_result().result()
    check_results(tmp_path)
