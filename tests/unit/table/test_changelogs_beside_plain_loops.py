"""Changelogs beside plain loops: upserts made complete, rows of a sink's primary key, top N, and ORDER BY.

Rows come and go in random chunks, with NULL and floats of all kinds, equal rows, and rows that go without having come.
Operators are stored and restored at any point, in other numbers of subtasks, on the heap and in a store.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, cast

import pytest
from pyarrow import compute
from tests.first_cases import first_of
from tests.unit.table.plain_loops import (
    ADDS,
    Change,
    Row,
    Subtasks,
    Table,
    changes_of,
    chunk_of,
    columns_of,
    in_order,
    same,
    some_order,
)

from penstock.common.constants import MAX_TIMESTAMP
from penstock.table.operators.grouping.changelog_normalize import ChangelogNormalizeOperator
from penstock.table.operators.keyed import keyed_table
from penstock.table.operators.ordering.append_top import AppendTopOperator
from penstock.table.operators.ordering.end_sort import EndSortOperator
from penstock.table.operators.ordering.rank import RankOperator
from penstock.table.operators.ordering.ranking import APPEND, RETRACT, Ranking
from penstock.table.operators.ordering.sorting import SortColumn
from penstock.table.operators.rows.row_expressions import RowExpressions
from penstock.table.operators.sinks.materialize import DEDUPLICATE, MaterializeOperator
from penstock.table.operators.table_columns import TableColumns

TTL_MS = 50
Rule = Callable[[str, Row], Iterator[Change]]


class Condition:
    """n >= 2."""

    def __init__(self, place: int) -> None:
        self.place = place

    def open(self, context: Any) -> None:
        """Do nothing."""

    def mask(self, columns: Any, rows: int, **_: Any) -> Any:
        """Return the rows for which it holds."""
        assert len(columns[self.place]) == rows
        return compute.greater_equal(columns[self.place], 2).fill_null(False)


class Upserts:
    """Flink's rule for the last row of each key, of a changelog."""

    def __init__(self, width: int, condition: Condition | None, *, update_before: bool, ttl_ms: int | None) -> None:
        self.width, self.condition, self.update_before, self.ttl_ms = width, condition, update_before, ttl_ms
        self.now_ms = 0
        self.kept: dict[str, tuple[Row, int]] = {}

    def changes(self, kind: str, row: Row) -> Iterator[Change]:
        """Yield what a row changes."""
        key = repr(row[: self.width])
        former, written_ms = self.kept.pop(key, (None, 0))
        if self.ttl_ms is not None and written_ms <= self.now_ms - self.ttl_ms:
            former = None
        stays = self.condition is None or (row[self.condition.place] or 0) >= 2
        if kind not in ADDS or not stays:
            yield from [] if former is None else [("-D", former)]
            return
        self.kept[key] = row, self.now_ms
        if former is None:
            yield "+I", row
        elif self.ttl_ms is not None or not same(former, row):
            yield from [("-U", former)] if self.update_before else []
            yield "+U", row


class PrimaryKeys:
    """Flink's SinkUpsertMaterializer."""

    def __init__(self, width: int, identity: Sequence[int] | None) -> None:
        self.width, self.identity = width, identity
        self.rows: dict[str, list[Row]] = {}

    def changes(self, kind: str, row: Row) -> Iterator[Change]:
        """Yield what a row changes."""
        there = self.rows.setdefault(repr(row[: self.width]), [])
        chosen = range(len(row)) if self.identity is None else self.identity
        wanted = repr([row[place] for place in chosen])
        place = next((n for n, one in enumerate(there) if repr([one[place] for place in chosen]) == wanted), None)
        if kind in ADDS:
            yield "+U" if there else "+I", row
            if place is None or self.identity is None:
                there.append(row)
            else:
                there[place] = row
        elif place is not None:
            del there[place]
            if not there:
                yield "-D", row
            elif place == len(there):
                yield "+U", there[-1]


def some(table: Table, there: list[Row], count: int, *, phantoms: bool = True) -> list[Change]:
    """Return rows that come, and go. `there`: those that are there, which is updated."""
    random, found = table.random, list[Change]()
    for _ in range(count):
        chance = random.random()
        if there and chance < 0.45:
            found.append((random.choice(["-U", "-D"]), there.pop(random.randrange(len(there)))))
        elif chance < 0.5 and phantoms:
            found.append(("-D", table.row()))
        else:
            there.append(table.row())
            found.append((random.choice(["+I", "+U"]), there[-1]))
    return found


