"""The results of aggregates of fields: Rows of the fields of the key, then of the aggregates by their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.common.functions.field_aggregates import SUM, WINDOW_START, FieldAggregate
from penstock.common.typeinfo import RowTypeInfo, Types
from penstock.common.types import row_factory


class ResultRows:
    """Makes the Rows. `declared`: their type, if known. A sum that exceeds its LONG is an error, as on columns."""

    def __init__(
        self, key_fields: tuple[str, ...], aggregates: tuple[FieldAggregate, ...], declared: RowTypeInfo | None = None
    ) -> None:
        kinds = [] if declared is None else declared.get_field_types()[len(key_fields) :]
        self._long_sums = [
            (index, one.name)
            for index, (one, kind) in enumerate(zip(aggregates, kinds, strict=False))
            if one.kind == SUM and kind == Types.LONG()
        ]
        self._names = (*key_fields, *(aggregate.name for aggregate in aggregates))
        self._key_fields = key_fields

    def open(self) -> None:
        """Make the function that makes Rows, once."""
        self._row = row_factory(self._names)

    def row(self, key: Any, results: Sequence[Any]) -> Any:
        """Return the Row of a key. Raises OverflowError for a sum that its type cannot hold."""
        for index, name in self._long_sums:
            if results[index] is not None and not -(1 << 63) <= results[index] < 1 << 63:
                raise too_large_sum(name, results[index])
        keys = [key] if len(self._key_fields) == 1 else key if self._key_fields else ()
        return self._row([*keys, *results])


def too_large_sum(name: str, total: int) -> OverflowError:
    """Return the error for a sum that its type cannot hold."""
    return OverflowError(f"the sum {name!r} is {total}, which exceeds the 64 bits of its type")


class WindowResult:
    """A WindowFunction that returns the Row of a window, from its one accumulator."""

    def __init__(self, aggregates: tuple[FieldAggregate, ...], rows: ResultRows) -> None:
        self._aggregates = aggregates
        self._rows = rows

    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        """Return the result of a window."""
        (accumulator,) = inputs
        values = iter(accumulator)
        results = [
            (window.start if aggregate.kind == WINDOW_START else window.end) if aggregate.of_window else next(values)
            for aggregate in self._aggregates
        ]
        return [self._rows.row(key, results)]

    def open(self, runtime_context: Any) -> None:
        """Open the rows."""
        self._rows.open()

    def close(self) -> None:
        """Do nothing."""
