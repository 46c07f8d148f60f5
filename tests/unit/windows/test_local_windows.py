"""Aggregation before the exchange: what is sent, and when, so that no record is later than it would be alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy
import pytest

from penstock.common import Time, Types
from penstock.common.errors import ProgramError
from penstock.common.types import Row
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.local_windows import LocalWindowAggregateOperator
from penstock.engine.runtime.columns.windows import ColumnWindowOperator
from penstock.testing import OperatorHarness

READING = Types.ROW_NAMED(["key", "n"], [Types.STRING(), Types.LONG()])
WINDOWS = TumblingEventTimeWindows.of(Time.milliseconds(10))
MAX = (1 << 62) + 1


class Pair:
    """The operators before and behind an exchange. `sent`: partials, watermarks and statuses, in order."""

    def __init__(self, harness: OperatorHarness) -> None:
        operator = harness.operator
        assert isinstance(operator, ColumnWindowOperator)
        both = operator.local_and_global()
        assert both is not None
        self.local, self.behind = both
        assert isinstance(self.local, LocalWindowAggregateOperator)
        self.harness = harness
        self.sent: list[Any] = []
        self.columns = operator.columns_received
        self.local.setup(operator.context, self)
        self.behind.setup(operator.context, operator.output)
        self.behind.open()

    def push(self, *records: tuple[str | None, int | None, int]) -> None:
        """Process records in one chunk: key, number, time."""
        assert self.columns is not None
        batch = self.columns.batch_of([Row(key=key, n=n) for key, n, _ in records])
        self.local.process(Columns(batch, numpy.array([at for _, _, at in records])))

    def take(self) -> list[Any]:
        """Return and clear what was sent."""
        sent, self.sent = self.sent, []
        return sent

    def emit(self, chunk: Columns) -> bool:
        """Receive partials."""
        assert chunk.timestamps is not None
        self.sent += [
            (*record.values(), at)
            for record, at in zip(chunk.batch.to_pylist(), chunk.timestamps.tolist(), strict=True)
        ]
        self.behind.process(chunk)
        return True

    def watermark(self, timestamp: int) -> bool:
        """Receive a watermark."""
        self.sent.append(timestamp)
        self.behind.watermark(timestamp)
        while self.behind.paused:
            self.behind.context.budget.begin_step()
            self.behind.resume()
        return True

    def status(self, active: bool) -> bool:
        """Receive a status."""
        self.sent.append(active)
        return True


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Return operators that count records and sum n by key."""
    aggregates = {"count": "count", "total": ("n", "sum")}
    with OperatorHarness(
        lambda stream: stream.as_columns(READING).key_by("key").window(WINDOWS).aggregate(aggregates)
    ) as harness:
        yield Pair(harness)


def test_a_slice_leaves_before_the_watermark_that_ends_it(pair: Pair) -> None:
    """Its records would be late, all of them."""
    pair.push(("a", 1, 3), ("b", None, 4), ("a", 5, 12), (None, 7, 3))
    pair.push(("a", 2, 5))
    assert pair.take() == [], "nothing before"
    pair.local.watermark(9)
    assert pair.take() == [("a", 2, 3, 2, 9), ("b", 1, None, 1, 9), (None, 1, 7, 1, 9), 9]
    pair.local.watermark(30)
    assert pair.take() == [("a", 1, 5, 1, 19), 30]
    assert list(map(tuple, pair.harness.outputs())) == [("a", 2, 3), ("b", 1, None), (None, 1, 7), ("a", 1, 5)]
    assert pair.harness.counters.late_records_dropped == 0


def test_the_least_and_the_greatest_are_merged() -> None:
    """A partial minimum would be added like a record of its own, or the one of nothing would win."""
    aggregates = {"least": ("n", "min"), "greatest": ("n", "max")}
    with OperatorHarness(
        lambda stream: stream.as_columns(READING).key_by("key").window(WINDOWS).aggregate(aggregates)
    ) as harness:
        pair = Pair(harness)
        pair.push(("a", 4, 3), ("b", None, 4), ("a", -5, 4), ("c", 7, 3))
        pair.local.prepare_snapshot(1, False)
        pair.push(("a", 9, 5), ("c", None, 5))
        pair.local.watermark(9)
        assert list(map(tuple, harness.outputs())) == [("a", -5, 9), ("b", None, None), ("c", 7, 7)]


