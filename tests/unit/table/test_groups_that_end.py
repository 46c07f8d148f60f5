"""GROUP BY of rows that are taken back: keys that end and begin again in one chunk, by the rules for one row at a time.

Source of the rules: Flink's GroupAggFunction, with mini-batch off.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy
import pyarrow
import pytest
from tests.unit.engine.runtime.conftest import Rig

from penstock.engine.runtime.columns.chunk import Columns
from penstock.table.logical_types import BIGINT
from penstock.table.operators.aggregates.aggregate_calls import Calls
from penstock.table.operators.grouping import group_aggregate
from penstock.table.operators.grouping.group_aggregate import GroupAggregateOperator
from penstock.table.operators.grouping.grouping_operator import Grouping
from penstock.table.operators.grouping.lives import lives_of
from penstock.table.operators.table_columns import TableColumns
from penstock.table.planner.data_types import DataType
from penstock.table.planner.nodes.aggregate_nodes import AggregateCall

ROWS = TableColumns(pyarrow.schema([("k", pyarrow.int64()), ("n", pyarrow.int64())]))
RESULTS = TableColumns(pyarrow.schema([(name, pyarrow.int64()) for name in ("k", "s", "m", "d", "c")]))
CALLS = Calls(
    tuple(
        AggregateCall(name=None, type=DataType(BIGINT), arg_list=(1,), system_name=name, distinct=distinct)
        for name, distinct in (("SUM", False), ("MAX", False), ("COUNT", True), ("COUNT", False))
    ),
    (BIGINT,) * 2,
    (True,) * 4,
)
KINDS = ["+I", "-U", "+U", "-D"]
Change = tuple[str, int, int | None]


class Changes(Rig):
    """An operator: what it emits, as kinds and rows."""

    def emit(self, chunk: Any) -> bool:
        kinds = [0] * len(chunk) if chunk.kinds is None else chunk.kinds.tolist()
        rows = zip(*(column.to_pylist() for column in chunk.batch.columns), strict=True)
        self.log += [(KINDS[kind], *row) for kind, row in zip(kinds, rows, strict=True)]
        return True

    def push(self, changes: list[Change]) -> list[Any]:
        """Process a chunk."""
        kinds, keys, numbers = zip(*changes, strict=True)
        batch = pyarrow.record_batch([pyarrow.array(keys), pyarrow.array(numbers, pyarrow.int64())], schema=ROWS.schema)
        coded = numpy.array([KINDS.index(kind) for kind in kinds], numpy.uint8)
        return self.do(lambda: self.operator.process(Columns(batch, None, coded)))


def grouping() -> Changes:
    """Return GROUP BY k."""
    return Changes(GroupAggregateOperator("Group", ["k"], Grouping(CALLS, True, True), received=ROWS, given=RESULTS))


class Reference:
    """The rules, for one row after the other."""

    def __init__(self) -> None:
        self.rows: dict[int, list[int | None]] = {}

    def changes(self, kind: str, key: int, number: int | None) -> Iterator[Any]:
        """Yield what a row changes."""
        rows = self.rows.setdefault(key, [])
        before = (key, *self.result(rows)) if rows else None
        if kind in ("+I", "+U"):
            rows.append(number)
        elif not rows:
            return
        elif number in rows:
            rows.remove(number)
        else:
            raise AssertionError("rows are retracted that are there")
        after = (key, *self.result(rows)) if rows else None
        if before is None:
            yield "+I", *(after or ())
        elif after is None:
            yield "-D", *before
        elif after != before:
            yield "-U", *before
            yield "+U", *after

    @staticmethod
    def result(rows: list[int | None]) -> tuple[Any, ...]:
        """Return SUM, MAX, COUNT(DISTINCT) and COUNT."""
        there = [one for one in rows if one is not None]
        return sum(there) if there else None, max(there, default=None), len({*there}), len(there)


def changelog(random: Random, count: int, there: dict[int, list[int | None]]) -> Iterator[Change]:
    """Yield rows that come and go, so that keys end often, and some that go from keys without rows."""
    for _ in range(count):
        key = random.randrange(4)
        rows = there.setdefault(key, [])
        if rows and random.random() < 0.6:
            yield random.choice(["-U", "-D"]), key, rows.pop(random.randrange(len(rows)))
        elif not rows and random.random() < 0.2:
            yield "-D", key, 1
        else:
            rows.append(random.choice([None, 1, 2, 3]))
            yield random.choice(["+I", "+U"]), key, rows[-1]


@pytest.mark.parametrize("seed", range(6))
def test_keys_that_end_in_a_chunk(seed: int) -> None:
    """A key would have what rows of an earlier life of it had, or its changes come in another order."""
    random = Random(seed)
    one, rules = grouping(), Reference()
    there: dict[int, list[int | None]] = {}
    for _ in range(12):
        rows = list(changelog(random, random.randrange(1, 150), there))
        assert one.push(rows) == [change for row in rows for change in rules.changes(*row)]


@pytest.mark.parametrize("part", ["first", "between", "last"])
def test_these_tests_find_a_life_that_is_not_counted(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that ends in a chunk stays away, or its rows of one life are lost."""
    monkeypatch.setattr(
        group_aggregate, "lives_of", lambda *of_rows: lives_of(*of_rows)._replace(**{part: numpy.zeros(0, numpy.int64)})
    )
    with pytest.raises(AssertionError):
        test_keys_that_end_in_a_chunk(1)


