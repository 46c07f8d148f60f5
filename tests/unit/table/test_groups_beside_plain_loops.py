"""GROUP BY beside plain loops: Flink's rule for one row after the other, and for one bundle after the other.

Rows come and go in random chunks: NULL and floats of all kinds in keys and arguments, keys that end and begin again,
rows that go without having come. In one phase, in two, and with a split DISTINCT; stored and restored at any point, in
other numbers of subtasks, on the heap and in a store, with a time to live.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any
from zlib import crc32

import numpy
import pyarrow
import pytest
from tests.first_cases import first_of
from tests.unit.table.plain_loops import (
    ADDS,
    Aggregate,
    Call,
    Change,
    Given,
    Row,
    Subtasks,
    Table,
    changes_of,
    chunk_of,
    columns_of,
    same,
)

from penstock.engine.runtime.columns.chunk import Columns, joined
from penstock.table.logical_types import BIGINT, parse
from penstock.table.operators.aggregates import retracted_extremes
from penstock.table.operators.aggregates.aggregate_calls import Calls
from penstock.table.operators.aggregates.partial_columns import Groups as AggregatesOfGroups
from penstock.table.operators.aggregates.partial_columns import partial_columns
from penstock.table.operators.grouping import group_aggregate
from penstock.table.operators.grouping.bundled_group_aggregate import (
    BundledGroupAggregateOperator,
    GlobalGroupAggregateOperator,
)
from penstock.table.operators.grouping.group_aggregate import GroupAggregateOperator
from penstock.table.operators.grouping.grouping_operator import Grouping
from penstock.table.operators.grouping.incremental_group_aggregate import IncrementalGroupAggregateOperator
from penstock.table.operators.grouping.lives import Lives
from penstock.table.operators.grouping.local_group_aggregate import LocalGroupAggregateOperator
from penstock.table.operators.keyed import keyed_table, value_counts
from penstock.table.operators.table_columns import TableColumns
from penstock.table.planner.data_types import DataType
from penstock.table.planner.nodes.aggregate_nodes import AggregateCall

ROWS, BUNDLES, TWO_PHASES, SPLIT = "rows", "bundles", "two phases", "split"
TTL_MS = 50
MERGED = ("COUNT(*)", "COUNT", "SUM", "MIN", "MAX")
"""Functions of a split DISTINCT."""
LISTED = ("FIRST_VALUE", "LAST_VALUE", "LISTAGG")
WHOLE = 10_000
"""Rows of a bundle that ends by a watermark or a barrier alone."""
BUCKETS = 3


class Group:
    """What is known of a key: the number of its rows, its aggregates, and when they were written."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self.rows = 0
        self.written_ms = 0
        self.aggregates = [Aggregate(call) for call in calls]

    def change(self, row: Row, sign: int) -> None:
        """Add a row, or retract it."""
        self.rows += sign
        for one in self.aggregates:
            one.change(row, sign)

    def results(self) -> Row:
        """Return the results."""
        return tuple(one.result() for one in self.aggregates)


