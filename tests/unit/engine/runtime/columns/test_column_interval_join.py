"""The interval join on columns: the pairs, late records and state of the one on rows, in the same order."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy
import pyarrow
import pytest
from tests.first_cases import first_of
from tests.unit.engine.state.written_state import ALL_GROUPS, GROUPS, files_in_memory

from penstock.common import Types
from penstock.common.constants import MAX_TIMESTAMP
from penstock.common.errors import CheckpointError, ProgramError
from penstock.common.types import Row
from penstock.datastream import OutputTag, StreamExecutionEnvironment
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.columns import bucket_spans, join_table
from penstock.engine.runtime.columns.bucket_rows import BucketRows
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.interval_join import ColumnIntervalJoinOperator
from penstock.engine.runtime.operators.interval_join import LEFT_TABLE, RIGHT_TABLE, IntervalJoinOperator
from penstock.engine.runtime.operators.keyed import EVENT_TIMERS_TABLE
from penstock.engine.state.backends.rocksdb.backend import Stores
from penstock.engine.state.snapshot.files import restore_keyed, write_keyed
from penstock.hosts.simulator.stores import MemoryStore
from penstock.state_processor.new_tables import finished
from penstock.testing import TwoInputHarness

ORDER = Types.ROW_NAMED(["id", "key", "item"], [Types.LONG(), Types.STRING(), Types.STRING()])
PAYMENT = Types.ROW_NAMED(["key", "id", "amount"], [Types.STRING(), Types.LONG(), Types.DOUBLE()])
LATE = OutputTag("late orders"), OutputTag("late payments")
FIELDS: dict[str, Any] = {"left": ["item", "id"], "right": {"paid": "amount", "payment": "id"}}
ALL: dict[str, Any] = {"left": ["id", "key", "item"], "right": {"of": "key", "payment": "id", "paid": "amount"}}
TABLES = (LEFT_TABLE, RIGHT_TABLE, EVENT_TIMERS_TABLE)


def joined(
    *keys: str, columns: bool, bounds: tuple[int, int] = (-20, 30), late: bool = False, fields: Any = None
) -> TwoInputHarness:
    """Return a harness of the join on columns or on rows."""

    def program(orders: Any, payments: Any) -> Any:
        if columns:
            orders, payments = orders.as_columns(ORDER), payments.as_columns(PAYMENT)
        join = orders.key_by(*keys).interval_join(payments.key_by(*keys)).between(*bounds)
        if late:
            join = join.side_output_left_late_data(LATE[0]).side_output_right_late_data(LATE[1])
        return join.select(**(fields or FIELDS))

    return TwoInputHarness(program)


def push_chunk(harness: TwoInputHarness, index: int, rows: list[Row], times: list[int]) -> None:
    """Process records of one input in one chunk."""
    operator: Any = harness.operator
    columns = operator.columns_received_by(index)
    if columns is None:
        chunk: Any = Rows(rows, times)
    else:
        chunk = Columns(columns.batch_of(rows), numpy.array(times, numpy.int64))
    operator.inputs()[index].process(chunk)
    while operator.paused:
        operator.resume()


BOUNDS = [(-20, 30), (-1, 1), (0, 0)]
"""Those of large buckets, and of small ones, of which several are in one span."""


class Records:
    """Chunks of random records of both inputs, whose times advance."""

    def __init__(self, seed: int, keys: int = 5) -> None:
        self.random = Random(seed)
        self.time = -100
        self._keys = [None, *(f"k{number}" for number in range(keys))]

    def chunk(self) -> tuple[int, list[Row], list[int]]:
        """Return an input, and records with their times."""
        random = self.random
        size = random.choice([1, 2, 15, 100])
        self.time += random.choice([0, 1, 40])
        times = [self.time + random.randint(-60, 60) for _ in range(size)]
        index = random.randint(0, 1)
        if index == 0:
            rows = [Row(id=self._id(), key=self._key(), item=random.choice(["tea", None, ""])) for _ in times]
        else:
            rows = [Row(key=self._key(), id=self._id(), amount=random.choice([0.5, None, -0.0])) for _ in times]
        return index, rows, times

    def _key(self) -> str | None:
        return self.random.choice(self._keys)

    def _id(self) -> int:
        return self.random.choice([0, 7, -(1 << 62)])


def shown(harness: TwoInputHarness) -> list[str]:
    """Return all results as texts, in which a zero has its sign."""
    return [repr((tuple(row), at)) for row, at in harness.outputs_with_timestamps()]


def restore(source: TwoInputHarness, target: TwoInputHarness) -> None:
    """Restore the state of one operator in another."""
    source.operator.prepare_snapshot(1, True)
    for name, table in source.operator.keyed_tables().items():
        for entry_keys, values in table.freeze(True).pieces():
            target.operator.restored_table(name, "").restore(entry_keys, values)
    target.operator.open()


def content(harness: TwoInputHarness) -> dict[str, dict[Any, Any]]:
    """Return what a full snapshot has of the join, by table."""
    found = {}
    for name in TABLES:
        pieces = harness.operator.keyed_tables()[name].freeze(True).pieces()
        entries = {key: value for keys, values in pieces for key, value in zip(keys, values, strict=True)}
        found[name] = {key: repr(value) for key, value in entries.items() if value is not None}
    return found


def test_each_has_its_operator() -> None:
    """The oracle would be compared with itself."""
    with joined("key", columns=True) as columns, joined("key", columns=False) as rows:
        assert type(columns.operator) is ColumnIntervalJoinOperator
        assert type(rows.operator) is IntervalJoinOperator


@pytest.mark.parametrize("seed", first_of(12, range(40)))
def test_rows_are_the_oracle(seed: int) -> None:
    """Pairs, their order and times would differ, or late records would be paired."""
    records = Records(seed, keys=[1, 5, 20][seed % 3])
    keys = [["key"], ["id"], ["key", "id"]][seed // 3 % 3]
    lower = records.random.choice([-50, -3, 0, 10])
    bounds = lower, lower + records.random.choice([0, 3, 40])
    with (
        joined(*keys, columns=True, bounds=bounds, late=True) as columns,
        joined(*keys, columns=False, bounds=bounds, late=True) as rows,
    ):
        for _ in range(60):
            index, some, times = records.chunk()
            for harness in (columns, rows):
                push_chunk(harness, index, some, times)
                if some[0].id:
                    harness.watermark(records.time - 10)
        assert shown(columns) == shown(rows) and rows.outputs()
        for tag in LATE:
            assert list(map(repr, columns.side_outputs(tag))) == list(map(repr, rows.side_outputs(tag)))
        assert columns.watermarks() == rows.watermarks()
        columns.finish()
        assert not any(columns.operator.keyed_tables().values())


def test_late_records_are_counted() -> None:
    """Lost records would not be seen in metrics."""
    with joined("key", columns=True) as harness:
        harness.watermark(100)
        push_chunk(harness, 0, [Row(id=1, key="a", item=""), Row(id=1, key="a", item="")], [99, 100])
        assert harness.counters.late_records_dropped == 1


@pytest.mark.parametrize("fields", [{"left": ["id"]}, {"right": ["id"]}, {"left": {"a": "key", "b": "key"}}])
def test_fields_of_one_side_alone(fields: Any) -> None:
    """A side of which no field is selected would have no rows."""
    records = Records(3)
    with joined("key", columns=True, fields=fields) as columns, joined("key", columns=False, fields=fields) as rows:
        for _ in range(20):
            chunk = records.chunk()
            for harness in (columns, rows):
                push_chunk(harness, *chunk)
        assert shown(columns) == shown(rows) and rows.outputs()


@pytest.mark.parametrize("before_is_columns", [True, False])
@pytest.mark.parametrize("after_is_columns", [True, False])
@pytest.mark.parametrize("key", ["key", "id"])
def test_a_snapshot_of_one_is_restored_by_the_other(before_is_columns: bool, after_is_columns: bool, key: str) -> None:
    """A job that is given columns, or loses them, would miss pairs, or keep their records for ever."""
    records = Records(1)
    with (
        joined(key, columns=before_is_columns) as first,
        joined(key, columns=after_is_columns) as second,
        joined(key, columns=False) as oracle,
    ):
        for number in range(60):
            chunk = records.chunk()
            for harness in (oracle, second if number >= 30 else first):
                push_chunk(harness, *chunk)
                harness.watermark(records.time - 60)
            if number == 29:
                before, expected = content(first), content(oracle)
                assert all(set(before[name]) == set(expected[name]) for name in TABLES)
                restore(first, second)
        assert shown(first) + shown(second) == shown(oracle)
        second.finish()
        assert not any(second.operator.keyed_tables().values())


@pytest.mark.parametrize("bounds", BOUNDS)
def test_the_snapshot_is_that_of_rows(bounds: tuple[int, int]) -> None:
    """Queries and the state processor would read other records, or none."""
    records = Records(5)
    with (
        joined("key", columns=True, fields=ALL, bounds=bounds) as columns,
        joined("key", columns=False, fields=ALL, bounds=bounds) as rows,
    ):
        for _ in range(30):
            chunk = records.chunk()
            for harness in (columns, rows):
                push_chunk(harness, *chunk)
                harness.watermark(records.time - 60)
        assert content(columns) == content(rows)
        for name in TABLES[:2]:
            table: Any = columns.operator.keyed_tables()[name].readable()
            assert {key: repr(value) for key, value in table.first_items()} == content(rows)[name]
            places = table.places_of(["k1"], 1_000)
            found = {place: repr(value) for place in places if (value := table.get(place)) is not None}
            assert found == {place: value for place, value in content(rows)[name].items() if place[0] == "k1"}
            assert table.get(("nobody", 0)) is None


class Checkpoints:
    """The chain of files of an operator's checkpoints: a full one, then its changes."""

    def __init__(self, harness: TwoInputHarness, bounds: tuple[int, int]) -> None:
        self._harness = harness
        self._bounds = bounds
        self._storage = files_in_memory()
        self.chain: list[Any] = []

    def freeze(self) -> Any:
        """Freeze now. The function that is returned writes the file."""
        frozen = {name: self._harness.operator.keyed_tables()[name].freeze(not self.chain) for name in TABLES}

        def write() -> None:
            self.chain.append(finished(write_keyed(self._storage, str(len(self.chain)), frozen, GROUPS)))
            for table in frozen.values():
                table.release()

        return write

    def restored(self, columns: bool, groups: range) -> TwoInputHarness:
        """Return a harness with the last checkpoint's entries of some key groups."""
        harness = joined("key", columns=columns, fields=ALL, bounds=self._bounds)
        tables = {name: harness.operator.restored_table(name, "") for name in TABLES}
        restore_keyed(self._storage, self.chain, groups, tables)
        harness.operator.open()
        return harness


