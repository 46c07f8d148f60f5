"""Windows of declared rows that aggregate before the exchange, and whose state is larger than memory: rows decide."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.first_cases import first_of
from tests.unit.aggregates_of_fields import FLOATS
from tests.unit.windows.test_windows_of_declared_rows import (
    CUMULATIVE,
    SIZES,
    SLIDING,
    TUMBLING,
    Stored,
    Windows,
    plain,
    records_of,
    same_failure,
    sorted_results,
    times_around,
)
from tests.unit.windows.whole_chunks import process

from penstock.common.constants import MAX_TIMESTAMP
from penstock.common.types import Row
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.local_mixed_windows import LocalMixedWindowAggregateOperator
from penstock.engine.runtime.columns.mixed_contents import ARRAYS_FROM

IN_ANY_ORDER = {
    "count": "count",
    "ns": ("n", "count"),
    "total": ("n", "sum"),
    "least": ("n", "min"),
    "greatest": ("n", "max"),
    "least_float": ("f", "min"),
    "greatest_float": ("f", "max"),
    "start": "window_start",
}


class LocalWindows(Windows):
    """Windows behind an operator that aggregates before the exchange. `sent`: what crosses it."""

    def __init__(self, assigner: Any = TUMBLING, aggregates: Any = IN_ANY_ORDER) -> None:
        super().__init__(True, assigner, aggregates=aggregates)
        both = self.operator.local_and_global()
        assert both is not None
        self.local, behind = both
        assert isinstance(self.local, LocalMixedWindowAggregateOperator)
        self.sent: list[Any] = []
        self.local.setup(self.operator.context, self)
        behind.setup(self.operator.context, self.operator.output)
        behind.open()
        self.harness.operator = self.operator = behind

    def push(self, records: list[Any], times: list[int] | None, as_rows: bool = False) -> None:
        """Process a chunk before the exchange."""
        assert self._fields is not None
        rows = Rows(records, times)
        chunk = None if as_rows else self._fields.columns_of(rows)
        self.local.process(rows if chunk is None else chunk)

    def watermark(self, timestamp: int) -> bool:
        """Receive a watermark behind the exchange."""
        self.harness.watermark(timestamp)
        return True

    def emit(self, chunk: Columns | Rows) -> bool:
        """Receive a chunk behind the exchange."""
        self.sent.append(chunk)
        process(self.operator, chunk)
        return True


def advance(windows: Windows, watermark: int) -> None:
    """Send a watermark."""
    (windows.local if isinstance(windows, LocalWindows) else windows.harness).watermark(watermark)


def new_windows(kind: str, assigner: Any, aggregates: Any = IN_ANY_ORDER) -> Windows:
    """Return windows on rows, on columns, or those that aggregate before the exchange."""
    if kind == "local":
        return LocalWindows(assigner, aggregates)
    return Windows(kind == "columns", assigner, aggregates=aggregates)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("wrong", [0.0, 0.002, 0.1])
@pytest.mark.parametrize("assigner", [TUMBLING, CUMULATIVE])
def test_results_are_those_of_rows(assigner: Any, wrong: float, seed: int) -> None:
    """A record would be added twice, be late, or be added to a sum of floats in another order."""
    random, watermark = Random(seed), 0
    rows, local = new_windows("rows", assigner), LocalWindows(assigner)
    failed = False
    for step in range(15):
        records = records_of(random, random.choice(SIZES), wrong)
        times = times_around(random, watermark, len(records))
        as_rows = random.random() < 0.3
        failed = same_failure(rows, local, lambda one: one.push(records, times, as_rows))  # noqa: B023
        watermark += random.choice([0, random.randrange(12)])
        failed = failed or same_failure(rows, local, lambda one: advance(one, watermark))  # noqa: B023
        assert wrong or not failed
        if failed:
            return
        if not random.randrange(4):
            local.local.prepare_snapshot(step, False)
        assert sorted_results(rows) == sorted_results(local), step
    failed = same_failure(rows, local, lambda one: advance(one, MAX_TIMESTAMP))
    assert wrong or not failed
    assert failed or sorted_results(rows) == sorted_results(local)
    assert rows.harness.counters.late_records_dropped == local.harness.counters.late_records_dropped
    assert wrong or sum(map(len, local.sent)) < 15 * max(SIZES) / 2, "few of the records are sent"


@pytest.mark.parametrize("seed", first_of(1, range(3)))
@pytest.mark.parametrize("wrong", [0.0, 0.001])
@pytest.mark.parametrize("assigner", [TUMBLING, CUMULATIVE, SLIDING])
def test_each_form_continues_the_others(assigner: Any, wrong: float, seed: int) -> None:
    """An upgrade, or one of the options, would lose windows, or have partial aggregates twice."""
    random, watermark, stored = Random(seed), 0, Stored()
    kinds = ["rows", "columns", "columns"] if assigner is SLIDING else ["rows", "columns", "local", "local"]
    oracle, actual = new_windows("rows", assigner), new_windows(random.choice(kinds), assigner)
    for step in range(25):
        records = records_of(random, random.choice(SIZES), wrong)
        times = times_around(random, watermark, len(records))
        as_rows = random.random() < 0.3
        failed = same_failure(oracle, actual, lambda one: one.push(records, times, as_rows))  # noqa: B023
        watermark += random.choice([0, random.randrange(12)])
        if failed or same_failure(oracle, actual, lambda one: advance(one, watermark)):  # noqa: B023
            assert wrong
            return
        what = random.choice(["nothing", "checkpoint", "checkpoint", "restore", "restore from a savepoint"])
        if what == "nothing":
            continue
        if isinstance(actual, LocalWindows):
            actual.local.prepare_snapshot(step, "savepoint" in what)
        stored.take(actual, savepoint="savepoint" in what)
        if "restore" in what:
            assert sorted_results(oracle) == sorted_results(actual), step
            actual = new_windows(random.choice(kinds), assigner)
            stored.restore(actual)
            advance(actual, watermark)
            if random.random() < 0.5 or "savepoint" in what:
                stored = Stored()
    if not same_failure(oracle, actual, lambda one: advance(one, MAX_TIMESTAMP)):
        assert sorted_results(oracle) == sorted_results(actual)


def test_values_of_other_types_are_added_in_their_order() -> None:
    """2 ** 53 + 0.5 + 1 + 1 is not 2 ** 53 + 0.5 + 2: a sum would depend on the size of chunks."""
    rows, local = new_windows("rows", TUMBLING), LocalWindows()
    first = [Row(key="a", n=(1 << 53) - 1, f=None), Row(key="a", n=1, f=None)]
    odd = [Row(key="a", n=0.5, f=None)]
    for one in (rows, local):
        one.push(first * ARRAYS_FROM, [1] * 2 * ARRAYS_FROM)
        one.push(odd, [2])
        one.push([Row(key="a", n=1, f=None)] * 151, [3] * 151)
        one.push([Row(key="a", n=1, f=None)] * 150, [13] * 150)
        advance(one, MAX_TIMESTAMP)
    found = sorted_results(local)
    assert found == sorted_results(rows)
    # Those of the window without such a value still leave together.
    assert [len(chunk) for chunk in local.sent] == [1, 1, 151, 1]


def test_a_zero_has_no_sign_also_if_it_comes_first_and_alone() -> None:
    """The least of -0.0 alone is 0.0 on rows."""
    rows, local = new_windows("rows", TUMBLING), LocalWindows()
    for one in (rows, local):
        one.push([Row(key="a", n=0.5, f=1.0)], [1])
        one.push([Row(key=key, n=1, f=value) for key, value in zip("abcdefghij", FLOATS, strict=True)], [1] * 10)
        one.push([Row(key="k", n=1, f=-0.0)], [1])
        advance(one, MAX_TIMESTAMP)
    assert sorted_results(local) == sorted_results(rows)


def test_small_chunks_do_not_wait() -> None:
    """At a low rate a record would be held until the window ends, and be converted for nothing."""
    local = LocalWindows()
    local.push(plain(3), [1] * 3, as_rows=True)
    assert [type(chunk) for chunk in local.sent] == [Rows]


def test_what_would_not_be_less_is_not_aggregated() -> None:
    """Arrays of many small slices, or of keys with a record each, would cost more than they save."""
    local = LocalWindows()
    local.push(plain(400), [10 * (number % 100) for number in range(400)])
    assert [len(chunk) for chunk in local.sent] == [400]
    local.push([Row(key=str(number), n=1, f=None) for number in range(200)], [1005] * 200)
    local.local.prepare_snapshot(1, False)
    assert [len(chunk) for chunk in local.sent] == [400, 200]
    # Keys that repeat are found again some time later.
    for _ in range(40):
        local.push(plain(200), [1006] * 200)
    assert len(local.sent) == 2 + 32
    advance(local, MAX_TIMESTAMP)
    assert len(local.sent) == 2 + 32 + 1 and len(local.sent[-1]) == 4
    results = sorted_results(local)
    rows = new_windows("rows", TUMBLING)
    rows.push(plain(400), [10 * (number % 100) for number in range(400)])
    rows.push([Row(key=str(number), n=1, f=None) for number in range(200)], [1005] * 200)
    for _ in range(40):
        rows.push(plain(200), [1006] * 200)
    advance(rows, MAX_TIMESTAMP)
    assert results == sorted_results(rows)
