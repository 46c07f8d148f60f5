"""Aggregates over arrays that users write: rows are the oracle of columns, and of their state."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any, ClassVar

import numpy
import pytest
from tests.first_cases import first_of
from tests.unit.aggregates_of_fields import READING
from tests.unit.engine.state.written_state import files_in_memory
from tests.unit.users_aggregates import AGGREGATES, IN_ANY_ORDER, NUMBERS, Spread, WeightedMean
from tests.unit.windows.test_local_windows import Pair

from penstock.common import Time, Types
from penstock.common.errors import CheckpointError, UserFunctionError
from penstock.common.types import Row
from penstock.datastream import ArrayAggregateFunction, StreamExecutionEnvironment
from penstock.datastream.state import StateTtlConfig
from penstock.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.running_aggregate import ColumnRunningAggregateOperator
from penstock.engine.runtime.columns.sessions import ColumnSessionWindowOperator
from penstock.engine.runtime.columns.windows import ColumnWindowOperator
from penstock.engine.runtime.operators.running_aggregate import RunningAggregateOperator
from penstock.engine.runtime.windows.sliced_window_operator import SlicedWindowOperator
from penstock.engine.runtime.windows.window_operator import WindowOperator
from penstock.engine.state.backends.rocksdb.backend import RocksDBKeyedStateBackend, Stores
from penstock.engine.state.key_groups import KeyGroups, key_group_range
from penstock.engine.state.snapshot.files import restore_keyed, write_keyed
from penstock.hosts.simulator.stores import MemoryStore
from penstock.testing import OperatorHarness

FLOATS = [None, *[0.1, 0.2, -0.3, 0.7, 1e9] * 8, 0.0, -0.0, 1e300, math.nan, math.inf, -math.inf]
TEN = Time.milliseconds(10)
KINDS: dict[str, Callable[[Any], Any]] = {
    "running": lambda keyed: keyed,
    "expiring": lambda keyed: keyed,
    "tumbling": lambda keyed: keyed.window(TumblingEventTimeWindows.of(TEN)),
    "late": lambda keyed: keyed.window(TumblingEventTimeWindows.of(TEN)).allowed_lateness(15),
    "sliding": lambda keyed: keyed.window(SlidingEventTimeWindows.of(TEN, Time.milliseconds(5))),
    "session": lambda keyed: keyed.window(EventTimeSessionWindows.with_gap(TEN)),
}
ON_COLUMNS = {
    **dict.fromkeys(("running", "expiring"), ColumnRunningAggregateOperator),
    "session": ColumnSessionWindowOperator,
}
ON_ROWS = {**dict.fromkeys(("running", "expiring"), RunningAggregateOperator), "session": WindowOperator}


def aggregates_of(kind: str) -> dict[str, Any]:
    """Return aggregates that are on columns in windows of this kind."""
    return IN_ANY_ORDER if kind == "session" else AGGREGATES


def harness(kind: str, on_columns: bool, aggregates: Any = None, in_store: bool = False) -> OperatorHarness:
    """Return a harness of aggregates; `in_store`: with state in tables larger than memory."""

    def program(stream: Any) -> Any:
        stream._transformation.output_type = READING
        typed = stream.as_columns(READING) if on_columns else stream
        settings = {"ttl_config": StateTtlConfig.new_builder(TEN).build()} if kind == "expiring" else {}
        return KINDS[kind](typed.key_by("key")).aggregate(aggregates or aggregates_of(kind), **settings)

    made = OperatorHarness(program)
    if in_store:
        operator: Any = made.operator
        operator.context.stores = Stores(MemoryStore, cached_entries=1)
        operator.setup(operator.context, operator.output)
        operator.open()
        assert isinstance(operator.backend, RocksDBKeyedStateBackend)
    return made


def push_chunk(one: OperatorHarness, rows: list[Row], times: list[int]) -> None:
    """Process records in one chunk, if they are columns."""
    operator: Any = one.operator
    if operator.columns_received is None:
        for row, at in zip(rows, times, strict=True):
            one.push(row, at)
        return
    operator.process(Columns(operator.columns_received.batch_of(rows), numpy.array(times)))
    while operator.paused:
        operator.context.budget.begin_step()
        operator.resume()


def records(random: Random, keys: list[Any], count: int) -> list[Row]:
    """Return random records."""
    return [Row(key=random.choice(keys), n=random.choice(NUMBERS), f=random.choice(FLOATS)) for _ in range(count)]


def shown(one: OperatorHarness, kind: str) -> list[str]:
    """Return the results as texts, in which NaN equals NaN and a zero has its sign."""
    found = [repr((at, tuple(row))) for row, at in one.outputs_with_timestamps()]
    # Sessions of several keys that end together have no order.
    return sorted(found) if kind == "session" else found


def test_each_has_its_operator() -> None:
    """The oracle would be compared with itself."""
    for kind in KINDS:
        with harness(kind, True) as columns, harness(kind, False) as rows:
            assert type(columns.operator) is ON_COLUMNS.get(kind, ColumnWindowOperator)
            assert type(rows.operator) is ON_ROWS.get(kind, SlicedWindowOperator)
    with harness("session", True, AGGREGATES) as by_order:
        assert type(by_order.operator) is WindowOperator


@pytest.mark.parametrize("seed", first_of(2, range(8)))
@pytest.mark.parametrize("in_store", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_the_oracle(kind: str, in_store: bool, seed: int) -> None:
    """Results and their order would differ: nulls, one key and many, late records, snapshots in between."""
    random = Random(seed)
    keys: list[Any] = ["a", None, ""] if seed % 2 else [str(number) for number in range(90)]
    with harness(kind, True, in_store=in_store) as columns, harness(kind, False) as rows:
        now = 0
        for _ in range(12):
            chunk = records(random, keys, random.choice([1, 2, 30, 150]))
            times = [max(1, now + random.randrange(-15, 25)) for _ in chunk]
            for each in (columns, rows):
                push_chunk(each, chunk, times)
            if random.random() < 0.4:
                now += random.randrange(30)
                for each in (columns, rows):
                    each.watermark(now)
                    each.advance_ms(7)
                    each.operator.prepare_snapshot(1, False)
        for each in (columns, rows):
            each.finish()
        assert shown(columns, kind) == shown(rows, kind) and len(rows.outputs()) > 2
        assert columns.counters.late_records_dropped == rows.counters.late_records_dropped


def test_what_python_computes() -> None:
    """Rows and columns would share an error."""
    for on_columns in (False, True):
        with harness("running", on_columns) as one:
            rows = [("a", 2, 1.5), ("b", None, 1.0), ("a", 3, None), ("a", 6, 5.5), ("b", 0, 4.0)]
            push_chunk(one, [Row(key=key, n=n, f=f) for key, n, f in rows], [1] * 5)
            found = [(row.key, row.price, row.spread) for row in one.outputs()]
        # The spread has 1000 for each row, 1 if a number is odd, and 10 times the greatest last digit.
        assert found == [
            ("a", 1.5, 1020),
            ("b", None, None),
            ("a", 1.5, 1 + 2000 + 1 + 30),
            ("a", (3 + 33) / 8, 4 + 3000 + 1 + 60),
            ("b", None, 1000),
        ]


@pytest.mark.parametrize("seed", first_of(3, range(6)))
def test_aggregated_before_the_exchange(seed: int) -> None:
    """Partial results would be merged into others than the records give."""
    random = Random(seed)
    with harness("tumbling", True, IN_ANY_ORDER) as columns, harness("tumbling", False, IN_ANY_ORDER) as rows:
        pair = Pair(columns)
        for now in range(0, 60, 12):
            for _ in range(3):
                chunk = records(random, ["a", "b", None], 20)
                times = [now + random.randrange(1, 24) for _ in chunk]
                if seed % 2:
                    # Sums that may have no room are sent record by record.
                    chunk = [Row(key=key, n=sign * ((1 << 61) + 1), f=0.5) for key in "ab" for sign in (1, -1)]
                    times = [now + 1] * len(chunk)
                assert pair.columns is not None
                pair.local.process(Columns(pair.columns.batch_of(chunk), numpy.array(times)))
                push_chunk(rows, chunk, times)
            pair.local.watermark(now)
            rows.watermark(now)
        pair.local.watermark(1000)
        rows.finish()
        assert sorted(shown(columns, "tumbling")) == sorted(shown(rows, "tumbling")) and len(rows.outputs()) > 5
    with harness("tumbling", True) as by_order:
        operator: Any = by_order.operator
        assert operator.local_and_global() is None


def test_a_running_result_costs_a_call_for_each_row_of_the_most_frequent_key() -> None:
    """A batch of many keys would take as many calls as rows."""
    calls = []

    class Counted(WeightedMean):
        def add(self, accumulators: Any, slots: Any, value: Any, weight: Any) -> None:
            calls.append(len(slots))
            super().add(accumulators, slots, value, weight)

    with harness("running", True, {"mean": (("f", "n"), Counted())}) as one:
        keys = [*"abcdefgh" * 2, *"ab", "a"]
        push_chunk(one, [Row(key=key, n=1, f=0.5) for key in keys], [1] * len(keys))
        assert len(one.outputs()) == len(keys)
    assert calls == [8, 8, 2, 1]


@pytest.mark.parametrize("keys", [["a"], ["a"] * 9 + ["b", None], [*"abcdefghij"] * 3 + [str(n) for n in range(40)]])
@pytest.mark.parametrize("kind", ["running", "expiring", "late"])
def test_frequent_keys(kind: str, keys: list[Any]) -> None:
    """Rows of one key in a batch are added in steps or merged, and results would differ."""
    random = Random(len(keys))
    with harness(kind, True) as columns, harness(kind, False) as rows:
        for now in (1, 40):
            for count in (9, 20, 300):
                chunk = records(random, keys, count)
                if count == 20:
                    # No row is added.
                    chunk = [Row(key=row.key, n=None, f=row.f) for row in chunk]
                for each in (columns, rows):
                    push_chunk(each, chunk, [now] * count)
                    each.watermark(now + 12)
                    each.advance_ms(7)
        assert shown(columns, kind) == shown(rows, kind) and len(rows.outputs()) > 500


def test_rows_of_one_key_are_merged_where_the_order_does_not_matter() -> None:
    """A batch with a frequent key would take as many calls as rows."""
    calls = []

    class Counted(Spread):
        def add(self, accumulators: Any, slots: Any, n: Any) -> None:
            calls.append("add")
            super().add(accumulators, slots, n)

        def merge(self, accumulators: Any, slots: Any, others: Any) -> None:
            calls.append("merge")
            super().merge(accumulators, slots, others)

    with harness("running", True, {"spread": ("n", Counted())}) as one:
        push_chunk(one, [Row(key="a", n=1, f=0.5)] * 1000, [1] * 1000)
        assert len(one.outputs()) == 1000
    assert calls == ["add", *["merge"] * 11]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("in_store", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_files_of_one_are_restored_by_several_of_the_other(
    kind: str, in_store: bool, before: bool, after: bool
) -> None:
    """A job that gains or loses columns, or gets another parallelism, would go on with other results."""
    random = Random(kind)
    keys = [str(number) for number in range(25)]
    first_part, second_part = records(random, keys, 150), records(random, keys, 150)
    times = [random.randrange(1, 30) for _ in first_part]
    storage, groups = files_in_memory(), KeyGroups(128)
    aggregates = aggregates_of(kind)
    with harness(kind, before) as first, harness(kind, False) as oracle:
        for each in (first, oracle):
            push_chunk(each, first_part, times)
        first.operator.prepare_snapshot(1, True)
        tables = {name: table.freeze(True) for name, table in first.operator.keyed_tables().items()}
        schemas = {name: str(one) for name, one in first.operator.keyed_schemas().items()}
        writing = write_keyed(storage, "file", tables, groups)
        while True:
            try:
                next(writing)
            except StopIteration as end:
                file = end.value
                break
        found = shown(first, kind)
        for subtask in range(2):
            with harness(kind, after, aggregates, in_store) as second:
                restored = {
                    name: second.operator.restored_table(name, schemas.get(name, ""))
                    for name in second.operator.keyed_tables().keys() & tables.keys()
                }
                own = key_group_range(subtask, 128, 2)
                restore_keyed(storage, [file], own, restored)
                second.operator.open()
                mine = [index for index, row in enumerate(second_part) if groups[row.key] in own]
                push_chunk(second, [second_part[index] for index in mine], [times[index] for index in mine])
                second.finish()
                found += shown(second, kind)
        push_chunk(oracle, second_part, times)
        oracle.finish()
        assert sorted(found) == sorted(shown(oracle, kind)) and len(found) > 20


class Other(Spread):
    """Other accumulators."""

    accumulator: ClassVar[dict[str, Any]] = {**Spread.accumulator, "rows": "int64"}


Renamed = type("Renamed", (Spread,), {})


@pytest.mark.parametrize("changed", [("n", Other()), ("n", Renamed()), ("f", WeightedMean()), ("n", "max")])
def test_another_class_under_the_same_name_is_refused(changed: Any) -> None:
    """It would go on with numbers that mean something else."""
    aggregates = {"x": ("n", Spread())}
    if isinstance(changed[1], WeightedMean):
        changed = (("f", "n"), changed[1])
    with harness("running", True, aggregates) as first, harness("running", True, {"x": changed}) as second:
        (schema,) = map(str, first.operator.keyed_schemas().values())
        (name,) = first.operator.keyed_schemas()
        with pytest.raises(
            CheckpointError, match=r"'x' was written as .*users_aggregates.Spread\(n; least: int64.*decl"
        ):
            second.operator.restored_table(name, schema)
        first.operator.restored_table(name, schema)


class Failing(ArrayAggregateFunction):
    """Fails in one of its methods."""

    accumulator: ClassVar[dict[str, Any]] = {"total": float}
    result_type = Types.DOUBLE()

    def __init__(self, method: str) -> None:
        self.method = method

    def add(self, accumulators: Any, slots: Any, n: Any) -> None:
        """Add, or fail."""
        if self.method == "add" and n.max() == 3:
            raise ZeroDivisionError("three")
        if self.method == "shape":
            accumulators.total = accumulators.total[:-1]
        elif self.method == "name":
            accumulators.sum = n
        elif self.method == "slots":
            slots[:] = 0
        elif self.method == "values":
            n += 1

    def merge(self, accumulators: Any, slots: Any, others: Any) -> None:
        """Merge, or fail."""
        if self.method == "merge":
            others.total += 1

    def get_result(self, accumulators: Any) -> Any:
        """Return the totals, or fail."""
        if self.method == "results":
            return accumulators.total[:-1]
        if self.method == "texts":
            return numpy.array(["a"] * len(accumulators.total))
        if self.method == "write":
            accumulators.total += 1
        if self.method == "stop":
            raise StopIteration
        return accumulators.total


@pytest.mark.parametrize("on_columns", [False, True])
@pytest.mark.parametrize("kind", ["running", "tumbling", "session"])
@pytest.mark.parametrize(
    ("method", "name", "words"),
    [
        ("add", "Failing.add", "ZeroDivisionError: three"),
        ("shape", "Failing.add", r"expected 1 values of float64 in the accumulator 'total'.*shape \(0,\)"),
        ("name", "Failing.add", "the accumulators are total, and not sum"),
        ("slots", "Failing.add", "read-only"),
        ("values", "Failing.add", "read-only"),
        ("merge", "Failing.merge", "read-only"),
        ("results", "Failing.get_result", "expected 1 results, one for each key, got 0"),
        ("texts", "Failing.get_result", "column 'x': string can't become double"),
        ("write", "Failing.get_result", "read-only"),
        ("stop", "Failing.get_result", "StopIteration"),
    ],
)
def test_errors_name_the_users_method(kind: str, on_columns: bool, method: str, name: str, words: str) -> None:
    """A user would search their own error in penstock's code."""
    Failing.in_any_order = kind == "session"
    if method == "merge" and kind != "session":
        pytest.skip("only sessions merge")
    with (
        harness(kind, on_columns, {"x": ("n", Failing(method))}) as one,
        pytest.raises(UserFunctionError, match=rf"(?s)operator '.*', subtask 1 of 1, in {name}\n.*{words}") as raised,
    ):
        for at in (1, 15, 8):
            push_chunk(one, [Row(key="a", n=3, f=0.5)], [at])
        one.finish()
    if "read-only" in words or method in ("add", "stop"):
        assert __file__ in str(raised.value) and "user_aggregates.py" not in str(raised.value)
    if method == "add":
        assert "'n': 3" in str(raised.value) or "n=3" in str(raised.value), "the record"