@pytest.mark.parametrize("columns_after", [True, False])
@pytest.mark.parametrize("seed", first_of(1, range(6)))
@pytest.mark.parametrize("bounds", BOUNDS)
def test_checkpoints_of_changes_are_restored_at_another_parallelism(
    seed: int, columns_after: bool, bounds: tuple[int, int]
) -> None:
    """What was freed or added since a checkpoint would be there again, or be missing, after a failure."""
    records = Records(seed, keys=30)
    with (
        joined("key", columns=True, fields=ALL, bounds=bounds) as columns,
        joined("key", columns=False, fields=ALL, bounds=bounds) as rows,
    ):
        checkpoints = Checkpoints(columns, bounds)

        def push() -> None:
            chunk = records.chunk()
            for harness in (columns, rows):
                push_chunk(harness, *chunk)
                harness.watermark(records.time - 60)

        for _ in range(6):
            for _ in range(8):
                push()
            expected = content(rows)
            write = checkpoints.freeze()
            # The table goes on changing while the file is written.
            push()
            write()
            with (
                checkpoints.restored(columns_after, ALL_GROUPS[:3]) as one,
                checkpoints.restored(columns_after, ALL_GROUPS[3:]) as other,
            ):
                parts = content(one), content(other)
                for name in TABLES:
                    assert {**parts[0][name], **parts[1][name]} == expected[name]
                    assert not parts[0][name].keys() & parts[1][name].keys()


