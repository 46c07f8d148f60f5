"""Patterns on streams: `CEP.pattern(stream, pattern).select(...)`.

Source: Flink docs, "Event Processing (CEP)", Detecting Patterns; Flink's CEP and PatternStream.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from penstock.api.output_tag import OutputTag
from penstock.api.timers import TimeDomain
from penstock.cep.deferred_starts import automaton_of
from penstock.cep.drawing import in_short
from penstock.cep.functions import (
    EventComparator,
    PatternFlatSelectFunction,
    PatternFlatTimeoutFunction,
    PatternProcessFunction,
    PatternSelectFunction,
    PatternTimeoutFunction,
    TimedOutPartialMatchHandler,
)
from penstock.cep.growth import growth_warnings
from penstock.cep.operators.bounds import DISCARD_OLDEST, Bound
from penstock.cep.operators.cep_operator import CepOperator
from penstock.cep.operators.match_calls import Form, MatchCalls, ToSideOutput, flat_select, process, select
from penstock.cep.pattern import Pattern
from penstock.cep.prefilter import filtered
from penstock.common.functions.arity import accepts_arguments
from penstock.common.typeinfo import TypeInformation
from penstock.datastream.arguments import as_function, check_output_tag, check_parameters, output_type_of
from penstock.datastream.data_stream import DataStream
from penstock.datastream.functions import NullByteKeySelector
from penstock.datastream.keyed_stream import KeyedStream
from penstock.datastream.next_call import Unfinished
from penstock.engine.plan.call_capture import captured_call
from penstock.engine.plan.transformations import OperatorTransformation
from penstock.engine.runtime.operators.function import UserFunction

T = TypeVar("T")
R = TypeVar("R")

_log = logging.getLogger(__name__)
NAME_MAX = 60
"""Length of an operator's name, in characters."""


class CEP:
    """Entry point of complex event processing."""

    @staticmethod
    def pattern(
        stream: DataStream[T],
        pattern: Pattern[T, Any],
        comparator: EventComparator[T] | Callable[[T, T], int] | None = None,
    ) -> PatternStream[T]:
        """Look for a pattern in a stream.

        Args:
            stream: with a key, each key has matches of its own. Without one, one subtask processes all events.
            pattern: the pattern as it is now; later changes have no effect.
            comparator: orders events with equal timestamps, by a number below 0, 0 or above 0. Without it they stay in
                the order in which they come.

        Raises:
            MalformedPatternError: what only the whole pattern shows, see `Pattern.check`.
            TypeError: for an argument of another kind.
        """
        if not isinstance(stream, DataStream):
            raise TypeError(f"expected a stream to look for a pattern in, got {stream!r:.100}")
        if not isinstance(pattern, Pattern):
            raise TypeError(f"expected a Pattern, such as Pattern.begin('a').where(...), got {pattern!r:.100}")
        pattern.check()
        return PatternStream(stream, pattern, _comparison(comparator))