class Loop:
    """Flink's GroupAggFunction, MiniBatchGroupAggFunction and MiniBatchGlobalGroupAggFunction."""

    def __init__(self, width: int, calls: Sequence[Call], *, update_before: bool, ttl_ms: int | None) -> None:
        self.width, self.calls, self.update_before, self.ttl_ms = width, calls, update_before, ttl_ms
        self.now_ms = 0
        self.groups: dict[str, Group] = {}

    def of(self, row: Row) -> tuple[str, Group | None]:
        """Return the key of a row, and what is known of it."""
        key = repr(row[: self.width])
        group = self.groups.get(key)
        if group is not None and self.ttl_ms is not None and group.written_ms <= self.now_ms - self.ttl_ms:
            del self.groups[key]
            return key, None
        return key, group

    def row(self, kind: str, row: Row) -> Iterator[Change]:
        """Yield what a row changes."""
        yield from self.bundle([(kind, row)], drops_first=True)

    def bundle(self, changes: Sequence[Change], *, drops_first: bool, merges: bool = False) -> Iterator[Change]:
        """Yield what the rows of one key change together.

        `drops_first`: whether rows that go before the first one comes are ignored. `merges`: whether lists are of the
        bundle alone before they are added.
        """
        row = changes[0][1]
        key, group = self.of(row)
        is_new = group is None
        if group is None:
            group = Group(self.calls)
            while drops_first and changes and changes[0][0] not in ADDS:
                changes = changes[1:]
            if not changes:
                return
        before = group.results()
        self._add(group, changes, merges=merges)
        name = row[: self.width]
        if group.rows == 0:
            self.groups.pop(key, None)
            yield from [] if is_new else [("-D", (*name, *before))]
            return
        self.groups[key], group.written_ms = group, self.now_ms
        after = group.results()
        if is_new:
            yield "+I", (*name, *after)
        elif self.ttl_ms is not None or not same(before, after):
            yield from [("-U", (*name, *before))] if self.update_before else []
            yield "+U", (*name, *after)

    def _add(self, group: Group, changes: Sequence[Change], *, merges: bool) -> None:
        local = Group(self.calls)
        for kind, row in changes:
            sign = 1 if kind in ADDS else -1
            group.rows += sign
            for one, its in zip(group.aggregates, local.aggregates, strict=True):
                (its if merges and one.call.function in LISTED else one).change(row, sign)
        for one, its in zip(group.aggregates, local.aggregates, strict=True):
            if merges and one.call.function in LISTED:
                one.merge_lists(its)


class Sender:
    """Local aggregates: some subtasks, each of which has some of the rows."""

    def __init__(self, random: Random, operators: Sequence[LocalGroupAggregateOperator]) -> None:
        self.random = random
        self.rigs = [Given(one) for one in operators]

    def push(self, chunk: Columns) -> list[Columns]:
        """Process a chunk."""
        of_rows = numpy.array([crc32(repr(row).encode()) % len(self.rigs) for _, row in changes_of([chunk])])
        for number, rig in enumerate(self.rigs):
            chosen = numpy.flatnonzero(of_rows == number)
            if len(chosen):
                some = chunk.selected(chosen)
                rig.do(lambda rig=rig, some=some: rig.operator.process(some))
        return self.take()

    def end(self, event: str) -> list[Columns]:
        """End bundles."""
        for rig in self.rigs:
            if event == "watermark":
                rig.until(1)
            elif event == "barrier":
                rig.operator.prepare_snapshot(1, False)
            else:
                rig.do(rig.operator.finish)
        return self.take()

    def take(self) -> list[Columns]:
        """Return what was sent, in random chunks."""
        chunks = [chunk for rig in self.rigs for chunk in rig.take()]
        return [joined(chunks)] if len(chunks) > 1 and self.random.random() < 0.5 else chunks


