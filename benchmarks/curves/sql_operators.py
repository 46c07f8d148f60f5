"""State of SQL operators that grows: CPU time of a chunk of 100 rows, an increment behind it, and a watermark.

python -m benchmarks.curves.sql_operators [--only joins,sessions] [--sizes 10000,100000,1000000]

n keys are in state, on the heap. Then chunks of rows of random keys come, and increments have what they have changed.
"""

from __future__ import annotations

import argparse
import gc
import statistics
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy
import pyarrow

from benchmarks.curves.curve import Stopwatch
from benchmarks.curves.driven import Driven
from benchmarks.measurement import tell
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.state.key_groups import KeyGroups
from penstock.table.logical_types import BIGINT, parse
from penstock.table.operators.aggregates.aggregate_calls import Calls
from penstock.table.operators.grouping.changelog_normalize import ChangelogNormalizeOperator
from penstock.table.operators.grouping.group_aggregate import GroupAggregateOperator
from penstock.table.operators.grouping.grouping_operator import Grouping
from penstock.table.operators.joins.join import JoinOperator
from penstock.table.operators.joins.join_types import INNER
from penstock.table.operators.joins.joined_inputs import JoinInput
from penstock.table.operators.ordering.append_top import AppendTopOperator
from penstock.table.operators.ordering.rank import RankOperator
from penstock.table.operators.ordering.ranking import APPEND, RETRACT, Ranking
from penstock.table.operators.ordering.sorting import SortColumn
from penstock.table.operators.ordering.top_row import TopRow, TopRowOperator
from penstock.table.operators.sinks.materialize import DEDUPLICATE, MaterializeOperator
from penstock.table.operators.table_columns import TableColumns
from penstock.table.operators.windows.aggregated_windows import END, START
from penstock.table.operators.windows.session_windows import SessionAggregateOperator
from penstock.table.operators.windows.window_slices import SESSION, WindowSlices, WindowTimes
from penstock.table.planner.data_types import DataType
from penstock.table.planner.nodes.aggregate_nodes import AggregateCall

_ROWS = 100
_TIMES = 9
_GAP_MS = 60_000
_LOADED = 1 << 15
TIME = pyarrow.timestamp("ms")
FIELDS = [("k", pyarrow.int64()), ("s", pyarrow.string()), ("n", pyarrow.int64()), ("t", TIME)]
ROWS = TableColumns(pyarrow.schema(FIELDS))
TYPES = (BIGINT, parse("STRING"), BIGINT, parse("TIMESTAMP(3)"))
ORDER = (SortColumn(2, ascending=False, nulls_last=True),)


class _Driven(Driven):
    """An operator on columns."""

    def emit(self, chunk: Any) -> bool:
        self.results += len(chunk)
        return True

    def rows(self, keys: Any, first: int, kind: int = 0, index: int = 0) -> None:
        """Send a row of each key."""
        process = self.operator.process_second if index else self.operator.process
        self._step(lambda: process(_rows(keys, first, kind)))

    def increment(self) -> int:
        """Write what has changed since the last call. Return the number of entries."""
        self.operator.prepare_snapshot(1, False)
        entries = 0
        for table in self.operator.backend.tables.values():
            frozen = table.freeze(False)
            groups = KeyGroups(128)
            if frozen.of_group is None:
                entries += sum(len(keys) for keys, _ in frozen.pieces())
            else:
                for _ in frozen.prepare(groups):
                    pass
                entries += sum(len(keys) for group in range(128) for keys, _ in frozen.of_group(group))
            frozen.release()
        return entries


def _rows(keys: Any, first: int, kind: int) -> Columns:
    # A session of each key, at intervals of a millisecond by key.
    columns = [
        pyarrow.array(keys),
        pyarrow.array([f"customer {key}" for key in keys.tolist()]),
        pyarrow.array(keys % 1_000 + first),
        pyarrow.array(keys + first).cast(TIME),
    ]
    batch = pyarrow.RecordBatch.from_arrays(columns, schema=ROWS.schema)
    return Columns(batch, None, numpy.full(len(keys), kind, numpy.uint8) if kind else None)


def _calls(*calls: tuple[str, int, bool], retracts: bool = False) -> Calls:
    made = [
        AggregateCall(name=None, type=DataType(TYPES[place]), arg_list=(place,), system_name=name, distinct=distinct)
        if name != "COUNT"
        else AggregateCall(name=None, type=DataType(BIGINT), arg_list=(place,), system_name=name, distinct=distinct)
        for name, place, distinct in calls
    ]
    return Calls(tuple(made), TYPES, (retracts,) * len(made))


def _groups(key: str, *calls: tuple[str, int, bool], retracts: bool = False) -> GroupAggregateOperator:
    kinds = [pyarrow.int64() if name in ("COUNT", "SUM") else FIELDS[place][1] for name, place, _ in calls]
    given = TableColumns(pyarrow.schema([ROWS.schema.field(key), *((f"a{at}", kind) for at, kind in enumerate(kinds))]))
    grouping = Grouping(_calls(*calls, retracts=retracts), True, retracts)
    return GroupAggregateOperator("groups", [key], grouping, received=ROWS, given=given)