class PatternStream(Unfinished, Generic[T]):
    """A pattern on a stream, still without a function for its matches. Created by `CEP.pattern`. In event time."""

    next_call = "select, flat_select or process, and a function"

    def __init__(
        self, stream: DataStream[T], pattern: Pattern[T, Any], comparator: Callable[[Any, Any], int] | None
    ) -> None:
        self._stream = stream
        self._pattern = pattern.copied()
        self._comparator = comparator
        self._domain = TimeDomain.EVENT_TIME
        self._late_tag: OutputTag[Any] | None = None
        self._bound: Bound | None = None
        self._filters = True

    def in_processing_time(self) -> PatternStream[T]:
        """Stamp events with the clock when they arrive, and process them at once."""
        self._domain = TimeDomain.PROCESSING_TIME
        return self

    def in_event_time(self) -> PatternStream[T]:
        """Process events in order of their timestamps, up to the watermark. The default."""
        self._domain = TimeDomain.EVENT_TIME
        return self

    def side_output_late_data(self, late_data_output_tag: OutputTag[T]) -> PatternStream[T]:
        """Send late events, at or behind the watermark, to a side output instead of dropping them.

        All events then pass the exchange: which of them are late shows only behind it. Raises TypeError if it is not an
        OutputTag.
        """
        check_output_tag(late_data_output_tag)
        self._late_tag = late_data_output_tag
        return self

    def limit_partial_matches(self, per_key: int, policy: str = DISCARD_OLDEST) -> PatternStream[T]:
        """Bound the partial matches of a key. This is not in Flink.

        Args:
            per_key: the most partial matches of a key.
            policy: "discard_oldest" discards those that began first, and counts them; "fail" fails the job.

        Raises:
            MalformedPatternError: for another value.
        """
        self._bound = Bound(per_key, policy)
        return self

    def without_filter(self) -> PatternStream[T]:
        """Send all events through the exchange, also those that the pattern passes over. This is not in Flink.

        By default such events are dropped before it, unless late events go to a side output. The matches are the same.
        """
        self._filters = False
        return self

    def process(
        self,
        pattern_process_function: PatternProcessFunction[T, R]
        | Callable[[dict[str, list[T]], PatternProcessFunction.Context], Iterable[R] | None],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Call a function for each match: a PatternProcessFunction, or a callable (match, context) -> results.

        A function that is a TimedOutPartialMatchHandler, too, receives partial matches whose time has ended. Results
        have the timestamp of the match, and none in processing time. Raises TypeError if it is not a function.
        """
        function = as_function(pattern_process_function, "process_match", PatternProcessFunction)
        declared = output_type_of(pattern_process_function, "process_match", output_type, elements=True)
        timed_out = None
        if isinstance(pattern_process_function, TimedOutPartialMatchHandler):
            timed_out = UserFunction.of_object(pattern_process_function, "process_timed_out_match")
            handle = TimedOutPartialMatchHandler.process_timed_out_match
            check_parameters(timed_out.call, handle, timed_out.method)
        return self._result(MatchCalls(function, process, timed_out), declared)

    def select(
        self,
        pattern_select_function: PatternSelectFunction[T, R] | Callable[[dict[str, list[T]]], R],
        output_type: TypeInformation | None = None,
        *,
        timed_out_tag: OutputTag[Any] | None = None,
        timeout_function: PatternTimeoutFunction[T, Any] | Callable[[dict[str, list[T]], int], Any] | None = None,
    ) -> DataStream[R]:
        """Emit one result for each match: `select(lambda match: match["end"][0])`.

        Args:
            pattern_select_function: receives the events of each step that took any, a dict of lists.
            output_type: the type of the results.
            timed_out_tag: the side output of partial matches whose time has ended.
            timeout_function: receives such a partial match and the end of its time (ms), and returns one result.

        Raises:
            TypeError: for an argument of another kind, and for only one of the last two.
        """
        function = as_function(pattern_select_function, "select", PatternSelectFunction)
        declared = output_type_of(pattern_select_function, "select", output_type)
        timed_out, form = _timeouts(timed_out_tag, timeout_function, PatternTimeoutFunction)
        return self._result(MatchCalls(function, select, timed_out, form), declared)

    def flat_select(
        self,
        pattern_flat_select_function: PatternFlatSelectFunction[T, R]
        | Callable[[dict[str, list[T]]], Iterable[R] | None],
        output_type: TypeInformation | None = None,
        *,
        timed_out_tag: OutputTag[Any] | None = None,
        timeout_function: PatternFlatTimeoutFunction[T, Any]
        | Callable[[dict[str, list[T]], int], Iterable[Any] | None]
        | None = None,
    ) -> DataStream[R]:
        """Emit any number of results for each match, and for each timeout. Otherwise like `select`."""
        function = as_function(pattern_flat_select_function, "flat_select", PatternFlatSelectFunction)
        declared = output_type_of(pattern_flat_select_function, "flat_select", output_type, elements=True)
        timed_out, form = _timeouts(timed_out_tag, timeout_function, PatternFlatTimeoutFunction)
        return self._result(MatchCalls(function, flat_select, timed_out, form), declared)

    def _result(self, calls: MatchCalls, output_type: TypeInformation | None) -> DataStream[Any]:
        automaton = automaton_of(self._pattern)
        short = in_short(self._pattern.steps())
        name = f"Pattern {short if len(short) <= NAME_MAX else short[: NAME_MAX - 2] + ' …'}"
        for warning in growth_warnings(automaton):
            _log.warning("%s: %s", name, warning)
        is_keyed = isinstance(self._stream, KeyedStream)
        keyed: KeyedStream[Any, Any]
        keyed = self._stream if isinstance(self._stream, KeyedStream) else self._stream.key_by(NullByteKeySelector())
        if self._filters and self._late_tag is None:
            keyed = filtered(keyed, automaton, calls.timed_out is not None)
        operator = CepOperator(
            name,
            keyed.key_selector,
            automaton,
            calls,
            domain=self._domain,
            comparator=self._comparator,
            late_tag=self._late_tag,
            bound=self._bound,
        )
        environment = keyed.environment
        transformation = OperatorTransformation(
            id=environment.next_id(),
            name=name,
            inputs=[keyed._transformation],
            operator=operator,
            output_type=output_type,
        )
        if not is_keyed:
            transformation.parallelism = 1
            transformation.parallelism_fixed = "a pattern on a stream without a key needs all events in one subtask"
        return DataStream(environment, transformation)


def _timeouts(tag: Any, function: Any, interface: type) -> tuple[UserFunction | None, Form]:
    """Return the function of timeouts and how it is called."""
    if tag is None and function is None:
        return None, process
    check_output_tag(tag)
    if function is None:
        raise TypeError(f"timeouts go to {tag!r}, but there is no timeout_function to make its records")
    flat = interface is PatternFlatTimeoutFunction
    return as_function(function, "timeout", interface), ToSideOutput(tag, flat)


def _comparison(comparator: Any) -> Callable[[Any, Any], int] | None:
    """Return the comparator as a function of two events."""
    if comparator is None:
        return None
    compare = getattr(comparator, "compare", comparator)
    if isinstance(comparator, type) or not callable(compare) or not accepts_arguments(compare, 2):
        raise TypeError(f"expected a function of two events, or an EventComparator, got {comparator!r:.100}")
    return captured_call(compare)
