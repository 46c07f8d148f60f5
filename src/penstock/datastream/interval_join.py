"""The interval join of two keyed streams: `left.interval_join(right).between(lower, upper).process(function)`.

Flink's Java API has it; PyFlink does not. Source: Flink docs, "Joining", Interval Join.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from penstock.api.output_tag import OutputTag
from penstock.common.time import TimeLength, to_milliseconds
from penstock.common.typeinfo import TypeInformation
from penstock.common.types import Row
from penstock.datastream.arguments import as_function, check_output_tag, common_key_type, output_type_of
from penstock.datastream.connected_streams import two_input_stream
from penstock.datastream.data_stream import DataStream, check_one_environment
from penstock.datastream.field_join import NAME, field_join
from penstock.datastream.functions import ProcessJoinFunction
from penstock.datastream.keyed_stream import KeyedStream
from penstock.datastream.next_call import Unfinished
from penstock.engine.runtime.operators.interval_join import IntervalJoinOperator

T1 = TypeVar("T1")
T2 = TypeVar("T2")
R = TypeVar("R")


class IntervalJoin(Unfinished, Generic[T1, T2]):
    """Two streams to join, still without an interval. Created by `KeyedStream.interval_join`."""

    next_call = "between(lower_bound, upper_bound)"

    def __init__(self, stream1: KeyedStream[T1, Any], stream2: KeyedStream[T2, Any]) -> None:
        if not isinstance(stream2, KeyedStream):
            raise TypeError(f"expected a keyed stream (of key_by) for interval_join, got {stream2!r}")
        check_one_environment("interval_join", stream1, stream2)
        common_key_type(stream1._key_type, stream2._key_type)
        self.stream1 = stream1
        self.stream2 = stream2

    def between(self, lower_bound: TimeLength, upper_bound: TimeLength) -> IntervalJoined[T1, T2]:
        """Pair records with left time + `lower_bound` <= right time <= left time + `upper_bound` (ms, or durations).

        Both bounds may be negative. Raises ValueError if `lower_bound` is above `upper_bound`.
        """
        lower_ms, upper_ms = to_milliseconds(lower_bound), to_milliseconds(upper_bound)
        if lower_ms > upper_ms:
            raise ValueError(f"the lower bound must not be above the upper bound, got {lower_ms} ms and {upper_ms} ms")
        return IntervalJoined(self.stream1, self.stream2, lower_ms, upper_ms)


class IntervalJoined(Unfinished, Generic[T1, T2]):
    """Two streams to join, with their interval. Bounds are inclusive by default."""

    next_call = "process(function) or select(left=..., right=...)"

    def __init__(
        self, stream1: KeyedStream[T1, Any], stream2: KeyedStream[T2, Any], lower_ms: int, upper_ms: int
    ) -> None:
        self._streams = stream1, stream2
        self._lower_ms = lower_ms
        self._upper_ms = upper_ms
        self._lower_is_inclusive = True
        self._upper_is_inclusive = True
        self._left_late: OutputTag[T1] | None = None
        self._right_late: OutputTag[T2] | None = None

    def lower_bound_exclusive(self) -> IntervalJoined[T1, T2]:
        """Exclude pairs whose distance is the lower bound."""
        self._lower_is_inclusive = False
        return self

    def upper_bound_exclusive(self) -> IntervalJoined[T1, T2]:
        """Exclude pairs whose distance is the upper bound."""
        self._upper_is_inclusive = False
        return self

    def side_output_left_late_data(self, output_tag: OutputTag[T1]) -> IntervalJoined[T1, T2]:
        """Send late records of the left stream (behind the watermark) to a side output instead of dropping them.

        Read it with `get_side_output(output_tag)` of the result. Raises TypeError if it is not an OutputTag.
        """
        check_output_tag(output_tag)
        self._left_late = output_tag
        return self

    def side_output_right_late_data(self, output_tag: OutputTag[T2]) -> IntervalJoined[T1, T2]:
        """Send late records of the right stream to a side output, like `side_output_left_late_data`."""
        check_output_tag(output_tag)
        self._right_late = output_tag
        return self

    def select(
        self, left: Sequence[str] | Mapping[str, str] = (), right: Sequence[str] | Mapping[str, str] = ()
    ) -> DataStream[Row]:
        """Emit for each pair a Row of fields of both records: `select(left=["order"], right={"paid": "amount"})`.

        A list names fields, a dict also names the results: {"name of the result": "field"}. The fields of the left
        record come first. On two streams of columns with keys of fields it joins whole batches. Times and state are
        those of `process`. Raises ValueError for a field that the declared type lacks and for a name of two results,
        TypeError for what is not a name. This is not in PyFlink.
        """
        stream1, stream2 = self._streams
        operator, result_type = field_join(
            (stream1._transformation, stream2._transformation),
            (stream1.key_selector, stream2.key_selector),
            left,
            right,
            bounds=self._bounds(),
            late_tags=(self._left_late, self._right_late),
        )
        return self._joined(operator, result_type)

    def process(
        self,
        process_join_function: ProcessJoinFunction[T1, T2, R]
        | Callable[[T1, T2, ProcessJoinFunction.Context], Iterable[R] | None],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Call a function for each pair: a ProcessJoinFunction, or a callable (left, right, context) -> results.

        Results have the later timestamp of the pair. State holds each record until event time has passed all possible
        partners. Records behind the watermark are not paired. Raises TypeError if it is not a function, ValueError if
        there is no time between the bounds.
        """
        function = as_function(process_join_function, "process_element", ProcessJoinFunction)
        declared = output_type_of(process_join_function, "process_element", output_type, elements=True)
        lower_ms, upper_ms = self._bounds()
        stream1, stream2 = self._streams
        selectors = stream1.key_selector, stream2.key_selector
        late_tags = self._left_late, self._right_late
        operator = IntervalJoinOperator(
            name=NAME,
            key_selectors=selectors,
            lower=lower_ms,
            upper=upper_ms,
            function=function,
            late_tags=late_tags,
        )
        return self._joined(operator, declared)

    def _bounds(self) -> tuple[int, int]:
        """Return both bounds as inclusive ones (ms)."""
        lower_ms = self._lower_ms + (not self._lower_is_inclusive)
        upper_ms = self._upper_ms - (not self._upper_is_inclusive)
        if lower_ms > upper_ms:
            raise ValueError(
                f"there is no time between {self._lower_ms} ms and {self._upper_ms} ms with exclusive bounds"
            )
        return lower_ms, upper_ms

    def _joined(self, operator: IntervalJoinOperator, output_type: TypeInformation | None) -> DataStream[Any]:
        stream1, stream2 = self._streams
        return two_input_stream(
            name=operator.name, stream1=stream1, stream2=stream2, operator=operator, output_type=output_type
        )
