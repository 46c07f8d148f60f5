"""How CSV is described: a schema, built column by column as in PyFlink."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.formats.conversion import converter
from penstock.formats.csv_dialect import CsvDialect


class CsvSchema:
    """Columns and syntax of a CSV file. Created by `CsvSchema.builder()`."""

    def __init__(self, columns: dict[str, Any], options: dict[str, Any]) -> None:
        self.columns = columns
        self.options = options

    @staticmethod
    def builder() -> CsvSchemaBuilder:
        """Return a builder of an empty schema."""
        return CsvSchemaBuilder()

    def size(self) -> int:
        """Return the number of columns."""
        return len(self.columns)

    @property
    def dialect(self) -> CsvDialect:
        """The characters that separate and quote fields."""
        return CsvDialect(**{name: self.options[name] for name in CsvDialect.__struct_fields__ if name in self.options})

    def __repr__(self) -> str:
        return f"CsvSchema({', '.join(self.columns)})"


class CsvSchemaBuilder:
    """Adds columns and settings; each method returns the builder. As in PyFlink, the default is no header."""

    def __init__(self) -> None:
        self._columns: dict[str, Any] = {}
        self._options: dict[str, Any] = {}

    def build(self) -> CsvSchema:
        """Return the schema."""
        return CsvSchema(dict(self._columns), dict(self._options))

    def add_string_column(self, name: str) -> CsvSchemaBuilder:
        """Add a column of text."""
        return self._add(name, str)

    def add_number_column(self, name: str, number_type: Any = int) -> CsvSchemaBuilder:
        """Add a column of numbers: `int` (the default), `float`, `Decimal`, or a number type of `Types`."""
        return self._add(name, number_type)

    def add_boolean_column(self, name: str) -> CsvSchemaBuilder:
        """Add a column of true, false, 1 or 0."""
        return self._add(name, bool)

    def add_array_column(self, name: str, separator: str = ";", element_type: Any = str) -> CsvSchemaBuilder:
        """Add a column of lists whose elements are delimited by `separator`."""
        return self._add(name, ArrayConverter(separator, element_type))

    def add_columns_from(self, schema: CsvSchema) -> CsvSchemaBuilder:
        """Add the columns of another schema."""
        for name, kind in schema.columns.items():
            self._add(name, kind)
        return self

    def clear_columns(self) -> CsvSchemaBuilder:
        """Remove all columns."""
        self._columns.clear()
        return self

    def set_allow_comments(self, allow: bool = True) -> CsvSchemaBuilder:
        """Skip lines that start with #."""
        return self._set("comments", allow)

    def set_column_separator(self, char: str) -> CsvSchemaBuilder:
        """Set the character between fields. Default: a comma."""
        return self._set("delimiter", char)

    def set_quote_char(self, char: str) -> CsvSchemaBuilder:
        """Set the character around quoted fields. Default: a double quote."""
        return self._set("quote_char", char)

    def disable_quote_char(self) -> CsvSchemaBuilder:
        """Disable quoting."""
        return self._set("quote_char", None)

    def set_escape_char(self, char: str) -> CsvSchemaBuilder:
        """Set the escape character. Default: none."""
        return self._set("escape_char", char)

    def disable_escape_char(self) -> CsvSchemaBuilder:
        """Disable escaping."""
        return self._set("escape_char", None)

    def set_line_separator(self, separator: str) -> CsvSchemaBuilder:
        r"""Accepted for LF and CR LF, which are always recognised. Raises ValueError for anything else."""
        if separator not in ("\n", "\r\n"):
            raise ValueError(f"lines of a CSV file end with LF or CR LF, got {separator!r}")
        return self

    def set_null_value(self, null_value: str) -> CsvSchemaBuilder:
        """Set the text that stands for None."""
        return self._set("null_value", null_value)

    def set_skip_first_data_row(self, skip: bool = True) -> CsvSchemaBuilder:
        """Skip the first row after the header (or the first row, if there is no header)."""
        return self._set("skip_first_data_row", skip)

    def set_strict_headers(self, strict: bool = True) -> CsvSchemaBuilder:
        """Require the header to name exactly the columns of the schema, in order."""
        return self._set("strict_header", strict)

    def set_use_header(self, use: bool = True) -> CsvSchemaBuilder:
        """Take column names from the first row of each file."""
        return self._set("header", use)

    def size(self) -> int:
        """Return the number of columns so far."""
        return len(self._columns)

    def _add(self, name: str, kind: Any) -> CsvSchemaBuilder:
        if name in self._columns:
            raise ValueError(f"the CsvSchema already has a column {name!r}")
        converter(kind)  # raises TypeError if it is not a type
        self._columns[name] = kind
        return self

    def _set(self, option: str, value: Any) -> CsvSchemaBuilder:
        self._options[option] = value
        return self


class ArrayConverter:
    """Parses a field that contains a list."""

    def __init__(self, separator: str, element_type: Any) -> None:
        if not separator:
            raise ValueError("the separator of an array column is empty")
        self.separator = separator
        self._convert: Callable[[str], Any] = converter(element_type)

    def __call__(self, text: str) -> list[Any]:
        return list(map(self._convert, text.split(self.separator)))
