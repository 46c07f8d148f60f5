"""`Schema`: the columns of a table. Source: PyFlink, pyflink.table.Schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.table.composing.sql_text import quoted, text_literal

if TYPE_CHECKING:
    from penstock.table.logical_types import LogicalType


class Schema:
    """Columns, a watermark and a primary key: `Schema.new_builder().column("id", DataTypes.BIGINT()).build()`."""

    def __init__(
        self,
        columns: Sequence[tuple[str, LogicalType | None, str]],
        watermark: str | None,
        primary_key: Sequence[str],
        key_name: str | None = None,
    ) -> None:
        self.columns = tuple(columns)
        """Name; the type of a physical column; the text of SQL behind the name. Internal to the package."""
        self.watermark = watermark
        self.primary_key = tuple(primary_key)
        self._key_name = key_name

    @staticmethod
    def new_builder() -> Schema.Builder:
        """Return a builder."""
        return Schema.Builder()

    @property
    def physical(self) -> list[tuple[str, LogicalType]]:
        """Name and type of each physical column. Internal to the package."""
        return [(name, kind) for name, kind, _ in self.columns if kind is not None]

    def with_physical(self, columns: Sequence[tuple[str, LogicalType]]) -> Schema:
        """Return a schema with these columns before its own. Internal to the package."""
        own = [column for column in self.columns if column[1] is None]
        return Schema(
            [*((name, kind, str(kind)) for name, kind in columns), *own],
            self.watermark,
            self.primary_key,
            self._key_name,
        )

    def sql(self) -> str:
        """Return the text between the parentheses of CREATE TABLE. Internal to the package."""
        parts = [f"{quoted(name)} {text}" for name, _, text in self.columns]
        if self.watermark is not None:
            parts.append(self.watermark)
        if self.primary_key:
            constraint = "" if self._key_name is None else f"CONSTRAINT {quoted(self._key_name)} "
            parts.append(f"{constraint}PRIMARY KEY ({', '.join(map(quoted, self.primary_key))}) NOT ENFORCED")
        return ", ".join(parts)

    def __str__(self) -> str:
        return f"({self.sql()})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.sql() == other.sql()

    def __hash__(self) -> int:
        return hash(self.sql())

    class Builder:
        """A schema in the making. Each method returns the builder."""

        def __init__(self) -> None:
            self._columns: list[tuple[str, LogicalType | None, str]] = []
            self._watermark: str | None = None
            self._key: tuple[str, ...] = ()
            self._key_name: str | None = None

        def from_schema(self, unresolved_schema: Schema) -> Schema.Builder:
            """Add all of another schema."""
            self._columns += unresolved_schema.columns
            self._watermark = unresolved_schema.watermark or self._watermark
            self._key = unresolved_schema.primary_key or self._key
            return self

        def from_fields(self, field_names: Sequence[str], field_data_types: Sequence[Any]) -> Schema.Builder:
            """Add columns with these names and types."""
            if len(field_names) != len(field_data_types):
                raise ValueError(f"expected a type for each of {len(field_names)} names, got {len(field_data_types)}")
            for name, kind in zip(field_names, field_data_types, strict=True):
                self.column(name, kind)
            return self

        def from_row_data_type(self, data_type: Any) -> Schema.Builder:
            """Add the fields of a ROW."""
            return self.from_fields(data_type.logical.names, [str(one) for one in data_type.logical.children])

        def column(self, column_name: str, data_type: Any) -> Schema.Builder:
            """Add a physical column. `data_type`: one of `DataTypes`, or SQL's text."""
            from penstock.table.declared_types import logical_type

            kind = logical_type(data_type)
            return self._add(column_name, kind, str(kind))

        def column_by_expression(self, column_name: str, expr: Any) -> Schema.Builder:
            """Add a column that is computed. `expr`: an expression, or SQL's text."""
            return self._add(column_name, None, f"AS {expr if isinstance(expr, str) else repr(expr)}")

        def column_by_metadata(
            self, column_name: str, data_type: Any, metadata_key: str | None = None, is_virtual: bool = False
        ) -> Schema.Builder:
            """Add a column of metadata of the connector. `is_virtual`: it is not written."""
            from penstock.table.declared_types import logical_type

            key = "" if metadata_key is None else f" FROM {text_literal(metadata_key)}"
            virtual = " VIRTUAL" if is_virtual else ""
            return self._add(column_name, None, f"{logical_type(data_type)} METADATA{key}{virtual}")

        def watermark(self, column_name: str, watermark_expr: Any) -> Schema.Builder:
            """Make a column the time attribute, with its watermark: an expression, or SQL's text."""
            text = watermark_expr if isinstance(watermark_expr, str) else repr(watermark_expr)
            self._watermark = f"WATERMARK FOR {quoted(column_name)} AS {text}"
            return self

        def primary_key(self, *column_names: str) -> Schema.Builder:
            """Name the columns whose values identify a row."""
            self._key = column_names
            return self

        def primary_key_named(self, constraint_name: str, *column_names: str) -> Schema.Builder:
            """Name the columns whose values identify a row, and this constraint."""
            self._key_name = constraint_name
            return self.primary_key(*column_names)

        def build(self) -> Schema:
            """Return the schema."""
            return Schema(self._columns, self._watermark, self._key, self._key_name)

        def _add(self, name: str, kind: LogicalType | None, text: str) -> Schema.Builder:
            if any(name == one for one, _, _ in self._columns):
                raise ValueError(f"the schema has the column {name!r} already")
            quoted(name)
            self._columns.append((name, kind, text))
            return self