class Groups:
    """A GROUP BY in all its operators, and the loop."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.form = random.choice([ROWS, ROWS, BUNDLES, TWO_PHASES, SPLIT])
        self.retracts = random.random() < 0.7
        self.is_whole = random.random() < 0.6
        self.table = table = Table(random)
        if not self.is_whole or self.form in (TWO_PHASES, SPLIT):
            # A sum that was infinite is NaN until its key ends, and bundles decide when that is.
            table.finite()
        if self.form in (TWO_PHASES, SPLIT) and not self.retracts:
            table.without_negative_zero()
        self.calls = table.calls(
            random.randint(0 if table.width else 1, 5), functions=self._functions(), retracts=self.retracts
        )
        if self.form == SPLIT:
            # The finer groups are of values of x.
            self.calls = [replace(one, distinct=one.distinct and table.width in one.arguments) for one in self.calls]
        self.ttl_ms = None if self.form == SPLIT or random.random() < 0.7 else TTL_MS
        update_before = random.random() < 0.7
        self.loop = Loop(table.width, self.calls, update_before=update_before, ttl_ms=self.ttl_ms)
        self.is_whole = self.is_whole or self.ttl_ms is not None
        self.size = WHOLE if self.is_whole else random.choice([1, 2, 7])
        self.pending: list[Change] = []
        self.found: dict[str, Row] = {}
        """The table that all changes make."""
        needs = (self.retracts,) * len(self.calls)
        self.of_plan = Calls(tuple(call.of_plan() for call in self.calls), table.types, needs)
        self.update_before = update_before
        self.is_stored = random.random() < 0.4
        self._make()

    def _functions(self) -> list[str]:
        if self.form == SPLIT:
            return list(MERGED)
        has_lists = self.form in (ROWS, BUNDLES) or not self.retracts
        more = ["FIRST_VALUE", "LAST_VALUE"] if has_lists else []
        lists = ["LISTAGG"] if has_lists or self.is_whole else []
        return [*MERGED, "AVG", *more, *lists]

    def _make(self) -> None:
        table = self.table
        options: dict[str, Any] = {"received": self.table.columns, "ttl_ms": self.ttl_ms}
        grouping = Grouping(self.of_plan, self.update_before, self.retracts)
        names, given = table.key_names, table.given(self.calls)
        self.sender: Sender | None = None
        self.middle: Subtasks | None = None
        if self.form == ROWS:
            self.last = self._subtasks(
                lambda: GroupAggregateOperator("Group", names, grouping, given=given, **options), names
            )
        elif self.form == BUNDLES:
            self.last = self._subtasks(
                lambda: BundledGroupAggregateOperator(
                    "Group", names, grouping, given=given, bundle_size=self.size, **options
                ),
                names,
            )
        else:
            self._make_phases(names, given)

    def _make_phases(self, names: Sequence[str], given: TableColumns) -> None:
        table, random = self.table, self.random
        finer = [*names, "bucket"] if self.form == SPLIT else list(names)
        schema = pyarrow.schema([*table.columns.schema, ("bucket", pyarrow.int32())])
        received = TableColumns(schema) if self.form == SPLIT else table.columns
        partials = partial_columns([schema.field(name) for name in finer], self.of_plan.aggregates())
        has_lists = any(call.function in LISTED for call in self.calls)
        self.sender = Sender(
            random,
            [
                LocalGroupAggregateOperator(
                    "Local", finer, self.of_plan, received=received, given=partials, bundle_size=self.size
                )
                for _ in range(1 if has_lists else random.randint(1, 3))
            ],
        )
        finals = self.of_plan
        if self.form == SPLIT:
            finals, partials = self._make_middle(names, finer, partials)
        grouping = Grouping(finals, self.update_before, self.retracts)
        self.last = self._subtasks(
            lambda: GlobalGroupAggregateOperator(
                "Global", names, grouping, received=partials, given=given, bundle_size=self.size, ttl_ms=self.ttl_ms
            ),
            names,
        )

    def _make_middle(
        self, names: Sequence[str], finer: Sequence[str], partials: TableColumns
    ) -> tuple[Calls, TableColumns]:
        """Make the middle of a split DISTINCT. Return the calls behind it, and what it sends."""
        table = self.table
        adds = [call.function == "COUNT" for call in self.calls]
        sum0 = AggregateCall(name=None, type=DataType(BIGINT), arg_list=(len(table.types),), system_name="$SUM0")
        of_final = tuple(
            sum0 if add else Call(call.function, call.arguments, call.kind, call.result).of_plan()
            for add, call in zip(adds, self.calls, strict=True)
        )
        finals = Calls(of_final, (*table.types, BIGINT), self.of_plan.need_retractions)
        sent = partial_columns([table.columns.schema.field(name) for name in names], finals.aggregates())
        self.middle = self._subtasks(
            lambda: IncrementalGroupAggregateOperator(
                "Incremental",
                finer,
                names,
                self.of_plan,
                sums_counts=adds,
                received=partials,
                given=sent,
                bundle_size=self.size,
            ),
            finer,
        )
        return finals, sent

    def _subtasks(self, make: Any, keys: Sequence[str]) -> Subtasks:
        return Subtasks(make, keys, is_stored=self.is_stored)

    def changes(self, count: int, there: list[Row]) -> list[Change]:
        """Return rows that come, and go. `there`: those that are there, which is updated."""
        random, found = self.random, list[Change]()
        for _ in range(count):
            chance = random.random()
            if self.retracts and there and chance < 0.48:
                found.append((random.choice(["-U", "-D"]), there.pop(random.randrange(len(there)))))
                continue
            row = self.table.row()
            if self.retracts and self.is_whole and self.form != SPLIT and chance > 0.96:
                found.append(("-D", row))
                continue
            there.append(row)
            found.append((random.choice(["+I", "+I", "+U"]) if self.retracts else "+I", row))
        return found

    def push(self, changes: list[Change]) -> None:
        """Process a chunk."""
        self.last.now_ms = self.loop.now_ms
        chunk = chunk_of(self.table.columns, changes)
        if self.form == ROWS:
            of_rows = self.last.route(chunk.batch)
            found = list(map(changes_of, self.last.push(chunk)))
            wanted: list[list[Change]] = [[] for _ in found]
            for number, change in zip(of_rows.tolist(), changes, strict=True):
                wanted[number] += self.loop.row(*change)
            assert list(map(repr, found)) == list(map(repr, wanted))
            return
        self.pending += changes
        if self.form == SPLIT:
            x = self.table.width
            buckets = [0 if row[x] is None else crc32(repr(row[x]).encode()) % BUCKETS for _, row in changes]
            columns = [*chunk.batch.columns, pyarrow.array(buckets, pyarrow.int32())]
            chunk = Columns(
                pyarrow.RecordBatch.from_arrays(columns, names=[*chunk.batch.schema.names, "bucket"]), None, chunk.kinds
            )
        chunks = [chunk] if self.sender is None else self.sender.push(chunk)
        self.apply(self._through(chunks))

    def _through(self, chunks: Sequence[Columns]) -> list[Change]:
        """Return what chunks of partials, or of rows, give."""
        if self.middle is not None:
            chunks = [given for chunk in chunks for of in self.middle.push(chunk) for given in of]
        return [change for chunk in chunks for of in self.last.push(chunk) for change in changes_of(of)]

    def end(self, event: str, *, aborted: bool = False) -> None:
        """End all bundles, and compare."""
        self.last.now_ms = self.loop.now_ms
        found: list[Change] = []
        if self.sender is not None:
            found += self._through(self.sender.end(event))
        for stage in (self.middle, self.last):
            if stage is None:
                continue
            ended = stage.barrier(aborted=aborted) if event == "barrier" else stage.watermark(1)
            chunks = [chunk for of in ended for chunk in of]
            if stage is self.middle:
                found += [change for chunk in chunks for of in self.last.push(chunk) for change in changes_of(of)]
            else:
                found += changes_of(chunks)
        if self.form == ROWS:
            assert not found
            return
        wanted = self.wanted()
        if self.is_whole:
            assert by_key(found, self.table.width) == by_key(wanted, self.table.width)
        self.apply(found)
        if self.ttl_ms is not None:
            return
        expected = {key: (*found[: self.table.width], *group.results()) for key, found, group in self.groups()}
        assert {key: repr(row) for key, row in self.found.items()} == {key: repr(row) for key, row in expected.items()}

    def groups(self) -> Iterator[tuple[str, Row, Group]]:
        """Yield the groups that are there: their keys, and a row that begins with it."""
        for row in self.table.keys:
            key = repr(row)
            if key in self.loop.groups:
                yield key, row, self.loop.groups[key]

    def wanted(self) -> list[Change]:
        """Return what the rows since the last bundle change."""
        of_keys: dict[str, list[Change]] = {}
        for change in self.pending:
            of_keys.setdefault(repr(change[1][: self.table.width]), []).append(change)
        self.pending = []
        phases = self.form in (TWO_PHASES, SPLIT)
        return [
            one
            for changes in of_keys.values()
            for one in self.loop.bundle(changes, drops_first=not phases, merges=phases)
        ]

    def apply(self, changes: Sequence[Change]) -> None:
        """Change the table, of which each row that goes must be there: without a time to live."""
        if self.ttl_ms is not None:
            return
        for kind, row in changes:
            key = repr(row[: self.table.width])
            if kind == "+I":
                assert key not in self.found
            elif kind in ("-U", "-D"):
                assert repr(self.found[key]) == repr(row)
            else:
                assert key in self.found
            if kind == "-D":
                del self.found[key]
            else:
                self.found[key] = row

    def restart(self, parallelism: int) -> None:
        """Start again from the last snapshot."""
        is_stored = self.random.random() < 0.4
        for stage in (self.middle, self.last):
            if stage is not None:
                stage.now_ms = self.loop.now_ms
                stage.restart(parallelism, is_stored=is_stored)


def by_key(changes: Sequence[Change], width: int) -> dict[str, list[str]]:
    """Return the changes of each key."""
    found: dict[str, list[str]] = {}
    for kind, row in changes:
        found.setdefault(repr(row[:width]), []).append(repr((kind, row)))
    return found


def check(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a program of changes, snapshots and restarts, and compare."""
    groups = Groups(seed)
    random = groups.random
    if random.random() < 0.6:
        # Caches are emptied, and places of values that have gone are given to others, as with many more rows.
        monkeypatch.setattr(keyed_table, "KEYS_MAX", 1)
        monkeypatch.setattr(value_counts, "_MANY_DEAD", 1)
    there: list[Row] = []
    for _ in range(random.choice([6, 20])):
        groups.loop.now_ms += random.choice([0, 1, 10, 30]) if groups.ttl_ms else 0
        groups.push(groups.changes(random.choice([1, 2, 7, 40]), there))
        if random.random() < 0.3:
            groups.end("watermark")
        if random.random() < 0.4:
            aborted = random.random() < 0.3
            groups.end("barrier", aborted=aborted)
            if random.random() < 0.5:
                if aborted:
                    groups.end("barrier")
                groups.restart(random.randint(1, 4))
    groups.end("watermark")


