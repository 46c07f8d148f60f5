"""Several slots in one worker process: results, loops, failures, kills and logs are as with a process for each."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.spark.jobs import STREAMING, collect, environment, failure_of, lines_to, no_worker_left
from tests.spark.test_iterations import EXPECTED, collatz
from tests.spark.test_lost_workers import killed, killing, visible
from tests.spark.test_rescaling import KEYS, Counts

from penstock.common import WatermarkStrategy
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.datastream import MapFunction, RuntimeContext
from penstock.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy

pytestmark = pytest.mark.spark

SHARED = "taskmanager.numberOfTaskSlots"
NONE = WatermarkStrategy.no_watermarks()
RECORDS = 12_000


class Says(MapFunction):
    """Says which subtask and process it is."""

    def open(self, runtime_context: RuntimeContext) -> None:
        import os

        self.place = runtime_context.get_index_of_this_subtask(), os.getpid()

    def map(self, value: int) -> Any:
        print(f"{value} in {self.place[0]}")
        return self.place


def test_slots_share_processes_and_nothing_else() -> None:
    """Subtasks would be mixed up, or each would have the process that the setting is to save."""
    env = environment(STREAMING, 5, {SHARED: "2"})
    places = set(collect(env.from_source(NumberSequenceSource(1, 500), NONE, "numbers").rebalance().map(Says())))
    subtasks = Counter(process for _, process in places)
    assert {subtask for subtask, _ in places} == set(range(5))
    assert sorted(subtasks.values()) == [1, 2, 2]


def test_a_loop_between_slots_of_one_worker() -> None:
    """What is fed back by the socket of a worker would reach another one of its slots."""
    env = environment(STREAMING, 4, {SHARED: "2"})
    assert sorted(collect(collatz(env))) == EXPECTED
    no_worker_left()


@pytest.mark.soak
@pytest.mark.parametrize("backend", ["rocksdb", "hashmap"])
def test_a_killed_worker_and_another_number_of_them(tmp_path: Path, backend: str) -> None:
    """All slots of a worker are lost with it: records would be missing, or come twice."""
    deaths = tmp_path / "deaths"
    deaths.mkdir()
    settings = {
        SHARED: "3",
        "execution.checkpointing.interval": "200 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "state.backend.type": backend,
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "0 s",
    }
    env = environment(STREAMING, 5, settings)
    source = DataGeneratorSource(lambda n: n, RECORDS, RateLimiterStrategy.per_second(4_000))
    numbers = env.from_source(source, NONE, "numbers").map(killing(deaths, "source", RECORDS // 2))
    numbers.key_by(lambda n: n % KEYS).process(Counts()).sink_to(lines_to(tmp_path / "out"))
    client = env.execute_async("killed")
    client.get_job_execution_result().result()
    lines = [line for path in visible(tmp_path / "out") for line in path.read_text().splitlines()]
    counts = Counter(line.partition(",")[0] for line in lines)
    assert len(lines) == len(set(lines)) == RECORDS and set(counts.values()) == {RECORDS // KEYS}
    assert (killed(deaths), client.get_num_restarts()) == (["source"], 1)


def fails(value: int) -> int:
    if value == 77:
        raise ValueError("no such number")
    return value


def test_a_failure_names_the_subtask_and_ends_its_neighbors() -> None:
    """The user would look for the fault in another subtask, or wait for slots that go on."""
    env = environment(STREAMING, 6, {SHARED: "3", "restart-strategy.type": "none"})
    stream = env.from_source(NumberSequenceSource(1, 600), NONE, "numbers").key_by(lambda n: n % 60).map(fails)
    message = failure_of(lambda: collect(stream.name("careful")))
    assert "no such number" in message and "'careful'" in message and "of 6" in message, message
    no_worker_left()


def test_each_slot_has_a_log_of_its_own(tmp_path: Path) -> None:
    """What a function prints would be in the log of another subtask."""
    env = environment(STREAMING, 4, {SHARED: "4", "env.log.dir": str(tmp_path)})
    collect(env.from_source(NumberSequenceSource(1, 400), NONE, "numbers").rebalance().map(Says()))
    (folder,) = tmp_path.iterdir()
    for subtask in range(4):
        text = (folder / f"level-1-slot-{subtask}.log").read_text()
        assert f" in {subtask}" in text
        assert not [other for other in range(4) if other != subtask and f" in {other}\n" in text]
