"""The interval join: pairs of records of two streams with one key, whose event times are near each other.

A pair is found when its second record comes: lower <= right timestamp - left timestamp <= upper. So each side keeps its
records for as long as a partner may come. They are kept in buckets of time, twice as wide as the interval: the partners
of a record are in two buckets of the other side at most, mostly in one, and a bucket has one timer, which frees it.
Wider buckets cost fewer timers, and more memory. Which pairs are found does not depend on them: a record whose time is
over is no partner, even if its bucket is still there.
Source: Flink docs, "Joining", Interval Join.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penstock.api.output_tag import OutputTag
from penstock.api.timers import TimeDomain
from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.common.copies import ATOMS, own_copy
from penstock.common.errors import ProgramError
from penstock.common.user_calls import RAISED
from penstock.runtime.operators.function import UserFunction
from penstock.runtime.operators.gathering import GatheringOperator
from penstock.runtime.operators.inputs import OperatorInput, inputs_of
from penstock.runtime.operators.keyed import FREED_ENTRIES
from penstock.runtime.operators.operator import Timestamps, Values

if TYPE_CHECKING:
    from penstock.runtime.operators.operator import Output
    from penstock.runtime.task.context import OperatorContext
    from penstock.state.layers import LayeredTable

LEFT_TABLE = "(interval join) left"
RIGHT_TABLE = "(interval join) right"
"""(key, number of the bucket) -> [(timestamp, record), ...], in the order of arrival."""


class JoinContext:
    """Event times of a pair."""

    __slots__ = ("left", "right")

    def get_left_timestamp(self) -> int:
        """That of the left record (ms)."""
        return self.left

    def get_right_timestamp(self) -> int:
        """That of the right record (ms)."""
        return self.right

    def get_timestamp(self) -> int:
        """That of the pair (ms)."""
        return max(self.left, self.right)

    def __init__(self) -> None:
        self.left = self.right = MIN_TIMESTAMP


class JoinSide:
    """One input: its records, and where the partners of a record are: from `lower` to `upper` ms after it."""

    __slots__ = ("index", "kept_ms", "key_selector", "late_tag", "lower", "table", "upper")

    table: LayeredTable

    def __init__(
        self, index: int, key_selector: Callable[[Any], Any], lower: int, upper: int, late_tag: OutputTag[Any] | None
    ) -> None:
        self.index = index
        self.key_selector = key_selector
        self.lower = lower
        self.upper = upper
        # At least 1: a record at the watermark is in time, as in Flink, and so is a partner of the same timestamp.
        self.kept_ms = max(upper, 1)
        """A record is kept until event time is this much after it: later partners would be late."""
        self.late_tag = late_tag


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
        self.width_ms = 2 * (upper - lower + 1)
        self.left = JoinSide(0, key_selectors[0], lower, upper, late_tags[0])
        self.right = JoinSide(1, key_selectors[1], -upper, -lower, late_tags[1])

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self.left.table = self.backend.layered(LEFT_TABLE, namespaced=True)
        self.right.table = self.backend.layered(RIGHT_TABLE, namespaced=True)
        self._inputs = inputs_of(self, self.process, self.process_right)
        self._ctx = JoinContext()

    def key_selectors(self) -> tuple[Callable[[Any], Any], ...]:
        return self.left.key_selector, self.right.key_selector

    def inputs(self) -> Sequence[OperatorInput]:
        return self._inputs

    def open(self) -> None:
        super().open()
        self.function.open(self.context, self.backend.store())

    def close(self) -> None:
        try:
            self.function.close(self.context)
        finally:
            super().close()

    def process(self, values: Values, timestamps: Timestamps) -> bool:
        return self._take_side(values, timestamps, self.left, self.right)

    def process_right(self, values: Values, timestamps: Timestamps) -> bool:
        """Take a chunk of the right input."""
        return self._take_side(values, timestamps, self.right, self.left)

    def processing_time(self, now_ms: int) -> bool:
        self.backend.maintain(FREED_ENTRIES)
        return True

    def end_key(self) -> bool:
        # No timer emits anything, so none has to fire.
        return self.forget_key()

    def fire_until(self, domain: TimeDomain, until: int) -> Iterator[None]:
        """Free the buckets whose time is over. There are timers of event time only."""
        timers = self.timers.event_time
        sides, freed, chunk_records = (self.left, self.right), 0, self.context.budget.chunk_records
        while (due := timers.pop_due(until)) is not None:
            _, key, (side, bucket) = due
            sides[side].table.discard((key, bucket))
            freed += 1
            if freed % chunk_records == 0:
                yield

    def _take_side(self, values: Values, timestamps: Timestamps, own: JoinSide, other: JoinSide) -> bool:
        keys = self.keys_of(values, own.key_selector)
        earliest = MIN_TIMESTAMP if timestamps is None else min(timestamps)
        if timestamps is None or earliest == MIN_TIMESTAMP:
            raise ProgramError(
                f"operator '{self.name}': records of an interval join need timestamps: call "
                "assign_timestamps_and_watermarks on both streams"
            )
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
        return self.do(self._join(keys, timestamps, values, own, other), lambda: self._hand_on_late(own, *late))

    def _hand_on_late(self, side: JoinSide, values: Values, timestamps: list[int]) -> bool:
        if not values:
            return True
        if side.late_tag is None:
            self.context.counters.late_records_dropped += len(values)
            return True
        return self.output.emit_side(side.late_tag, values, timestamps)

    def _join(
        self, keys: list[Any], timestamps: list[int], values: Values, own: JoinSide, other: JoinSide
    ) -> Iterator[None]:
        """Keep each record, and pair it with those of the other side."""
        backend, width, lower, upper = self.backend, self.width_ms, own.lower, own.upper
        # A reader, since nothing is stored on the other side meanwhile: it copies no bucket that a snapshot has frozen.
        kept, partners_in, is_left = own.table.current.get, other.table.reader(), own is self.left
        # Partners at or before this time are over.
        watermark = self.timers.watermark
        over = watermark - other.kept_ms if watermark > MIN_TIMESTAMP else MIN_TIMESTAMP
        for key, timestamp, value in zip(keys, timestamps, values, strict=True):
            bucket = timestamp // width
            own_bucket = kept((key, bucket))
            if own_bucket is not None:
                own_bucket.append((timestamp, value))
            else:
                self._keep(own, key, bucket, timestamp, value)
            first, last = timestamp + lower, timestamp + upper
            if first <= over:
                first = over + 1
            bucket, last_bucket = first // width, last // width
            while bucket <= last_bucket:
                partners = partners_in((key, bucket))
                bucket += 1
                if partners is not None:
                    backend.key = key
                    for partner_timestamp, partner in partners:
                        if first <= partner_timestamp <= last:
                            if is_left:
                                pair = self._paired(value, partner, timestamp, partner_timestamp)
                            else:
                                pair = self._paired(partner, value, partner_timestamp, timestamp)
                            if pair is not None:
                                yield from pair

    def _keep(self, side: JoinSide, key: Any, bucket: int, timestamp: int, value: Any) -> None:
        """Keep a record whose bucket is not among those that have changed since the last snapshot."""
        where = (key, bucket)
        kept = side.table.own(where)
        if kept is not None:
            kept.append((timestamp, value))
            return
        side.table.put(where, [(timestamp, value)])
        over = (bucket + 1) * self.width_ms - 1 + side.kept_ms
        self.timers.event_time.register(min(over, MAX_TIMESTAMP), key, (side.index, bucket))

    def _paired(self, left: Any, right: Any, left_timestamp: int, right_timestamp: int) -> Iterator[None] | None:
        """Gather the results of a pair. What does not fit into the chunk is left to an iterator."""
        ctx, atoms = self._ctx, ATOMS
        ctx.left, ctx.right = left_timestamp, right_timestamp
        timestamp = left_timestamp if left_timestamp > right_timestamp else right_timestamp
        # Copies: both records stay in state, and a snapshot may be reading them. Numbers and text, and pairs of them,
        # are recognised here, since a call for each would cost a tenth of the pair.
        if type(left) not in atoms and not (
            type(left) is tuple and len(left) == 2 and type(left[0]) in atoms and type(left[1]) in atoms
        ):
            left = own_copy(left)
        if type(right) not in atoms and not (
            type(right) is tuple and len(right) == 2 and type(right[0]) in atoms and type(right[1]) in atoms
        ):
            right = own_copy(right)
        outputs, times, limit, own = self.results, self.result_times, self.context.budget.chunk_records, self.own
        try:
            results = self.function.call(left, right, ctx)
            if results is None:
                return None
            rest = iter(results)
            for result in rest:
                outputs.append(
                    result
                    if (
                        type(result) is tuple
                        and len(result) == 2
                        and type(result[0]) in atoms
                        and type(result[1]) in atoms
                    )
                    or type(result) in atoms
                    else own(result)
                )
                times.append(timestamp)
                if len(outputs) >= limit:
                    return self._rest_of(rest, left, right, timestamp)
        except RAISED as error:
            raise self._failed(error, left, right, timestamp) from error
        return None

    def _rest_of(self, results: Iterator[Any], left: Any, right: Any, timestamp: int) -> Iterator[None]:
        """The current chunk is full: gather the rest of a pair's results into those that follow."""
        yield
        try:
            for result in results:
                self.results.append(self.own(result))
                self.result_times.append(timestamp)
                if self.is_full():
                    yield
        except RAISED as error:
            raise self._failed(error, left, right, timestamp) from error

    def _failed(self, error: BaseException, left: Any, right: Any, timestamp: int) -> Exception:
        return self.context.user_error(error, self.function.method, (left, right), self.backend.key, timestamp)
