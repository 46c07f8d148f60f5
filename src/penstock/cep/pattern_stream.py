"""Patterns on streams: `CEP.pattern(stream, pattern).select(...)`.

Source: Flink docs, "Event Processing (CEP)", Detecting Patterns; Flink's CEP and PatternStream.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from penstock.api.output_tag import OutputTag
from penstock.cep.automata import automaton_of
from penstock.cep.columns import on_columns
from penstock.cep.drawing import in_short
from penstock.cep.dynamic_pattern_stream import DynamicPatternStream
from penstock.cep.function_arguments import process_calls, timeout_call
from penstock.cep.functions import (
    EventComparator,
    PatternFlatSelectFunction,
    PatternFlatTimeoutFunction,
    PatternProcessFunction,
    PatternSelectFunction,
    PatternTimeoutFunction,
)
from penstock.cep.growth import growth_warnings
from penstock.cep.operators.cep_operator import CepOperator
from penstock.cep.operators.match_calls import MatchCalls, flat_select, select
from penstock.cep.pattern import Pattern
from penstock.cep.pattern_settings import PatternSettings
from penstock.cep.prefilter import filtered
from penstock.common.typeinfo import TypeInformation
from penstock.datastream.arguments import as_function, output_type_of
from penstock.datastream.data_stream import DataStream
from penstock.datastream.functions import NullByteKeySelector
from penstock.datastream.keyed_stream import KeyedStream
from penstock.engine.plan.transformations import OperatorTransformation

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
        return PatternStream(stream, pattern, comparator)

    @staticmethod
    def dynamic_patterns(
        stream: KeyedStream[T, Any],
        rules: DataStream[str],
        comparator: EventComparator[T] | Callable[[T, T], int] | None = None,
    ) -> DynamicPatternStream[T]:
        """Look for patterns that a stream of rules adds, changes and removes while the job runs. Not in Flink.

        Args:
            stream: the events, with a key.
            rules: JSON texts, {"id": ..., "version": ..., "pattern": {...}} or "remove": true in place of the pattern.
                Its event time does not count.
            comparator: see `pattern`.

        Raises:
            TypeError: for an argument of another kind.
        """
        if not isinstance(stream, KeyedStream):
            raise TypeError(f"dynamic_patterns needs events with a key: call key_by before, got {stream!r:.100}")
        given: object = rules
        if not isinstance(given, DataStream) or isinstance(given, KeyedStream):
            raise TypeError(f"expected a stream of rules as JSON texts, without a key, got {rules!r:.100}")
        return DynamicPatternStream(stream, rules, comparator)


class PatternStream(PatternSettings[T]):
    """A pattern on a stream, still without a function for its matches. Created by `CEP.pattern`."""

    next_call = "select, flat_select or process, and a function"

    def __init__(self, stream: DataStream[T], pattern: Pattern[T, Any], comparator: Any) -> None:
        super().__init__(comparator)
        self._stream = stream
        self._pattern = pattern.copied()
        self._filters = True

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
        declared = output_type_of(pattern_process_function, "process_match", output_type, elements=True)
        return self._result(process_calls(pattern_process_function), declared)

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
        timed_out, form = timeout_call(timed_out_tag, timeout_function, PatternTimeoutFunction)
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
        timed_out, form = timeout_call(timed_out_tag, timeout_function, PatternFlatTimeoutFunction)
        return self._result(MatchCalls(function, flat_select, timed_out, form), declared)

    def _result(self, calls: MatchCalls, output_type: TypeInformation | None) -> DataStream[Any]:
        automaton = automaton_of(self._pattern, is_bounded=self._bound is not None)
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
            queryable_name=self._queryable_name,
        )
        environment = keyed.environment
        transformation = OperatorTransformation(
            id=environment.next_id(),
            name=name,
            inputs=[keyed._transformation],
            operator=on_columns(operator, keyed),
            output_type=output_type,
        )
        # The dashboard, REST and `penstock explain` show it.
        transformation.description = self._pattern.draw()
        if not is_keyed:
            transformation.parallelism = 1
            transformation.parallelism_fixed = "a pattern on a stream without a key needs all events in one subtask"
        return DataStream(environment, transformation)