def without(name: str, **more: Any) -> ArrayAggregateFunction:
    """Return a function that lacks what is named, or has another one."""
    made = type(
        "Mean", (ArrayAggregateFunction,), {**{k: v for k, v in vars(WeightedMean).items() if k != name}, **more}
    )
    return made()  # type: ignore[no-any-return]


FIELDS = ("f", "n")


@pytest.mark.parametrize(
    ("declared", "error", "words"),
    [
        (lambda: (("f", "m"), WeightedMean()), ValueError, "no field 'm'.*key, n, f"),
        (lambda: (("f", "key"), WeightedMean()), TypeError, "'x': WeightedMean reads integers .* 'key' is String"),
        (lambda: (FIELDS, WeightedMean), TypeError, r"create one with WeightedMean\(\)"),
        (lambda: WeightedMean(), TypeError, r"the fields that WeightedMean reads.*got \(\)"),
        (lambda: (("f", 5), WeightedMean()), TypeError, r"the fields that WeightedMean reads.*got \('f', 5\)"),
        (lambda: (("f", "f"), WeightedMean()), ValueError, "each once, got f, f"),
        (
            lambda: ("f", WeightedMean()),
            TypeError,
            r"add is called with 3 arguments \(accumulators, slots, f\)",
        ),
        (lambda: (FIELDS, without("accumulator")), TypeError, "Mean.accumulator: expected names and types"),
        (lambda: (FIELDS, without("", accumulator={})), TypeError, "expected names and types"),
        (lambda: (FIELDS, without("", accumulator={"a b": float})), ValueError, "can be an attribute, got 'a b'"),
        (lambda: (FIELDS, without("", accumulator={"a": "flaot"})), TypeError, "'a' has 'flaot', which is not a type"),
        (lambda: (FIELDS, without("", accumulator={"a": complex})), TypeError, "'a' must be a boolean, an integer"),
        (lambda: (FIELDS, without("", accumulator={"a": str})), TypeError, "'a' must be a boolean, an integer"),
        (lambda: (FIELDS, without("", accumulator={"a": [1, 2]})), TypeError, "'a' must be a boolean, an integer"),
        (lambda: (FIELDS, without("result_type")), TypeError, "Mean.result_type must be a type of Types"),
        (lambda: (FIELDS, without("", result_type=float)), TypeError, "Mean.result_type must be a type of Types"),
        (lambda: (FIELDS, without("", result_type=Types.PICKLED_BYTE_ARRAY())), TypeError, "has no column type"),
        (lambda: (FIELDS, without("merge", in_any_order=True)), TypeError, "in_any_order is True, which needs `merge`"),
        (lambda: (FIELDS, without("add")), TypeError, "abstract"),
    ],
)
def test_what_is_refused(declared: Any, error: type[Exception], words: str) -> None:
    """The job would fail at its first record, or when a window ends."""
    stream = StreamExecutionEnvironment().from_collection([Row(key="a", n=1, f=0.5)], READING)
    with pytest.raises(error, match=words):
        stream.key_by("key").aggregate({"x": declared()})


def test_windows_that_merge_need_merge() -> None:
    """The job would fail when two sessions become one."""
    with pytest.raises(TypeError, match="'x': Mean lacks `merge`"):
        harness("session", False, {"x": (FIELDS, without("merge"))})
    harness("tumbling", False, {"x": (FIELDS, without("merge"))}).close()


def test_records_without_a_declared_type() -> None:
    """A text would be added as something else, or an integer of more than 64 bits wrap."""
    with OperatorHarness(lambda stream: stream.key_by("key").aggregate({"mean": (FIELDS, WeightedMean())})) as one:
        one.push({"key": "a", "f": 2, "n": 3})
        one.push({"key": "a", "f": numpy.float32(1.5), "n": numpy.int8(1)})
        assert [row.mean for row in one.outputs()] == [2.0, 1.875]
        for wrong in ("1", 1 << 64, True, [1]):
            with pytest.raises(UserFunctionError, match="expected an integer or a float of 64 bits in the field 'f'"):
                one.push({"key": "a", "f": wrong, "n": 3})