def disturb(random: Random, operator: Subtasks, most: int = 4) -> None:
    """Take snapshots, and start again."""
    if random.random() < 0.4:
        aborted = random.random() < 0.3
        assert not any(operator.barrier(aborted=aborted))
        if random.random() < 0.5:
            if aborted:
                operator.barrier(aborted=False)
            operator.restart(random.randint(1, most), is_stored=random.random() < 0.4)


def run_exactly(random: Random, table: Table, operator: Subtasks, loop: Any) -> None:
    """Compare the changes of each row."""
    there: list[Row] = []
    for _ in range(20):
        operator.now_ms += random.choice([0, 1, 10, 30])
        loop.now_ms = operator.now_ms
        changes = some(table, there, random.choice([1, 2, 7, 40]))
        chunk = chunk_of(table.columns, changes)
        of_rows = operator.route(chunk.batch)
        found = list(map(changes_of, operator.push(chunk)))
        wanted: list[list[Change]] = [[] for _ in found]
        for number, change in zip(of_rows.tolist(), changes, strict=True):
            wanted[number] += loop.changes(*change)
        assert list(map(repr, found)) == list(map(repr, wanted))
        disturb(random, operator)


def few(random: Random, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let caches be emptied after each chunk."""
    if random.random() < 0.6:
        monkeypatch.setattr(keyed_table, "KEYS_MAX", 1)


@pytest.mark.parametrize("seed", first_of(4, range(5_000)))
def test_upserts_are_those_of_a_plain_loop(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row before an update would be another one, or a deleted key would come again, behind a restart perhaps."""
    random = Random(seed)
    few(random, monkeypatch)
    table = Table(random)
    condition = Condition(table.width + 1) if random.random() < 0.5 else None
    update_before, ttl_ms = random.random() < 0.7, random.choice([None, TTL_MS])
    operator = Subtasks(
        lambda: ChangelogNormalizeOperator(
            "Normalize",
            table.key_names,
            cast("RowExpressions | None", condition),
            columns=table.columns,
            update_before=update_before,
            ttl_ms=ttl_ms,
        ),
        table.key_names,
        is_stored=random.random() < 0.4,
    )
    run_exactly(random, table, operator, Upserts(table.width, condition, update_before=update_before, ttl_ms=ttl_ms))


@pytest.mark.parametrize("seed", first_of(4, range(5_000)))
def test_rows_of_a_primary_key_are_those_of_a_plain_loop(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sink would have another row than the last one of its key, or keep one that has gone."""
    random = Random(seed)
    few(random, monkeypatch)
    table = Table(random)
    x = table.width
    identity = random.choice([None, (x,), (x, x + 1), (x + 2,), ()])
    operator = Subtasks(
        lambda: MaterializeOperator(table.key_names, identity, conflict=DEDUPLICATE, table="t", columns=table.columns),
        table.key_names,
        is_stored=random.random() < 0.4,
    )
    run_exactly(random, table, operator, PrimaryKeys(x, identity))


@pytest.mark.parametrize("seed", first_of(4, range(5_000)))
def test_first_rows_are_those_of_a_sort(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank would have another row than a sort gives, or a row would go that never came."""
    random = Random(seed)
    few(random, monkeypatch)
    table = Table(random, nested=False)
    strategy = random.choice([APPEND, RETRACT])
    order = some_order(random, [table.width, table.width + 1, table.width + 2]) if random.random() < 0.9 else ()
    first, with_number = random.choice([1, 1, 2]), random.random() < 0.5
    ranking = Ranking(
        order,
        first,
        first + random.randrange(4),
        strategy,
        with_number=with_number,
        # Without a number nobody could tell which row another one replaces.
        update_before=random.random() < 0.6 or (first > 1 and not with_number),
    )
    number = ["number"] if with_number else []
    given = columns_of([*table.names, *number], [*table.kinds, *("BIGINT" for _ in number)])
    make = AppendTopOperator if strategy == APPEND else RankOperator
    operator = Subtasks(
        lambda: make("Top", table.key_names, ranking, received=table.columns, given=given),
        table.key_names,
        is_stored=random.random() < 0.4,
    )
    there: list[Row] = []
    alive: list[Row] = []
    found: dict[Any, Row] = {}
    rows: Counter[str] = Counter()
    for _ in range(20):
        count = random.choice([1, 2, 7, 40])
        changes = some(table, there, count) if strategy == RETRACT else [("+I", table.row()) for _ in range(count)]
        for kind, row in changes:
            if kind in ADDS:
                alive.append(row)
            elif (place := next((n for n, one in enumerate(alive) if repr(one) == repr(row)), None)) is not None:
                del alive[place]
        there = list(alive)
        given_changes = [one for of in operator.push(chunk_of(table.columns, changes)) for one in changes_of(of)]
        if ranking.update_before or not with_number:
            _apply(rows, given_changes)
        else:
            _replace(found, given_changes, table.width)
        wanted: Counter[str] = Counter()
        for key in table.keys:
            of_key = in_order([row for row in alive if repr(row[: table.width]) == repr(key)], order)
            for rank, row in enumerate(of_key[first - 1 : ranking.last], first):
                wanted[repr((*row, rank) if with_number else row)] += 1
        if ranking.update_before or not with_number:
            assert +rows == wanted
        else:
            assert Counter(map(repr, found.values())) == wanted
        disturb(random, operator)


def _apply(rows: Counter[str], changes: Sequence[Change]) -> None:
    """Change a table, of which each row that goes must be there."""
    for kind, row in changes:
        rows[repr(row)] += 1 if kind in ADDS else -1
        assert rows[repr(row)] >= 0


def _replace(found: dict[Any, Row], changes: Sequence[Change], width: int) -> None:
    """Change a table in which a row replaces that with its key and number."""
    for kind, row in changes:
        name = repr((row[:width], row[-1]))
        assert (kind == "+I") is (name not in found)
        if kind == "-D":
            assert repr(found.pop(name)) == repr(row)
        else:
            found[name] = row


@pytest.mark.parametrize("seed", first_of(4, range(5_000)))
def test_rows_that_are_sorted_at_the_end_are_those_that_remain(seed: int) -> None:
    """A row would be given though it has gone, or with another sign of zero."""
    random = Random(seed)
    table = Table(random)
    order = some_order(random, [table.width + 1, table.width + 2])
    columns: TableColumns = table.columns
    operator = Subtasks(lambda: EndSortOperator(order, columns), (), is_stored=random.random() < 0.4)
    there: list[Row] = []
    for _ in range(10):
        assert not any(operator.push(chunk_of(columns, some(table, there, random.choice([1, 7, 40]), phantoms=False))))
        disturb(random, operator, most=1)
    found = [row for of in operator.watermark(MAX_TIMESTAMP) for _, row in changes_of(of)]
    assert Counter(map(repr, found)) == Counter(map(repr, there))
    places = [one.place for one in order]
    wanted = in_order(there, order)
    assert [[row[place] for place in places] for row in found] == [[row[place] for place in places] for row in wanted]


def test_equal_rows_of_a_sort_are_found_again() -> None:
    """NaN stayed though its row had gone, 0.0 and -0.0 were one row, and a row with an array failed the job."""
    columns = columns_of(["f", "a"], ["DOUBLE", "ARRAY<INT>"])
    operator = Subtasks(
        lambda: EndSortOperator((SortColumn(0, ascending=True, nulls_last=True),), columns), (), is_stored=False
    )
    rows: list[Row] = [(math.nan, [1]), (0.0, [1]), (-0.0, [1]), (0.0, [2])]
    operator.push(chunk_of(columns, [("+I", row) for row in rows]))
    operator.barrier(aborted=False)
    operator.restart(1, is_stored=False)
    operator.push(chunk_of(columns, [("-D", (float("nan"), [1])), ("-D", (0.0, [1]))]))
    found = [row for of in operator.watermark(MAX_TIMESTAMP) for _, row in changes_of(of)]
    assert list(map(repr, found)) == list(map(repr, [(-0.0, [1]), (0.0, [2])]))


def test_a_key_that_goes_from_a_store_may_have_a_time_to_live() -> None:
    """The job failed with the first checkpoint behind a row that was deleted."""
    columns = columns_of(["k", "n"], ["BIGINT", "INT"])
    operator = Subtasks(
        lambda: ChangelogNormalizeOperator(
            "Normalize", ["k"], None, columns=columns, update_before=True, ttl_ms=TTL_MS
        ),
        ["k"],
        is_stored=True,
    )
    operator.push(chunk_of(columns, [("+I", (1, 1)), ("+I", (2, 2)), ("-D", (1, 1))]))
    operator.barrier(aborted=False)
    operator.restart(1, is_stored=True)
    found = operator.push(chunk_of(columns, [("+U", (1, 3)), ("+U", (2, 4))]))
    assert changes_of(found[0]) == [("+I", (1, 3)), ("-U", (2, 2)), ("+U", (2, 4))]