def test_a_checkpoint_of_changes_has_these_alone() -> None:
    """Each checkpoint would write all records again."""
    with joined("id", columns=True) as harness:
        keys = [number * 10 for number in range(300)]
        push_chunk(harness, 0, [Row(id=key, key="", item="a") for key in keys], [5] * 300)
        table = harness.operator.keyed_tables()[LEFT_TABLE]
        assert sum(len(keys) for keys, _ in table.freeze(True).pieces()) == 300
        push_chunk(harness, 0, [Row(id=10, key="", item="b")], [6])
        assert list(table.freeze(False).pieces()) == [
            ([(10, 0)], [[(5, Row(item="a", id=10)), (6, Row(item="b", id=10))]])
        ]
        assert list(table.freeze(False).pieces()) == []
        harness.watermark(1_000)
        assert sum(values.count(None) for _, values in table.freeze(False).pieces()) == 300


def test_other_bounds_are_refused() -> None:
    """Pairs would be missing, since records are in other buckets."""
    with joined("key", columns=True) as first, joined("key", columns=True, bounds=(0, 1)) as second:
        first.push1(Row(id=1, key="a", item="tea"), 5)
        with pytest.raises(ProgramError, match="stored for other bounds"):
            restore(first, second)


def test_state_without_a_selected_field_is_refused() -> None:
    """The field would be None in pairs with older records."""
    with joined("key", columns=True, fields={"left": ["id"]}) as first, joined("key", columns=True) as second:
        first.push1(Row(id=1, key="a", item="tea"), 5)
        with pytest.raises(CheckpointError, match="do not fit the fields item, id"):
            restore(first, second)


