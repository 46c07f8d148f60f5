"""Whether windows that aggregate fields of rows can run on columns, with exactly the results that they have on rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.common.functions.field_aggregates import COUNT, USER, FieldAggregates
from penstock.common.typeinfo import RowTypeInfo, Types
from penstock.engine.runtime.windows.choice import is_sliced
from penstock.engine.runtime.windows.windowing import WindowSettings

if TYPE_CHECKING:
    from penstock.common.columns.record_columns import RecordColumns
    from penstock.engine.runtime.operators.operator import Operator

_NUMBERS = (Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG(), Types.DOUBLE())
_KEYS = (Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG(), Types.STRING(), Types.BOOLEAN())
_EXACT = (*_NUMBERS, *_KEYS)
"""Types whose columns give back the values of Python that they were made of."""


class ColumnWindowsChoice(NamedTuple):
    """The windows of a stream of rows. `record_type`, `result_type`: None if they are not known."""

    key_selector: Callable[[Any], Any]
    key_fields: tuple[str, ...]
    aggregates: FieldAggregates
    settings: WindowSettings
    record_type: Any
    result_type: RowTypeInfo | None

    def reason_for_rows(self) -> str | None:
        """Return why they can only run on rows; None if they can run on columns."""
        if not is_sliced(self.settings):
            return "only tumbling, sliding and cumulative windows with their default trigger can run on columns"
        if not isinstance(self.record_type, RowTypeInfo) or self.result_type is None:
            return "the fields of its records have no declared types"
        users = next((one for one in self.aggregates.aggregates if one.kind == USER), None)
        if users is not None:
            return f"the aggregate '{users.name}' is a function of the program"
        types = dict(zip(self.record_type.get_field_names(), self.record_type.get_field_types(), strict=True))
        for field in self.key_fields:
            if types[field] not in _KEYS:
                return f"the field '{field}' of the key has the type {types[field]}"
        for one in self.aggregates.aggregates:
            if one.field is not None and types[one.field] not in (_EXACT if one.kind == COUNT else _NUMBERS):
                return f"the field '{one.field}' has the type {types[one.field]}"
        if self.settings.late_tag is not None:
            changed = next((field for field, kind in types.items() if kind not in _EXACT), None)
            if changed is not None:
                return f"late records have the field '{changed}' of the type {types[changed]}"
        return None

    def operator(self, name: str) -> Operator:
        """Return the operator on columns, which takes rows as well."""
        from penstock.common.columns.record_columns import RecordColumns
        from penstock.engine.runtime.columns.mixed_windows import MixedWindowOperator

        assert self.result_type is not None
        return MixedWindowOperator(
            name,
            self.key_selector,
            self.settings,
            key_fields=self.key_fields,
            aggregates=self.aggregates,
            columns=self._columns(),
            results=RecordColumns(self.result_type),
        )

    def conversion(self) -> Operator:
        """Return the conversion before the exchange."""
        from penstock.engine.runtime.columns.exact_conversion import ToExactColumnsOperator

        return ToExactColumnsOperator(self._columns(), whole=self.settings.late_tag is not None)

    def _columns(self) -> RecordColumns:
        """Return the columns that are read: all if late records are emitted."""
        from penstock.common.columns.record_columns import RecordColumns

        columns = RecordColumns(self.record_type)
        read = {*self.key_fields, *(field for one in self.aggregates.aggregates for field in one.fields)}
        whole = self.settings.late_tag is not None
        return columns.only([name for name in columns.names if whole or name in read])
