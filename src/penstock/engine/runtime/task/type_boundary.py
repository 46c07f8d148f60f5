"""Where values leave a chain, for another task or a sink: they become ones of their declared type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.api.output_tag import OutputTag
from penstock.common.errors.user_traceback import without_our_frames
from penstock.common.types.basic_types import TypeInformation
from penstock.common.types.declared_values import chunk_converter, value_converter
from penstock.engine.runtime.operators.operator import Timestamps, Values
from penstock.engine.runtime.task.context import OperatorContext

Take = Callable[[Values, Timestamps], bool]


class TypeBoundary:
    """Of one operator, for its main output and its side outputs."""

    def __init__(self, context: OperatorContext, output_type: TypeInformation | None) -> None:
        self._context = context
        self._output_type = output_type

    def before(self, tag: OutputTag[Any] | None, take: Take) -> Take:
        """What converts a chunk and passes it to `take`; `take` itself if the type leaves values as they are."""
        type_info = self._output_type if tag is None else tag.type_info
        convert = chunk_converter(type_info)
        if convert is None:
            return take

        def take_converted(values: Values, timestamps: Timestamps) -> bool:
            try:
                converted = convert(values)
            except (TypeError, ValueError, ArithmeticError) as error:
                raise self._error(error, type_info, values) from error
            return take(converted, timestamps)

        return take_converted

    def _error(self, error: Exception, type_info: TypeInformation | None, values: Values) -> Exception:
        """The chunk's converter keeps no position, for speed: the value is found by trying each."""
        convert = value_converter(type_info)
        assert convert is not None
        for value in values:
            try:
                convert(value)
            except (TypeError, ValueError, ArithmeticError) as found:
                return self._context.user_error(without_our_frames(found), "what it emits as its declared type", value)
        return self._context.user_error(error, "what it emits as its declared type")
