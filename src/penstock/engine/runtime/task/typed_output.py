"""An operator's output where its declared type has rows: what it emits becomes Rows of that type."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.api.output_tag import OutputTag
from penstock.common.types.basic_types import TypeInformation
from penstock.common.types.declared_rows import Converter, row_converter
from penstock.engine.runtime.operators.operator import Output, Timestamps, Values, positions_taken
from penstock.engine.runtime.task.context import OperatorContext


def typed_output(
    output: Output, context: OperatorContext, output_type: TypeInformation | None, tags: Iterable[OutputTag[Any]]
) -> Output:
    """`output` itself, if neither the operator's type nor that of a side output has rows."""
    main = row_converter(output_type)
    sides = {tag.tag_id: row_converter(tag.type_info) for tag in tags}
    return TypedOutput(output, context, main, sides) if main is not None or any(sides.values()) else output


class TypedOutput:
    """Converts values before it passes them on."""

    def __init__(
        self, output: Output, context: OperatorContext, main: Converter | None, sides: dict[str, Converter | None]
    ) -> None:
        self._output = output
        self._context = context
        self._main = main
        self._sides = sides
        self.watermark = output.watermark
        self.status = output.status

    def emit(self, values: Values, timestamps: Timestamps) -> bool:
        return self._output.emit(self._converted(values, self._main), timestamps)

    def emit_side(self, tag: OutputTag[Any], values: Values, timestamps: Timestamps) -> bool:
        return self._output.emit_side(tag, self._converted(values, self._sides.get(tag.tag_id)), timestamps)

    def _converted(self, values: Values, convert: Converter | None) -> Values:
        if convert is None:
            return values
        rest = iter(values)
        try:
            return list(map(convert, rest))
        except (TypeError, ValueError) as error:
            value = values[positions_taken(values, rest)]
            raise self._context.user_error(error, "what it emits as its declared type", value) from error
