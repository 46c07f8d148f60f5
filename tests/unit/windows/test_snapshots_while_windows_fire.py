"""Windows that fire between a barrier and the writing of its snapshot, with functions that change their arguments."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from tests.unit.windows.conftest import Drive, Driver

from penstock.datastream.functions import AggregateFunction
from penstock.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.windows.contents import Aggregated, AllRecords, Contents, Reduced
from penstock.engine.runtime.windows.evaluation import Evaluation, Process


class Total(AggregateFunction):
    """Keeps and gives away its accumulator."""

    def create_accumulator(self) -> dict[str, int]:
        return {"n": 0}

    def add(self, value: Any, accumulator: dict[str, int]) -> dict[str, int]:
        accumulator["n"] += value[1]["n"]
        return accumulator

    def get_result(self, accumulator: dict[str, int]) -> Any:
        return accumulator

    def merge(self, acc_a: dict[str, int], acc_b: dict[str, int]) -> dict[str, int]:
        acc_a["n"] += acc_b["n"]
        return acc_a


class ChangingTotal(Total):
    def get_result(self, accumulator: dict[str, int]) -> Any:
        accumulator["n"] += 1_000
        return repr(accumulator)


class SharedTotal(ChangingTotal):
    shares_slices = True


class Changing:
    """A window function."""

    def process(self, key: Any, context: Any, elements: list[Any]) -> Any:
        for element in elements:
            yield repr(element)
            # A record, an accumulator, or its text.
            found = element[1] if isinstance(element, tuple) else element
            if isinstance(found, dict):
                found["n"] += 1_000


def reduced(a: Any, b: Any) -> Any:
    a[1]["n"] += b[1]["n"]
    return a


def processed() -> Evaluation:
    return Process(UserFunction(Changing(), "process"))


Kind = Callable[[], tuple[Contents, Evaluation]]
KINDS: dict[str, Kind] = {
    "all records": lambda: (AllRecords(), processed()),
    "reduced": lambda: (Reduced(UserFunction(reduced, "reduce")), processed()),
    "aggregated": lambda: (Aggregated(UserFunction(Total(), "add")), processed()),
    "changed by get_result": lambda: (Aggregated(UserFunction(ChangingTotal(), "add")), Evaluation()),
    "changed by both": lambda: (Aggregated(UserFunction(ChangingTotal(), "add")), processed()),
    "shared by windows": lambda: (Aggregated(UserFunction(SharedTotal(), "add")), Evaluation()),
}


def step(job: Driver, random: Random, watermark: int) -> list[Any]:
    """Some records, and time goes on to the watermark. Returns what has been emitted."""
    for _ in range(random.randrange(3)):
        record = (random.choice("ab"), {"n": random.randrange(9)})
        job.records((record, random.randrange(max(0, watermark - 15), watermark + 15)))
    return sorted(map(repr, job.until(watermark).take()))


@pytest.mark.parametrize("lateness", [0, 20])
@pytest.mark.parametrize("assigner", [TumblingEventTimeWindows.of(10), SlidingEventTimeWindows.of(10, 5)], ids=repr)
@pytest.mark.parametrize("kind", KINDS)
def test_a_snapshot_has_what_was_there_at_its_barrier(drive: Drive, kind: str, assigner: Any, lateness: int) -> None:
    """After a restart results would be those of contents that functions had changed after the barrier."""
    for seed in range(20):
        random = Random(seed)
        job = drive(assigner, *KINDS[kind](), lateness=lateness)
        for number in range(random.randrange(1, 4)):
            step(job, Random(100 * seed + number), 7 * number)
            for table in job.operator.backend.tables.values():
                table.freeze(False).release()
        frozen = {name: table.freeze(True) for name, table in job.operator.backend.tables.items()}
        watermarks = [7 * (number + 1) for number in range(3, 8)]
        emitted = [step(job, Random(1_000 * seed + at), at) for at in watermarks]
        written = pickle.dumps({name: list(table.pieces()) for name, table in frozen.items()})
        into = drive(assigner, *KINDS[kind](), lateness=lateness)
        into.until(7 * 2)
        for name, pieces in pickle.loads(written).items():
            for entry_keys, values in pieces:
                into.operator.restored_table(name, "").restore(entry_keys, values)
        into.operator.open()
        again = [step(into, Random(1_000 * seed + at), at) for at in watermarks]
        assert again == emitted, f"seed {seed}"
