"""Patterns that come as rules, on a stream: `CEP.dynamic_patterns(events, rules).process(...)`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.api.output_tag import OutputTag
from penstock.cep.function_arguments import process_calls
from penstock.cep.functions import PatternProcessFunction
from penstock.cep.operators.dynamic_operator import DynamicCepOperator
from penstock.cep.pattern_settings import PatternSettings
from penstock.cep.rules import RejectedRule
from penstock.common.typeinfo import TypeInformation
from penstock.datastream.arguments import check_output_tag, output_type_of
from penstock.datastream.connected_streams import two_input_stream
from penstock.datastream.data_stream import DataStream, check_one_environment
from penstock.datastream.keyed_stream import KeyedStream

if TYPE_CHECKING:
    from typing import Self

T = TypeVar("T")
R = TypeVar("R")
NAME = "Dynamic patterns"


class DynamicPatternStream(PatternSettings[T]):
    """A stream with patterns that a stream of rules changes. Created by `CEP.dynamic_patterns`."""

    next_call = "process, and a function"

    def __init__(self, stream: KeyedStream[T, Any], rules: DataStream[str], comparator: Any) -> None:
        super().__init__(comparator)
        check_one_environment("dynamic_patterns", stream, rules)
        self._stream = stream
        self._rules = rules
        self._rejected_tag: OutputTag[RejectedRule] | None = None

    def side_output_rejected_rules(self, output_tag: OutputTag[RejectedRule]) -> Self:
        """Send rules that are malformed, or too old, to a side output, as `RejectedRule`, instead of logging them.

        They change nothing. Raises TypeError if it is not an OutputTag.
        """
        check_output_tag(output_tag)
        self._rejected_tag = output_tag
        return self

    def process(
        self,
        pattern_process_function: PatternProcessFunction[T, R]
        | Callable[[dict[str, list[T]], PatternProcessFunction.Context], Iterable[R] | None],
        output_type: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Call a function for each match of each rule: see `PatternStream.process`.

        `pattern_id` and `pattern_version` of the context tell which rule the match is of.
        """
        declared = output_type_of(pattern_process_function, "process_match", output_type, elements=True)
        operator = DynamicCepOperator(
            NAME,
            self._stream.key_selector,
            process_calls(pattern_process_function),
            domain=self._domain,
            comparator=self._comparator,
            late_tag=self._late_tag,
            bound=self._bound,
            queryable_name=self._queryable_name,
            rejected_tag=self._rejected_tag,
        )
        return two_input_stream(
            name=NAME, stream1=self._stream, stream2=self._rules.broadcast(), operator=operator, output_type=declared
        )
