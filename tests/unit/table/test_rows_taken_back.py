"""Top N of rows that are taken back or replaced, and the rows of a sink's primary key: the changes that Flink gives.

Sources of the rules: Flink's RetractableTopNFunction, UpdatableTopNFunction and SinkUpsertMaterializer.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy
import pyarrow
import pytest
from tests.unit.engine.runtime.conftest import Rig

from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.state.backends.rocksdb.backend import Stores
from penstock.hosts.simulator.stores import MemoryStore
from penstock.table.operators.keyed import keyed_table
from penstock.table.operators.ordering.rank import RankOperator
from penstock.table.operators.ordering.ranking import RETRACT, UPDATE, Ranking
from penstock.table.operators.ordering.sorting import SortColumn
from penstock.table.operators.sinks.materialize import DEDUPLICATE, MaterializeOperator
from penstock.table.operators.table_columns import TableColumns

FIELDS = [("k", pyarrow.string()), ("n", pyarrow.int64()), ("s", pyarrow.string()), ("id", pyarrow.int32())]
ROWS = TableColumns(pyarrow.schema(FIELDS))
NUMBERED = TableColumns(pyarrow.schema([*FIELDS, ("place", pyarrow.int64())]))
KINDS = ["+I", "-U", "+U", "-D"]
Row = tuple[Any, ...]
Change = tuple[str, Row]


class Changes(Rig):
    """An operator on columns: what it emits, as kinds and rows."""

    def emit(self, chunk: Any) -> bool:
        kinds = [0] * len(chunk) if chunk.kinds is None else chunk.kinds.tolist()
        rows = [tuple(row.values()) for row in chunk.batch.to_pylist()]
        self.log += [(KINDS[kind], row) for kind, row in zip(kinds, rows, strict=True)]
        return True

    def push(self, changes: list[Change]) -> list[Change]:
        """Process a chunk."""
        batch = ROWS.exact_batch(list(zip(*(row for _, row in changes), strict=True)))
        kinds = numpy.array([KINDS.index(kind) for kind, _ in changes], numpy.uint8)
        found: list[Change] = self.do(lambda: self.operator.process(Columns(batch, None, kinds)))
        return found


def changelog(random: Random, count: int) -> list[Change]:
    """Return rows that come and go, many of them equal in the order, some that go without having come."""
    there: list[Row] = []
    changes: list[Change] = []
    for _ in range(count):
        row = (
            random.choice("ab"),
            random.choice([None, 1, 2, 3]),
            random.choice([None, "x", "y"]),
            random.randrange(5),
        )
        chance = random.random()
        if there and chance < 0.4:
            changes.append((random.choice(["-U", "-D"]), there.pop(random.randrange(len(there)))))
        elif chance < 0.45:
            changes.append(("-D", row))
            if row in there:
                there.remove(row)
        else:
            there.append(row)
            changes.append((random.choice(["+I", "+U"]), row))
    return changes


def order_of(row: Row) -> tuple[Any, ...]:
    """ORDER BY n DESC NULLS LAST, s."""
    return row[1] is None, -(row[1] or 0), row[2] is not None, row[2] or ""


ORDER = (SortColumn(1, ascending=False, nulls_last=True), SortColumn(2, ascending=True, nulls_last=False))
RANKINGS = {
    "numbers": Ranking(ORDER, 1, 3, RETRACT, with_number=True, update_before=True),
    "numbers without -U": Ranking(ORDER, 1, 3, RETRACT, with_number=True, update_before=False),
    "rows alone": Ranking(ORDER, 1, 3, RETRACT, with_number=False, update_before=True),
    "from the second": Ranking(ORDER, 2, 4, RETRACT, with_number=True, update_before=True),
    "the best": Ranking(ORDER, 1, 1, RETRACT, with_number=False, update_before=True),
}


class Reference:
    """The rules, for one row after the other."""

    def __init__(self, ranking: Ranking) -> None:
        self.ranking = ranking
        self.parts: dict[Any, list[Row]] = {}

    def changes(self, kind: str, row: Row) -> Iterator[Change]:
        """Yield what a row changes."""
        before, ranking = self.parts.get(row[0], []), self.ranking
        if ranking.strategy == UPDATE:
            yield from self.updated(before, row)
        elif kind in ("+I", "+U"):
            place = bisect_right(before, order_of(row), key=order_of)
            self.parts[row[0]] = after = [*before[:place], row, *before[place:]]
            yield from self.differences(before, after)
        elif row in before:
            place = before.index(row)
            self.parts[row[0]] = after = [*before[:place], *before[place + 1 :]]
            yield from self.differences(before, after)

    def updated(self, before: list[Row], row: Row) -> Iterator[Change]:
        """Yield what a row changes that may take the place of one with the same id."""
        ranking = self.ranking
        rest = [one for one in before if one[3] != row[3]]
        place = bisect_right(rest, order_of(row), key=order_of)
        after = [*rest[:place], row, *rest[place:]]
        self.parts[row[0]] = after[: ranking.last]
        if len(rest) == len(before) or ranking.with_number:
            yield from self.differences(before, after)
        else:
            (former,) = (one for one in before if one[3] == row[3])
            yield from [("-U", former)] if ranking.update_before else []
            yield "+U", row

    def differences(self, before: list[Row], after: list[Row]) -> Iterator[Change]:
        """Yield what differs in the ranks that are kept: with numbers each rank by itself."""
        ranking = self.ranking
        kept = slice(ranking.first - 1, ranking.last)
        old, new = before[kept], after[kept]
        if not ranking.with_number:
            shared = min(len(before), len(after))
            first = next((place for place in range(shared) if before[place] is not after[place]), shared)
            if first >= ranking.last:
                return
            gone = old[-1:] if len(after) > len(before) and len(old) == ranking.last else []
            gone = old[first : first + 1] if len(after) < len(before) else gone
            come = new[first : first + 1] if len(after) > len(before) else new[-1:] if len(new) == len(old) else []
            yield from [("-D", one) for one in gone]
            yield from [("+I", one) for one in come]
            return
        for rank in range(max(len(old), len(new))):
            number = ranking.first + rank
            if rank >= len(old):
                yield "+I", (*new[rank], number)
            elif rank >= len(new):
                yield "-D", (*old[rank], number)
            elif old[rank] is not new[rank] and (ranking.strategy == RETRACT or old[rank] != new[rank]):
                yield from [("-U", (*old[rank], number))] if ranking.update_before else []
                yield "+U", (*new[rank], number)


def check(one: Changes, reference: Any, changes: list[Change], random: Random) -> int:
    """Push changes in chunks, compare, and return how many came out."""
    count, start = 0, 0
    while start < len(changes):
        stop = start + random.choice([1, 3, 40])
        some, start = changes[start:stop], stop
        wanted = [change for kind, row in some for change in reference.changes(kind, row)]
        assert one.push(some) == wanted
        count += len(wanted)
        if random.random() < 0.3:
            one.operator.prepare_snapshot(1, False)
    return count


@pytest.mark.parametrize("ranking", RANKINGS)
@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_rows_that_are_taken_back(ranking: str, stored: bool, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sink would keep rows that no longer have their rank, or lack others."""
    monkeypatch.setattr(keyed_table, "KEYS_MAX", 1)
    random, of = Random(seed), RANKINGS[ranking]
    given = NUMBERED if of.with_number else ROWS
    operator = RankOperator("Rank", ["k"], of, received=ROWS, given=given)
    one = Changes(operator, stores=Stores(MemoryStore, cached_entries=0) if stored else None)
    assert check(one, Reference(of), changelog(random, 200), random) > 25