@pytest.mark.parametrize("seed", first_of(14, range(10_000)))
def test_a_group_by_gives_what_a_plain_loop_gives(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A result would be wrong, or be announced twice or never, for some rows, bundles, or behind some restart."""
    check(seed, monkeypatch)


def lives_are_one(patch: pytest.MonkeyPatch) -> None:
    """A key that has ended goes on with what its aggregates had."""
    patch.setattr(AggregatesOfGroups, "clear", lambda self, groups: None)


def rows_of_no_key_count(patch: pytest.MonkeyPatch) -> None:
    """A row that goes from a key without rows is counted."""

    def all_of_one(slots: Any, signs: Any, counts: Any) -> Lives:
        nothing = numpy.zeros(0, numpy.int64)
        return Lives(numpy.arange(len(slots)), nothing, nothing, numpy.zeros(len(slots), numpy.int64))

    patch.setattr(group_aggregate, "lives_of", all_of_one)


def zeros_of_other_keys(patch: pytest.MonkeyPatch) -> None:
    """The best value of a key is an equal one of another key, with the other sign."""
    patch.setattr(retracted_extremes, "plain", lambda column: column)


def counts_of_values_are_left(patch: pytest.MonkeyPatch) -> None:
    """Places of values that are given to others keep their counts."""
    patch.setattr(value_counts.ValueCounts, "clear", lambda self, slots: None)


FAULTS = [lives_are_one, rows_of_no_key_count, zeros_of_other_keys, counts_of_values_are_left]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_deliberate_fault_is_found(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs would have none of the rows for which the operators do what they do."""
    fault(monkeypatch)
    for seed in range(200):
        with monkeypatch.context() as of_seed:
            try:
                check(seed, of_seed)
            except AssertionError:
                return
    pytest.fail("no program finds the fault")


def test_a_result_whose_zero_changes_its_sign_is_given_again() -> None:
    """What is taken back later was never given, and an operator behind this one would keep the row for ever."""
    columns, given = columns_of(["k", "f"], ["INT", "DOUBLE"]), columns_of(["k", "last"], ["INT", "DOUBLE"])
    last = Call("LAST_VALUE", (1,), "DOUBLE", "DOUBLE").of_plan()
    grouping = Grouping(Calls((last,), (parse("INT"), parse("DOUBLE")), (False,)), update_before=True, retracts=False)
    operator = Subtasks(
        lambda: GroupAggregateOperator("Group", ["k"], grouping, received=columns, given=given), ["k"], is_stored=False
    )
    (found,) = operator.push(chunk_of(columns, [("+I", (1, value)) for value in (0.0, 0.0, -0.0, 1.0)]))
    changes = [("+I", 0.0), ("-U", 0.0), ("+U", -0.0), ("-U", -0.0), ("+U", 1.0)]
    assert repr(changes_of(found)) == repr([(kind, (1, value)) for kind, value in changes])