def test_a_chunk_in_which_a_key_ends_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """An aggregate of an aggregate gets -U and +U of one row: work would grow with the square of the chunk."""
    passes: list[int] = []
    compared = group_aggregate.run_changes

    def counted(*arguments: Any, **more: Any) -> Any:
        passes.append(1)
        return compared(*arguments, **more)

    monkeypatch.setattr(group_aggregate, "run_changes", counted)
    one = grouping()
    assert one.push([("+I", 1, 0)]) == [("+I", 1, 0, 0, 1, 1)]
    updates = [change for number in range(500) for change in (("-U", 1, number), ("+U", 1, number + 1))]
    assert one.push(updates) == [
        change
        for number in range(500)
        for change in (("-D", 1, number, number, 1, 1), ("+I", 1, number + 1, number + 1, 1, 1))
    ]
    assert len(passes) <= 4


@pytest.mark.parametrize("seed", range(4))
def test_the_lives_of_keys(seed: int) -> None:
    """Each row is in the life that one row after the other gives it."""
    random = numpy.random.default_rng(seed)
    for size in (1, 5, 60, 400):
        slots, signs = random.integers(0, 5, size), random.choice([-1, 1], size)
        had = random.integers(0, 3, 5)
        counts, numbers, found = had.tolist(), [0] * 5, []
        for slot, sign in zip(slots.tolist(), signs.tolist(), strict=True):
            if sign < 0 and not counts[slot]:
                found.append(None)
                continue
            found.append(numbers[slot])
            counts[slot] += sign
            numbers[slot] += not counts[slot]
        lives = lives_of(slots, signs, had[slots])
        assert lives.first.tolist() == [row for row, life in enumerate(found) if life == 0]
        rest = sorted([*lives.between.tolist(), *lives.last.tolist()])
        assert rest == [row for row, life in enumerate(found) if life]
        assert all(found[row] < numbers[slots[row]] for row in lives.between.tolist()), "a life goes on"
        lasts = {int(slots[row]): found[row] for row in lives.last.tolist()}
        assert all(found[row] == lasts[int(slots[row])] for row in lives.last.tolist())
        names = {(int(slots[row]), found[row]): int(lives.codes[row]) for row in rest}
        assert len({*names.values()}) == len(names)
        assert all(names[int(slots[row]), found[row]] == lives.codes[row] < size for row in rest)