def _sessions() -> SessionAggregateOperator:
    given = TableColumns(pyarrow.schema([("s", pyarrow.string()), ("a", pyarrow.int64()), ("b", TIME), ("e", TIME)]))
    times = WindowTimes(WindowSlices(SESSION, _GAP_MS, _GAP_MS), "t", is_event_time=True)
    return SessionAggregateOperator(
        "sessions", ["s"], _calls(("SUM", 2, False)), times, properties=(START, END), received=ROWS, given=given
    )


def _join() -> JoinOperator:
    one = JoinInput(ROWS, ("s",), (False,), None)
    given = TableColumns(pyarrow.schema([*FIELDS, *((f"other_{name}", kind) for name, kind in FIELDS)]))
    return JoinOperator("join", INNER, (one, one), None, given=given)


def _ranking(strategy: str) -> Ranking:
    return Ranking(ORDER, 1, 3, strategy, with_number=False, update_before=True)


class _Operator(NamedTuple):
    """`retracts`: whether rows of a chunk take former ones back; `inputs`: how many it has."""

    make: Callable[[], Any]
    retracts: bool = False
    inputs: int = 1
    has_time: bool = False


OPERATORS = {
    "groups of integers": _Operator(lambda: _groups("k", ("COUNT", 2, False), ("SUM", 2, False))),
    "groups of texts": _Operator(lambda: _groups("s", ("COUNT", 2, False), ("SUM", 2, False))),
    "distinct texts": _Operator(lambda: _groups("k", ("COUNT", 1, True))),
    "retracted MAX": _Operator(lambda: _groups("s", ("MAX", 2, False), retracts=True), retracts=True),
    "last rows": _Operator(lambda: TopRowOperator("last", ["s"], TopRow((), True, True), received=ROWS, given=ROWS)),
    "top 3": _Operator(lambda: AppendTopOperator("top", ["s"], _ranking(APPEND), received=ROWS, given=ROWS)),
    "top 3 of changes": _Operator(
        lambda: RankOperator("top", ["s"], _ranking(RETRACT), received=ROWS, given=ROWS), retracts=True
    ),
    "normalize": _Operator(lambda: ChangelogNormalizeOperator("n", ["s"], None, columns=ROWS, update_before=True)),
    "materialize": _Operator(
        lambda: MaterializeOperator(["s"], None, conflict=DEDUPLICATE, table="t", columns=ROWS), retracts=True
    ),
    "joins": _Operator(_join, inputs=2),
    "sessions": _Operator(_sessions, has_time=True),
}


class _Figures(NamedTuple):
    chunk_us: float
    increment_ms: float
    watermark_us: float


def measure(one: _Operator, keys: int) -> _Figures:
    """Fill the state, then send chunks."""
    driven = _Driven(one.make())
    for index in range(one.inputs):
        for start in range(0, keys, _LOADED):
            driven.rows(numpy.arange(start, min(keys, start + _LOADED)), 0, index=index)
    driven.increment()
    random = numpy.random.default_rng(1)
    found: list[_Figures] = []
    for number in range(_TIMES):
        changed = numpy.unique(random.integers(keys // 2, keys, _ROWS))
        chunks = list(_changes(one, changed, number))
        watch = Stopwatch()
        for kind, first in chunks:
            driven.rows(changed, first, kind)
        chunk_us = watch.lap_us()
        assert driven.increment() > 0
        increment_us = watch.lap_us()
        if one.has_time:
            driven.until(_GAP_MS + 100 * number)
        found.append(_Figures(chunk_us, increment_us / 1e3, watch.lap_us()))
    return _Figures(*map(statistics.median, zip(*found, strict=True)))


def _changes(one: _Operator, changed: Any, number: int) -> Iterator[tuple[int, int]]:
    """Yield the kind of rows, and what their numbers begin with."""
    yield 0, number + 1
    if one.retracts:
        yield 3, number + 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(OPERATORS), help="operators, separated by commas")
    parser.add_argument("--sizes", default="10000,100000,1000000", help="keys, separated by commas")
    arguments = parser.parse_args()
    sizes = [int(size) for size in arguments.sizes.split(",")]
    told: dict[str, float] = {}
    print(f"{'':20}{'keys':>12}{'chunk':>14}{'increment':>14}{'watermark':>14}")
    for name in arguments.only.split(","):
        for keys in sizes:
            gc.collect()
            figures = measure(OPERATORS[name], keys)
            told |= {f"{name}_{keys}_{field}": value for field, value in figures._asdict().items()}
            cells = f"{figures.chunk_us:>11,.0f} us{figures.increment_ms:>11,.1f} ms{figures.watermark_us:>11,.0f} us"
            print(f"{name:20}{keys:>12,}{cells}", flush=True)
    tell(told)


if __name__ == "__main__":
    main()