def test_a_record_without_a_timestamp() -> None:
    """The error would not tell what to do."""
    with joined("key", columns=True) as harness, pytest.raises(ProgramError, match="assign_timestamps_and_watermarks"):
        harness.push1(Row(id=1, key="a", item="tea"))


def operator_of(**settings: Any) -> Any:
    """Return the operator of a program on columns, unopened."""
    env = StreamExecutionEnvironment.get_execution_environment()
    orders, payments = env.from_collection([], ORDER).as_columns(), env.from_collection([], PAYMENT).as_columns()
    join = orders.key_by("key").interval_join(payments.key_by("key")).between(-20, 30)
    return join.select(**(settings or FIELDS))._transformation.operator


class Emitted:
    """Makes rows of the chunks that an operator emits, for a rig."""

    def __init__(self, rig: Any, **settings: Any) -> None:
        self.one = rig(operator_of(), **settings)
        read, emit = self.one.operator.columns_given.reader(), self.one.emit
        self.one.emit = lambda chunk: emit(Rows(read(chunk.batch), chunk.timestamps.tolist()))

    def push(self, index: int, rows: list[Row], times: list[int]) -> None:
        """Process a chunk."""
        operator = self.one.operator
        chunk = Columns(operator.columns_received_by(index).batch_of(rows), numpy.array(times, numpy.int64))
        self.one.do(lambda: operator.inputs()[index].process(chunk))


def test_many_pairs_come_in_several_chunks(rig: Any) -> None:
    """A frequent key would take memory without a limit, and delay checkpoints."""
    emitted = Emitted(rig, patient=False)
    emitted.push(0, [Row(id=number, key="a", item="") for number in range(500)], [0] * 500)
    emitted.push(1, [Row(id=number, key="a", amount=0.5) for number in range(500)], [1] * 500)
    found = [(row.payment, row.id) for row, _ in emitted.one.log]
    assert found == [(payment, order) for payment in range(500) for order in range(500)]
    assert max(emitted.one.chunks) <= 1 << 15 and emitted.one.pauses > 5


