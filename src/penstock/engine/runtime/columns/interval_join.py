"""The interval join on columns: pairs of all records of a chunk at once, in the order of those on rows.

Its buckets of time are those of rows (`engine/runtime/operators/interval_join.py`): the partners of a record are in at
most two buckets of the other side. A bucket finds the records of many keys at once (`bucket_rows.py`). Where state is
larger than memory, the table is that of rows, and so are the pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy
import pyarrow

from penstock.api.output_tag import OutputTag
from penstock.api.timers import TimeDomain
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.common.functions.joined_fields import LEFT, JoinedFields
from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.chunks import ChunkKind, Rows
from penstock.engine.runtime.columns.aggregated_fields import batch_of
from penstock.engine.runtime.columns.bucket_rows import BucketRows, Found
from penstock.engine.runtime.columns.chunk import Columns, joined
from penstock.engine.runtime.columns.declared_keys import declared_keys
from penstock.engine.runtime.columns.join_table import JoinTable, JoinTimers
from penstock.engine.runtime.columns.kept_fields import KeptFields
from penstock.engine.runtime.columns.keyed_input import keys_in
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.interval_join import LEFT_TABLE, RIGHT_TABLE, IntervalJoinOperator, JoinSide
from penstock.engine.runtime.operators.keyed import EVENT_TIMERS_TABLE
from penstock.engine.runtime.task.budget import COLUMN_RECORDS_MAX
from penstock.engine.state.arrays.key_index import MISSING
from penstock.engine.state.arrays.row_keys import Integers, RowKeys

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import FunctionPlace, Operator, Output
    from penstock.engine.runtime.task.context import OperatorContext

_CANDIDATES_MAX = 1 << 17
"""Records of equal keys that are compared in one step, which takes some milliseconds. A single record may have more."""


class JoinInput(NamedTuple):
    """An input: its columns, and which of them are the key."""

    columns: RecordColumns
    key_fields: tuple[str, ...]


class _Probe(NamedTuple):
    """Records that look for partners in a bucket: their positions in the chunk, and their slots there."""

    bucket: BucketRows
    places: Integers
    slots: Integers


class ColumnIntervalJoinOperator(IntervalJoinOperator):
    """Joins fields of two streams of columns. `given`: the columns that it emits, in the order of `fields`."""

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(
        self,
        name: str,
        key_selectors: tuple[Callable[[Any], Any], Callable[[Any], Any]],
        lower: int,
        upper: int,
        fields: JoinedFields,
        late_tags: tuple[OutputTag[Any] | None, OutputTag[Any] | None],
        *,
        inputs: tuple[JoinInput, JoinInput],
        given: RecordColumns,
    ) -> None:
        function = UserFunction(fields, "process_element")
        super().__init__(name, key_selectors, lower, upper, function=function, late_tags=late_tags)
        self._key_selectors = key_selectors
        self._joined = fields
        self._of_inputs = inputs
        self.columns_given = given
        self._given = given
        self._kept = tuple(
            KeptFields(one.columns, fields.fields_of(side) or one.key_fields)
            for side, one in zip(fields.sides, inputs, strict=True)
        )

    def columns_received_by(self, index: int) -> RecordColumns:
        return self._of_inputs[index].columns

    def columns_read(self, index: int = 0) -> tuple[str, ...] | None:
        side, (columns, key_fields) = (self.left, self.right)[index], self._of_inputs[index]
        if side.late_tag is not None:
            return None
        read = {*key_fields, *self._kept[index].names}
        return tuple(name for name in columns.names if name in read)

    def function_places(self) -> Sequence[FunctionPlace]:
        # An update of the job cannot replace the fields alone: its columns would still be the former ones.
        return ()

    def on_rows(self) -> Operator:
        left = self.left
        return IntervalJoinOperator(
            name=self.name,
            key_selectors=self._key_selectors,
            lower=left.lower,
            upper=left.upper,
            function=self.function,
            late_tags=(left.late_tag, self.right.late_tag),
        )

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._batches: list[Columns] = []
        """Pairs to emit, if they are columns; then `results` is empty."""

    def use_tables(self) -> None:
        left, right = (
            self.backend.arrays(name, lambda index=index: self._new_table(index))  # type: ignore[misc]
            for index, name in enumerate((LEFT_TABLE, RIGHT_TABLE))
        )
        self._timers_table: JoinTimers | None = None
        if left is None or right is None:
            super().use_tables()
            return
        self._tables: tuple[JoinTable, JoinTable] = (left, right)
        sides = self.left, self.right
        self._timers_table = JoinTimers(self._tables, lambda index, bucket: self.freed_at(bucket, sides[index]))
        self.backend.tables[EVENT_TIMERS_TABLE] = self._timers_table

    def _new_table(self, index: int) -> JoinTable:
        columns, key_fields = self._of_inputs[index]
        memory = self.context.memory_account(f"records of the {('left', 'right')[index]}")
        return JoinTable(self._kept[index], self.width_ms, memory, declared_keys(self.name, columns.schema, key_fields))

    def open(self) -> None:
        if self._timers_table is not None:
            for table in self._tables:
                table.use_restored()
        super().open()

    def restored_timers(self, timers_max: int) -> list[tuple[Any, int, Any]]:
        if self._timers_table is None:
            return super().restored_timers(timers_max)
        return self._timers_table.take_restored(timers_max)

    def process(self, chunk: Columns) -> bool:  # type: ignore[override]
        return self._process_columns(chunk, self.left, self.right)

    def process_right(self, chunk: Columns) -> bool:  # type: ignore[override]
        return self._process_columns(chunk, self.right, self.left)

    def fire_until(self, domain: TimeDomain, until: int) -> Iterator[None]:
        if self._timers_table is None:
            yield from super().fire_until(domain, until)
            return
        for side, table in zip((self.left, self.right), self._tables, strict=True):
            for _ in table.free(self._alive_from(until, side)):
                if not self.context.budget.may_continue():
                    yield

    def _alive_from(self, until: int, side: JoinSide) -> int:
        """Return the first bucket that is not freed at a time (ms)."""
        if until >= MAX_TIMESTAMP:
            return MAX_TIMESTAMP
        return (until - side.retained_ms + 1) // self.width_ms

    def _process_columns(self, chunk: Columns, side: JoinSide, other: JoinSide) -> bool:
        times = chunk.timestamps
        if times is None or int(times.min()) <= MIN_TIMESTAMP:
            raise self.untimed()
        keys = keys_in(self, chunk, self._of_inputs[side.index].key_fields)
        late = times < self.timers.watermark
        if not late.any():
            return self.do(self._pairs(keys, chunk, side, other), None)
        in_time = ~late
        work = self._pairs(keys.at(in_time), chunk.filtered(in_time), side, other)
        return self.do(work, lambda: self._emit_late_columns(side, chunk.filtered(late)))

    def _emit_late_columns(self, side: JoinSide, late: Columns) -> bool:
        assert late.timestamps is not None
        if side.late_tag is None:
            self.context.counters.late_records_dropped += len(late)
            return True
        columns = self._of_inputs[side.index].columns
        records = columns.reader()(late.batch.select(columns.names))
        return self.output.emit_side(side.late_tag, Rows(records, late.timestamps.tolist()))

    def _pairs(self, keys: RowKeys, chunk: Columns, side: JoinSide, other: JoinSide) -> Iterator[None]:
        """Store records that are in time, and pair each with records of the other side."""
        if not len(chunk):
            return
        assert chunk.timestamps is not None
        kept = chunk.with_batch(self._kept[side.index].of_batch(chunk.batch))
        if self._timers_table is None:
            records = self._kept[side.index].reader()(kept.batch)
            yield from self.join(keys.to_list(), chunk.timestamps.tolist(), records, side=side, other=other)
            return
        table = self._tables[side.index]
        table.append(keys, chunk.timestamps, kept.batch)
        yield from self._join_columns(keys, kept, side, other)

    def _join_columns(self, keys: RowKeys, kept: Columns, side: JoinSide, other: JoinSide) -> Iterator[None]:
        assert kept.timestamps is not None
        first, last = _bounds(kept.timestamps, side.lower, side.upper)
        watermark = self.timers.watermark
        if watermark > MIN_TIMESTAMP:
            # Partners before this time have expired.
            first = numpy.maximum(first, max(MIN_TIMESTAMP, watermark - other.retained_ms + 1))
        probes, candidates = self._probes(keys, first // self.width_ms, last // self.width_ms, other)
        for start, stop in _pieces(candidates):
            found = []
            for bucket, places, slots in probes:
                inside = slice(*numpy.searchsorted(places, [start, stop]).tolist())
                of_records = places[inside]
                one = bucket.between(of_records, slots[inside], first[of_records], last[of_records])
                if len(one.rows):
                    found.append((bucket, one))
            if found:
                yield from self._emit_pairs(kept, side, found)

    def _probes(self, keys: RowKeys, first: Integers, last: Integers, other: JoinSide) -> tuple[list[_Probe], Integers]:
        """Return the spans with keys of the chunk, and how many records there each record is compared with."""
        spans = self._tables[other.index].reached(int(first.min()), int(last.max()))
        probes, candidates = [], numpy.zeros(len(first), numpy.int64)
        for span in spans:
            places = numpy.flatnonzero((first < span.stop) & (span.first <= last))
            slots = span.slots_of(keys.at(places))
            known = slots != MISSING
            if known.any():
                probe = _Probe(span, places[known], slots[known])
                candidates[probe.places] += probe.bucket.counts(probe.slots)
                probes.append(probe)
        return probes, candidates

    def _emit_pairs(self, kept: Columns, side: JoinSide, found: Sequence[tuple[BucketRows, Found]]) -> Iterator[None]:
        assert kept.timestamps is not None
        places = numpy.concatenate([one.places for _, one in found])
        times = numpy.concatenate([one.times for _, one in found])
        partners = pyarrow.concat_batches([bucket.blocks.take(one.rows) for bucket, one in found])
        if len(found) > 1:
            # A record's partners in its first bucket come before those in its second one.
            order = numpy.argsort(places, kind="stable")
            places, times, partners = places[order], times[order], partners.take(pyarrow.array(order))
        own = kept.batch.take(pyarrow.array(places))
        left, right = (own, partners) if side is self.left else (partners, own)
        columns = [(left if one.side == LEFT else right).column(one.field) for one in self._joined.fields]
        batch = batch_of(columns, self._given.schema)
        pairs = Columns(batch, numpy.maximum(times, kept.timestamps[places]))
        for start in range(0, len(pairs), COLUMN_RECORDS_MAX):
            self._batches.append(pairs.part(start, min(start + COLUMN_RECORDS_MAX, len(pairs))))
            yield

    def _emit_results(self) -> bool:
        if self._batches:
            pairs, self._batches = joined(self._batches), []
            return self.output.emit(pairs)
        if not self.results:
            return True
        results, times = self.results, self.result_times
        self.results, self.result_times = [], []
        try:
            batch = self._given.batch(self._given.of(results))
        except RAISED as error:
            raise self.context.user_error(error, "what it emits as its declared type", results[0]) from error
        return self.output.emit(Columns(batch, numpy.array(times, numpy.int64)))


def _bounds(times: Integers, lower: int, upper: int) -> tuple[Integers, Integers]:
    """Return the first and the last time of each time's partners; of those beyond 64 bits, the last is before all."""
    first, last = _moved(times, lower), _moved(times, upper)
    if lower > 0:
        last[times > MAX_TIMESTAMP - lower] = MIN_TIMESTAMP
    if upper < 0:
        last[times < MIN_TIMESTAMP - upper] = MIN_TIMESTAMP
        # No record has this time.
        first = numpy.maximum(first, MIN_TIMESTAMP + 1)
    return first, last


def _moved(times: Integers, by: int) -> Integers:
    """Return times `by` ms later, within 64 bits."""
    if by >= 0:
        return numpy.minimum(times, MAX_TIMESTAMP - by) + by
    return numpy.maximum(times, MIN_TIMESTAMP - by) + by


def _pieces(candidates: Integers) -> Iterator[tuple[int, int]]:
    """Yield the beginnings and ends of pieces of a bounded number of candidates, up to the last row that has some."""
    sums = numpy.cumsum(candidates)
    start, done, total = 0, 0, int(sums[-1])
    while done < total:
        stop = max(start + 1, int(numpy.searchsorted(sums, done + _CANDIDATES_MAX, side="right")))
        yield start, stop
        start, done = stop, int(sums[stop - 1])