@pytest.mark.parametrize("float_type", [Types.DOUBLE(), Types.FLOAT()])
@pytest.mark.parametrize("seed", range(6))
def test_the_least_and_the_greatest_float_are_those_of_rows(seed: int, float_type: Any) -> None:
    """NaN would be the least, -0.0 would come and go with the order, or None would become a number."""
    random = Random(seed)
    reading = Types.ROW_NAMED(["key", "n", "f"], [Types.STRING(), Types.LONG(), float_type])
    aggregates = {"least": ("f", "min"), "greatest": ("f", "max"), "total": ("n", "sum"), "some": ("f", "count")}

    def program(stream: Any) -> Any:
        return stream.key_by("key").window(WINDOWS).aggregate(aggregates)

    with (
        OperatorHarness(lambda stream: program(stream.as_columns(reading))) as harness,
        OperatorHarness(program) as rows,
    ):
        pair = Pair(harness)
        assert pair.columns is not None
        # Sums that could exceed 64 bits leave record by record.
        numbers = [1, 5, (1 << 61) + 1] if seed % 2 else [1, 5]
        for _ in range(12):
            some = [
                Row(
                    key=random.choice("abc"),
                    n=random.choice(numbers) * random.choice([1, -1]),
                    f=random.choice([None, 0.5, -0.5, 0.0, -0.0, math.nan, math.inf, -math.inf]),
                )
                for _ in range(5)
            ]
            times = [random.randrange(1, 40) for _ in some]
            pair.local.process(Columns(pair.columns.batch_of(some), numpy.array(times)))
            for record, at in zip(some, times, strict=True):
                rows.push(record, at)
            if random.random() < 0.3:
                pair.local.prepare_snapshot(1, False)
        pair.local.watermark(100)
        rows.finish()
        found, expected = (sorted(repr(tuple(row)) for row in one.outputs()) for one in (harness, rows))
        assert found == expected and "nan" in "".join(found)


def test_averages_and_the_first_value_are_not_aggregated_before() -> None:
    """An average of averages is another number, and of several senders none knows which value came first."""
    for kind in ("avg", "first", "last"):
        with OperatorHarness(
            lambda stream, kind=kind: (  # type: ignore[misc]
                stream.as_columns(READING).key_by("key").window(WINDOWS).aggregate({"result": ("n", kind)})
            )
        ) as harness:
            assert harness.operator.local_and_global() is None


def test_late_records_leave_immediately_and_are_counted(pair: Pair) -> None:
    """They may be in time at the receiver, whose watermark is the lowest of all senders; or be late there."""
    pair.local.watermark(15)
    pair.take()
    pair.push(("a", 1, 3), ("a", 1, 4), ("b", 1, 16))
    assert pair.take() == [("a", 2, 2, 2, 9)]
    assert pair.harness.counters.late_records_dropped == 2, "records, not partials"


@pytest.mark.parametrize("event", ["barrier", "idle", "end"])
def test_nothing_stays(pair: Pair, event: str) -> None:
    """Records would be in no snapshot, late by the watermark of others, or lost at the end."""
    pair.push(("a", 1, 3), ("a", 1, 13))
    if event == "barrier":
        pair.local.prepare_snapshot(1, False)
    elif event == "idle":
        pair.local.status(False)
    else:
        pair.local.finish()
    sent = [("a", 1, 1, 1, 9), ("a", 1, 1, 1, 19)]
    assert pair.take() == ([*sent, False] if event == "idle" else sent)
    pair.local.status(True)
    assert pair.take() == [True]


def test_too_many_keys_are_sent(pair: Pair) -> None:
    """Memory would grow with the keys of all windows, twice."""
    pair.local.keys_max = 3
    pair.push(("a", 1, 1), ("b", 1, 1), ("c", 1, 1))
    assert pair.take() == []
    pair.push(("d", 1, 11))
    assert sorted(pair.take()) == [("a", 1, 1, 1, 9), ("b", 1, 1, 1, 9), ("c", 1, 1, 1, 9), ("d", 1, 1, 1, 19)]


def test_sums_that_are_too_large_for_an_array(pair: Pair) -> None:
    """A sum of two would wrap before the exchange."""
    pair.push(("a", MAX, 1), ("a", MAX, 2), ("a", -MAX, 3), ("b", 1, 3), ("a", -5, 4))
    pair.local.watermark(9)
    assert list(map(tuple, pair.harness.outputs())) == [("a", 4, MAX - 5), ("b", 1, 1)]


def test_records_without_a_time_are_refused(pair: Pair) -> None:
    """They would be in no window, silently."""
    assert pair.columns is not None
    with pytest.raises(ProgramError, match="timestamp"):
        pair.local.process(Columns(pair.columns.batch_of([Row(key="a", n=1)])))


@pytest.mark.parametrize(
    ("kinds", "settings", "is_possible"),
    [
        ((Types.LONG(),), {}, True),
        ((Types.DOUBLE(),), {}, False),
        ((Types.LONG(),), {"lateness_ms": 5}, False),
    ],
)
def test_what_aggregates_before_the_exchange(kinds: Any, settings: dict[str, int], is_possible: bool) -> None:
    """A sum of floats depends on the order; late records have to arrive one by one."""
    record = Types.ROW_NAMED(["key", "n"], [Types.STRING(), *kinds])
    with OperatorHarness(
        lambda stream: (
            stream.as_columns(record)
            .key_by("key")
            .window(WINDOWS)
            .allowed_lateness(settings.get("lateness_ms", 0))
            .aggregate({"total": ("n", "sum")})
        )
    ) as harness:
        assert (harness.operator.local_and_global() is not None) is is_possible
