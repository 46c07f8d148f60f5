"""The interval join: pairs of records of two streams with equal keys and near event times.

The join finds a pair when its second record arrives: lower <= right timestamp - left timestamp <= upper. So each side
retains its records while a partner may arrive. It keeps them in buckets of time, twice as wide as the interval: the
partners of a record are in at most two buckets of the other side, mostly in one, and one timer per bucket frees it.
Wider buckets need fewer timers and more memory. They do not change the pairs: an expired record is not a partner, even
if its bucket still exists. Source: Flink docs, "Joining", Interval Join.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penstock.api.output_tag import OutputTag
from penstock.api.timers import TimeDomain
from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.common.errors import ProgramError
from penstock.common.functions.user_calls import RAISED
from penstock.common.values.copies import ATOMS, independent_copy
from penstock.engine.runtime.chunks import Rows, Values
from penstock.engine.runtime.operators.emitted import emitted, trusted_generator
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.gathering import GatheringOperator
from penstock.engine.runtime.operators.keyed import FREED_ENTRIES
from penstock.engine.runtime.operators.operator import FunctionPlace
from penstock.engine.runtime.operators.two_inputs import OperatorInput, inputs_of

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext
    from penstock.engine.state.layers import LayeredTable

LEFT_TABLE = "(interval join) left"
RIGHT_TABLE = "(interval join) right"
"""(key, number of the bucket) -> [(timestamp, record), ...], in the order of arrival."""

_CHECKED = 1_000
"""Timers that are checked after a restore."""


class JoinContext:
    """The event times of a pair."""

    __slots__ = ("left", "right")

    def __init__(self) -> None:
        self.left = self.right = MIN_TIMESTAMP

    def get_left_timestamp(self) -> int:
        """Return the timestamp of the left record (ms)."""
        return self.left

    def get_right_timestamp(self) -> int:
        """Return the timestamp of the right record (ms)."""
        return self.right

    def get_timestamp(self) -> int:
        """Return the timestamp of the pair (ms)."""
        return max(self.left, self.right)


class JoinSide:
    """An input: its records, and the interval of their partners, from `lower` to `upper` ms after a record."""

    __slots__ = ("index", "key_selector", "late_tag", "lower", "retained_ms", "table", "upper")

    table: LayeredTable

    def __init__(
        self,
        index: int,
        key_selector: Callable[[Any], Any],
        *,
        lower: int,
        upper: int,
        late_tag: OutputTag[Any] | None,
    ) -> None:
        self.index = index
        self.key_selector = key_selector
        self.lower = lower
        self.upper = upper
        # At least 1: a record at the watermark is in time, as in Flink, and so is a partner with the same timestamp.
        self.retained_ms = max(upper, 1)
        """A record is retained until event time is this much after it: later partners would be late."""
        self.late_tag = late_tag


def _is_atomic_pair(value: Any) -> bool:
    return type(value) is tuple and len(value) == 2 and type(value[0]) in ATOMS and type(value[1]) in ATOMS


class IntervalJoinOperator(GatheringOperator):
    """Calls a function with each pair. `lower` and `upper` (ms) are inclusive; late records go to `late_tags`."""

    keeps_values = True

    def __init__(
        self,
        name: str,
        key_selectors: tuple[Callable[[Any], Any], Callable[[Any], Any]],
        lower: int,
        upper: int,
        function: UserFunction,
        late_tags: tuple[OutputTag[Any] | None, OutputTag[Any] | None] = (None, None),
    ) -> None:
        super().__init__(name, key_selectors[0])
        self.function = function
        # Bounds may be as good as none, and columns compute buckets with 64 bits.
        self.width_ms = min(2 * (upper - lower + 1), MAX_TIMESTAMP)
        self.left = JoinSide(0, key_selectors[0], lower=lower, upper=upper, late_tag=late_tags[0])
        self.right = JoinSide(1, key_selectors[1], lower=-upper, upper=-lower, late_tag=late_tags[1])

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self.use_tables()
        self._inputs = inputs_of(self, self.process, self.process_right)
        self._ctx = JoinContext()

    def use_tables(self) -> None:
        """Create the tables of both sides."""
        self.left.table = self.backend.layered(LEFT_TABLE, namespaced=True)
        self.right.table = self.backend.layered(RIGHT_TABLE, namespaced=True)

    def key_selectors(self) -> tuple[Callable[[Any], Any], ...]:
        return self.left.key_selector, self.right.key_selector

    def function_places(self) -> Sequence[FunctionPlace]:
        return (FunctionPlace(self, "function", has_keyed_state=True),)

    def inputs(self) -> Sequence[OperatorInput]:
        return self._inputs

    def open(self) -> None:
        super().open()
        self._check_restored()
        self.function.open(self.context, self.backend.store())

    def _check_restored(self) -> None:
        """Reject restored records that were stored for other bounds: the join would miss them or free them early."""
        sides = self.left, self.right
        # A few timers are enough to tell: reading all takes long in a large state.
        for _, timestamp, (index, bucket) in self.restored_timers(_CHECKED):
            freed_at = self.freed_at(bucket, sides[index])
            # Versions that retained records for 0 ms, instead of at least 1 ms, freed buckets a millisecond earlier.
            if timestamp not in (freed_at, freed_at - 1):
                lower, upper = self.left.lower, self.left.upper
                raise ProgramError(
                    f"operator '{self.name}': its state has records that were stored for other bounds than "
                    f"{lower} to {upper} ms: keep the bounds, stop the job with --drain before they change, or give "
                    "the operator another uid, so that it starts without state"
                )

    def restored_timers(self, timers_max: int) -> list[tuple[Any, int, Any]]:
        """Return some of the timers that were restored, as (key, timestamp, namespace)."""
        timers = self.timers.event_time
        first: list[tuple[Any, int, Any]] = []
        while len(first) < timers_max and (due := timers.pop_all_due(MAX_TIMESTAMP, timers_max - len(first))):
            first += due
        timers.register_all(first)
        return first

    def freed_at(self, bucket: int, side: JoinSide) -> int:
        """Return the event time at which a bucket is freed (ms)."""
        return min((bucket + 1) * self.width_ms - 1 + side.retained_ms, MAX_TIMESTAMP)

    def close(self) -> None:
        try:
            self.function.close(self.context)
        finally:
            super().close()

    def process(self, chunk: Rows) -> bool:
        return self._process_side(chunk, self.left, self.right)

    def process_right(self, chunk: Rows) -> bool:
        """Process a chunk of the right input."""
        return self._process_side(chunk, self.right, self.left)

    def processing_time(self, now_ms: int) -> bool:
        self.backend.maintain(FREED_ENTRIES)
        return True

    def end_key(self) -> bool:
        # Timers emit nothing, so they need not fire.
        return self.forget_key()

    def fire_until(self, domain: TimeDomain, until: int) -> Iterator[None]:
        """Free the expired buckets. All timers are in event time."""
        timers, chunk_records, freed = self.timers.event_time, self.context.budget.chunk_records, 0
        while due := timers.pop_all_due(until, chunk_records):
            for side in (self.left, self.right):
                index = side.index
                side.table.discard_all([(key, bucket) for key, _, (due_index, bucket) in due if due_index == index])
            freed += len(due)
            if freed >= chunk_records:
                freed = 0
                yield

    def _process_side(self, chunk: Rows, side: JoinSide, other: JoinSide) -> bool:
        values, timestamps = chunk.values, chunk.timestamps
        keys = self.keys_of(values, side.key_selector)
        earliest = MIN_TIMESTAMP if timestamps is None else min(timestamps)
        if timestamps is None or earliest == MIN_TIMESTAMP:
            raise self.untimed()
        watermark = self.timers.watermark
        late: tuple[Values, list[int]] = ([], [])
        if earliest < watermark:
            in_time: tuple[list[Any], list[int], Values] = ([], [], [])
            for key, timestamp, value in zip(keys, timestamps, values, strict=True):
                if timestamp < watermark:
                    late[0].append(value)
                    late[1].append(timestamp)
                else:
                    for column, item in zip(in_time, (key, timestamp, value), strict=True):
                        column.append(item)
            keys, timestamps, values = in_time
        join = self.join(keys, timestamps, values, side=side, other=other)
        return self.do(join, lambda: self._emit_late(side, Rows(*late)))

    def _emit_late(self, side: JoinSide, late: Rows) -> bool:
        if not late:
            return True
        if side.late_tag is None:
            self.context.counters.late_records_dropped += len(late)
            return True
        return self.output.emit_side(side.late_tag, late)

    def untimed(self) -> ProgramError:
        """Return the error of a record without a timestamp."""
        return ProgramError(
            f"operator '{self.name}': records of an interval join need timestamps: call "
            "assign_timestamps_and_watermarks on both streams. A result of a function has the timestamp of "
            "the function's input: if that input lacks timestamps, assign them after the function"
        )

    def join(
        self, keys: list[Any], timestamps: list[int], values: Values, *, side: JoinSide, other: JoinSide
    ) -> Iterator[None]:
        """Store all records, and pair each with records of the other side, which does not change meanwhile."""
        self._store(keys, timestamps, values, side)
        backend, width, lower, upper = self.backend, self.width_ms, side.lower, side.upper
        is_left = side is self.left
        ctx, call, atoms, copy = self._ctx, self.function.call, ATOMS, self.copy_value
        generator = trusted_generator(call)
        outputs, times, limit = self.results, self.result_times, self.context.budget.chunk_records
        # A reader is enough, because the other side does not change: it copies no bucket that a snapshot has frozen.
        partners_in = other.table.reader()
        # Partners at or before this time have expired.
        watermark = self.timers.watermark
        expired = watermark - other.retained_ms if watermark > MIN_TIMESTAMP else MIN_TIMESTAMP
        for key, timestamp, value in zip(keys, timestamps, values, strict=True):
            first, last = timestamp + lower, timestamp + upper
            if first <= expired:
                first = expired + 1
            bucket, last_bucket = first // width, last // width
            while bucket <= last_bucket:
                partners = partners_in((key, bucket))
                bucket += 1
                if partners is None:
                    continue
                backend.key = key
                # A copy for each pair: a record stays in state, and a snapshot may be reading it. The loop recognizes
                # numbers and text, and pairs of them, because a call for each would cost a tenth of the pair.
                is_atomic = type(value) in atoms or _is_atomic_pair(value)
                for at, partner in partners:
                    if not first <= at <= last:
                        continue
                    one = value if is_atomic else independent_copy(value)
                    if type(partner) not in atoms and not (
                        type(partner) is tuple
                        and len(partner) == 2
                        and type(partner[0]) in atoms
                        and type(partner[1]) in atoms
                    ):
                        partner = independent_copy(partner)
                    pair = (one, partner) if is_left else (partner, one)
                    ctx.left, ctx.right = (timestamp, at) if is_left else (at, timestamp)
                    try:
                        results = call(*pair, ctx)
                        rest = iter(results if type(results) is generator else emitted(results))
                        for result in rest:
                            starts_atomic = type(result) is tuple and len(result) == 2 and type(result[0]) in atoms
                            outputs.append(result if starts_atomic and type(result[1]) in atoms else copy(result))
                            times.append(timestamp if timestamp > at else at)
                            if len(outputs) >= limit:
                                break
                    except RAISED as error:
                        raise self._failed(error, *pair, max(timestamp, at)) from error
                    if len(outputs) >= limit:
                        yield from self._rest_of(rest, *pair, max(timestamp, at))
                        outputs, times, limit = self.results, self.result_times, self.context.budget.chunk_records

    def _store(self, keys: list[Any], timestamps: list[int], values: Values, side: JoinSide) -> None:
        """Put records into their buckets, and register timers that free new buckets."""
        table, width, index = side.table, self.width_ms, side.index
        current, has_older = table.current.get, table.is_larger_than_memory or table.has_older
        created = []
        for key, timestamp, value in zip(keys, timestamps, values, strict=True):
            where = key, timestamp // width
            bucket = current(where)
            if bucket is None and has_older:
                # The bucket may exist, but has not changed since the last snapshot.
                bucket = table.get_mutable(where)
            if bucket is not None:
                bucket.append((timestamp, value))
            else:
                table.put(where, [(timestamp, value)])
                created.append(where)
        after = width - 1 + side.retained_ms
        self.timers.event_time.register_all(
            # The same as `freed_at`, without a call for each.
            [(key, min(bucket * width + after, MAX_TIMESTAMP), (index, bucket)) for key, bucket in created]
        )

    def _rest_of(self, results: Iterator[Any], left: Any, right: Any, timestamp: int) -> Iterator[None]:
        """Gather the rest of a pair's results into the next chunks, because the current one is full."""
        yield
        try:
            for result in results:
                self.results.append(self.copy_value(result))
                self.result_times.append(timestamp)
                if self.is_full():
                    yield
        except RAISED as error:
            raise self._failed(error, left, right, timestamp) from error

    def _failed(self, error: BaseException, left: Any, right: Any, timestamp: int) -> Exception:
        return self.context.user_error(
            error, self.function.method, (left, right), key=self.backend.key, timestamp=timestamp
        )