@pytest.mark.parametrize("seed", range(4))
def test_state_in_rocksdb(rig: Any, seed: int) -> None:
    """The join would lose pairs where its state is larger than memory."""
    records = Records(seed)
    stored = Emitted(rig, stores=Stores(MemoryStore, cached_entries=0))
    with joined("key", columns=False) as rows:
        for _ in range(40):
            chunk = records.chunk()
            stored.push(*chunk)
            push_chunk(rows, *chunk)
            stored.one.until(records.time - 60)
            rows.watermark(records.time - 60)
        pairs = [repr((tuple(one[0]), one[1])) for one in stored.one.log if isinstance(one[0], Row)]
        assert pairs == shown(rows) and pairs
        stored.one.until(10_000)
        assert not any(table for name, table in stored.one.operator.keyed_tables().items() if "join" in name)


def test_batched_programs_run_on_rows() -> None:
    """A batched task sorts rows by key."""
    operator = operator_of()
    twin = operator.on_rows()
    assert type(twin) is IntervalJoinOperator and twin.name == operator.name
    assert (twin.left.lower, twin.left.upper, twin.right.lower) == (-20, 30, -30)


def test_columns_that_are_sent() -> None:
    """An exchange would carry columns that the join does not read, or lack the fields of the key."""
    operator = operator_of(left=["item"], right=["amount"])
    assert operator.columns_read(0) == ("key", "item")
    assert operator.columns_read(1) == ("key", "amount")


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({}, ValueError, "one field at least"),
        ({"left": ["price"]}, ValueError, "the left records have no field 'price': they have id, key, item"),
        ({"right": {"x": "price"}}, ValueError, "the right records have no field 'price': they have key, id, amount"),
        (
            {"left": ["id"], "right": ["id"]},
            ValueError,
            r"both streams have a field 'id'.*right=\{\"right_id\": \"id\"\}",
        ),
        ({"left": ["id", "id"]}, ValueError, "left has 'id' twice"),
        ({"left": "id"}, TypeError, "expected names of fields for left"),
        ({"left": [3]}, TypeError, "got 3"),
    ],
)
@pytest.mark.parametrize("columns", [True, False])
def test_what_is_refused(fields: Any, error: type[Exception], words: str, columns: bool) -> None:
    """The job would fail at its first pair."""
    env = StreamExecutionEnvironment.get_execution_environment()
    orders, payments = env.from_collection([], ORDER), env.from_collection([], PAYMENT)
    if columns:
        orders, payments = orders.as_columns(), payments.as_columns()
    join = orders.key_by("key").interval_join(payments.key_by("key")).between(0, 1)
    with pytest.raises(error, match=words):
        join.select(**fields)


def test_keys_of_two_forms_run_on_rows() -> None:
    """1 and 1.0 are one key to Python, but not in arrays."""
    left = pyarrow.schema([("key", pyarrow.int64()), ("n", pyarrow.int64())])
    right = pyarrow.schema([("key", pyarrow.float64()), ("m", pyarrow.int64())])

    def program(one: Any, other: Any) -> Any:
        keyed = one.as_columns(left).key_by("key"), other.as_columns(right).key_by("key")
        return keyed[0].interval_join(keyed[1]).between(0, 1).select(["n"], ["m"])

    with TwoInputHarness(program) as harness:
        assert type(harness.operator) is IntervalJoinOperator


def spans(table: Any) -> list[tuple[int, int]]:
    """Return the beginnings and ends of the spans of a side."""
    return sorted((span.first, span.stop) for span in table.spans.values())