@pytest.mark.parametrize("with_number", [False, True])
@pytest.mark.parametrize("update_before", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_rows_that_replace_others(with_number: bool, update_before: bool, seed: int) -> None:
    """The row of a key only gets better, as the planner knows: it moves towards the first rank."""
    random = Random(seed)
    of = Ranking(ORDER, 1, 3, UPDATE, with_number=with_number, update_before=update_before, unique_key=(0, 3))
    one = Changes(RankOperator("Rank", ["k"], of, received=ROWS, given=NUMBERED if with_number else ROWS))
    best: dict[Any, int] = {}
    changes: list[Change] = []
    for _ in range(200):
        key, id = random.choice("ab"), random.randrange(6)
        best[key, id] = best.get((key, id), 0) + random.randrange(3)
        changes.append((random.choice(["+I", "+U"]), (key, best[key, id], None, id)))
    assert check(one, Reference(of), changes, random) > 25


def test_a_partition_without_rows_has_no_state() -> None:
    """State would grow with each partition that there ever was, with its rows gone."""
    one = Changes(RankOperator("Rank", ["k"], RANKINGS["numbers"], received=ROWS, given=NUMBERED))
    assert isinstance(one.operator, RankOperator)
    for number in range(200):
        row = (f"partition {number}", 1, None, number)
        assert [kind for kind, _ in one.push([("+I", row)]) + one.push([("-D", row)])] == ["+I", "-D"]
        one.push([("-D", (f"never there {number}", 1, None, number))])
    assert one.operator.state.alive == 0
    assert len(one.operator.state) < 200


class Rows:
    """The rows of each primary key `k`, of which the last one counts. `by`: what makes two rows the same."""

    def __init__(self, by: Any) -> None:
        self.by = by
        self.of_keys: dict[Any, list[Row]] = {}

    def changes(self, kind: str, row: Row) -> Iterator[Change]:
        """Yield what a row changes."""
        rows = self.of_keys.setdefault(row[0], [])
        place = next((place for place, one in enumerate(rows) if self.by(one) == self.by(row)), None)
        if kind in ("+I", "+U"):
            yield ("+U" if rows else "+I"), row
            if place is None or self.by is _all:
                rows.append(row)
            else:
                rows[place] = row
        elif place is not None:
            was_last = place == len(rows) - 1
            del rows[place]
            if not rows:
                yield "-D", row
            elif was_last:
                yield "+U", rows[-1]


def _all(row: Row) -> Row:
    return row


@pytest.mark.parametrize(("upsert_key", "by"), [(None, _all), ((3,), lambda row: row[3]), ((), lambda row: 0)])
@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_last_row_of_a_primary_key_counts(
    upsert_key: Any, by: Any, stored: bool, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sink that replaces rows by key would show one that has gone, or none."""
    monkeypatch.setattr(keyed_table, "KEYS_MAX", 1)
    random = Random(seed)
    operator = MaterializeOperator(["k"], upsert_key, conflict=DEDUPLICATE, table="t", columns=ROWS)
    one = Changes(operator, stores=Stores(MemoryStore, cached_entries=0) if stored else None)
    assert check(one, Rows(by), changelog(random, 200), random) > 25
    one.operator.prepare_snapshot(1, False)
    for _ in range(5):
        one.clock(1)
    assert one.operator.wake_at_ms() is None, "nothing is left to be written to the store"
