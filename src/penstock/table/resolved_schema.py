"""`ResolvedSchema`: names and types of the columns of a query. Source: PyFlink, pyflink.table."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.table.logical_types import LogicalType
from penstock.table.types import DataType


class ResolvedSchema:
    """Columns as the planner knows them."""

    def __init__(self, columns: Sequence[tuple[str, LogicalType, str]]) -> None:
        self._columns = tuple(columns)

    def get_column_count(self) -> int:
        """Return the number of columns."""
        return len(self._columns)

    def get_column_names(self) -> list[str]:
        """Return the names."""
        return [name for name, _, _ in self._columns]

    def get_column_data_types(self) -> list[DataType]:
        """Return the types."""
        return [DataType(kind) for _, kind, _ in self._columns]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ResolvedSchema) and self._columns == other._columns

    def __hash__(self) -> int:
        return hash(self._columns)

    def __str__(self) -> str:
        # As in Flink.
        return "(\n" + ",\n".join(f"  `{name}` {shown}" for name, _, shown in self._columns) + "\n)"

    __repr__ = __str__


class TableSchema(ResolvedSchema):
    """Columns by PyFlink's older names."""

    def get_field_count(self) -> int:
        """Return the number of columns."""
        return self.get_column_count()

    def get_field_names(self) -> list[str]:
        """Return the names."""
        return self.get_column_names()

    def get_field_name(self, field_index: int) -> str | None:
        """Return the name of the column at a place, from 0; None: there is none."""
        names = self.get_column_names()
        return names[field_index] if 0 <= field_index < len(names) else None

    def get_field_data_types(self) -> list[DataType]:
        """Return the types."""
        return self.get_column_data_types()

    def get_field_data_type(self, field: str | int) -> DataType | None:
        """Return the type of a column, by its name or its place; None: there is none."""
        found = [kind for place, (name, kind, _) in enumerate(self._columns) if field in (name, place)]
        return DataType(found[0]) if found else None