def test_buckets_of_few_records_are_together() -> None:
    """A chunk would pay 0.1 ms for each two records, ten times what rows take."""
    with joined("key", columns=True, bounds=(0, 0)) as harness:
        table = harness.operator.keyed_tables()[LEFT_TABLE]

        def push(*times: int) -> None:
            push_chunk(harness, 0, [Row(id=1, key="a", item="") for _ in times], list(times))

        push(*range(0, 1000, 2))
        assert spans(table) == [(0, 128), (128, 256), (256, 384), (384, 500)]
        push(*range(0, 1000))
        assert len(spans(table)) == 4, "they have room for later chunks"
        push(*range(2000, 2010), *[10_000] * 300, 10_002, 1 << 60)
        assert spans(table)[4:] == [(1000, 1005), (5000, 5001), (5001, 5002), (1 << 59, (1 << 59) + 1)]
        harness.watermark(1_003)
        assert spans(table)[:1] == [(1000, 1005)], "freed with their last bucket"
        push_chunk(harness, 1, [Row(id=1, key="a", amount=0.5)] * 2, [2_004, 10_000])
        assert [at for _, at in harness.outputs_with_timestamps()] == [2_004] + [10_000] * 300


def test_pairs_of_small_buckets_are_in_the_order_of_buckets() -> None:
    """Pairs would come in the order of arrival, which rows have within a bucket only."""
    found = []
    for columns in (True, False):
        with joined("key", columns=columns, bounds=(-1, 1)) as harness:
            times = [5, 6, 7, 4, 6, 5, 7, 8]
            push_chunk(harness, 0, [Row(id=n, key="a", item="") for n, _ in enumerate(times)], times)
            push_chunk(harness, 1, [Row(id=1, key="a", amount=0.5)] * 3, [6, 5, 7])
            found.append(shown(harness))
    assert found[0] == found[1] and len(found[0]) == 16


@pytest.mark.parametrize("bounds", [(10, 12), (-12, -10), (-1, 1), (0, 1 << 62), (-MAX_TIMESTAMP, MAX_TIMESTAMP)])
def test_times_at_the_limits(bounds: tuple[int, int]) -> None:
    """A time moved beyond 64 bits would become the last one of all, and a record of that time be its partner."""
    found = []
    last = MAX_TIMESTAMP
    for columns in (True, False):
        with joined("key", columns=columns, bounds=bounds) as harness:
            for times in ([last, last - 5, last - 11, 0], [-last, -last + 5, -last + 11]):
                for index in (0, 1):
                    record = Row(id=1, key="a", item="") if index == 0 else Row(id=1, key="a", amount=0.5)
                    push_chunk(harness, index, [record] * len(times), times)
            harness.watermark(-last + 3)
            push_chunk(harness, 0, [Row(id=1, key="a", item="")], [-last + 4])
            found.append(shown(harness))
    assert sorted(found[0]) == sorted(found[1]) and found[0]


def test_a_chunk_looks_at_the_spans_that_it_reaches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one input is hours ahead, each chunk and each checkpoint would cost more than the one before it."""
    known: list[int] = []
    frozen: list[int] = []

    def spans_of(buckets: Any, of_table: Any) -> Any:
        known.append(len(of_table))
        return bucket_spans.spans_of(buckets, of_table)

    def freeze(self: BucketRows, full: bool) -> Any:
        frozen.append(self.first)
        return whole(self, full)

    whole = BucketRows.freeze
    monkeypatch.setattr(join_table, "spans_of", spans_of)
    monkeypatch.setattr(BucketRows, "freeze", freeze)
    with joined("key", columns=True, bounds=(0, 0)) as harness:
        table = harness.operator.keyed_tables()[LEFT_TABLE]
        for start in (*range(0, 4000, 100), 350):
            push_chunk(harness, 0, [Row(id=1, key="a", item="") for _ in range(100)], [*range(start, start + 100)])
        assert len(spans(table)) == 40 and max(known) <= 2
        assert [len(table.reached(*buckets)) for buckets in ((0, 49), (49, 50), (-9, -1), (5000, 5000))] == [1, 2, 0, 0]
        table.freeze(False)
        assert len(frozen) == 40
        frozen.clear()
        push_chunk(harness, 0, [Row(id=1, key="a", item="")], [3999])
        table.freeze(False)
        assert frozen == [spans(table)[-1][0]]
