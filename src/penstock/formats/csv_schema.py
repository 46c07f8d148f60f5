"""How CSV is described: a schema, built column by column as in PyFlink."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.formats.conversion import converter
from penstock.formats.csv_dialect import CsvDialect


class CsvSchema:
    """Columns of a CSV file and how they are written down. Made by `CsvSchema.builder()`."""

    def __init__(self, columns: dict[str, Any], options: dict[str, Any]) -> None:
        self.columns = columns
        self.options = options

    @staticmethod
    def builder() -> CsvSchemaBuilder:
        """An empty schema to be built."""
        return CsvSchemaBuilder()

    def size(self) -> int:
        """Number of columns."""
        return len(self.columns)

    @property
    def dialect(self) -> CsvDialect:
        """The characters that separate and quote fields."""
        return CsvDialect(**{name: self.options[name] for name in CsvDialect.__struct_fields__ if name in self.options})

    def __repr__(self) -> str:
        return f"CsvSchema({', '.join(self.columns)})"


class CsvSchemaBuilder:
    """Adds columns and settings; each method returns the builder. As in PyFlink, there is no header unless said."""

    def __init__(self) -> None:
        self._columns: dict[str, Any] = {}
        self._options: dict[str, Any] = {}

    def build(self) -> CsvSchema:
        """The schema."""
        return CsvSchema(dict(self._columns), dict(self._options))

    def add_string_column(self, name: str) -> CsvSchemaBuilder:
        """A column of text."""
        return self._add(name, str)

    def add_number_column(self, name: str, number_type: Any = int) -> CsvSchemaBuilder:
        """A column of numbers: `int` (the default), `float`, `Decimal`, or a number type of `Types`."""
        return self._add(name, number_type)

    def add_boolean_column(self, name: str) -> CsvSchemaBuilder:
        """A column of true, false, 1 or 0."""
        return self._add(name, bool)

    def add_array_column(self, name: str, separator: str = ";", element_type: Any = str) -> CsvSchemaBuilder:
        """A column of lists, written with a separator between their elements."""
        return self._add(name, ArrayConverter(separator, element_type))

    def add_columns_from(self, schema: CsvSchema) -> CsvSchemaBuilder:
        """The columns of another schema."""
        for name, kind in schema.columns.items():
            self._add(name, kind)
        return self

    def clear_columns(self) -> CsvSchemaBuilder:
        """No columns."""
        self._columns.clear()
        return self

    def set_allow_comments(self, allow: bool = True) -> CsvSchemaBuilder:
        """Pass over lines that start with #."""
        return self._set("comments", allow)

    def set_column_separator(self, char: str) -> CsvSchemaBuilder:
        """The character between fields; a comma unless set."""
        return self._set("delimiter", char)

    def set_quote_char(self, char: str) -> CsvSchemaBuilder:
        """The character around quoted fields; a double quote unless set."""
        return self._set("quote_char", char)

    def disable_quote_char(self) -> CsvSchemaBuilder:
        """Fields are never quoted."""
        return self._set("quote_char", None)

    def set_escape_char(self, char: str) -> CsvSchemaBuilder:
        """The character that makes the next one an ordinary one; none unless set."""
        return self._set("escape_char", char)

    def disable_escape_char(self) -> CsvSchemaBuilder:
        """No escape character."""
        return self._set("escape_char", None)

    def set_line_separator(self, separator: str) -> CsvSchemaBuilder:
        r"""Reading knows LF and CR LF by itself. Raises ValueError for anything else."""
        if separator not in ("\n", "\r\n"):
            raise ValueError(f"lines of a CSV file end with LF or CR LF, got {separator!r}")
        return self

    def set_null_value(self, null_value: str) -> CsvSchemaBuilder:
        """The text that stands for None."""
        return self._set("null_value", null_value)

    def set_skip_first_data_row(self, skip: bool = True) -> CsvSchemaBuilder:
        """Pass over the first row after the header (or the first row, if there is no header)."""
        return self._set("skip_first_data_row", skip)

    def set_strict_headers(self, strict: bool = True) -> CsvSchemaBuilder:
        """The header must name exactly the columns of the schema, in order."""
        return self._set("strict_header", strict)

    def set_use_header(self, use: bool = True) -> CsvSchemaBuilder:
        """The first row of each file names its columns."""
        return self._set("header", use)

    def size(self) -> int:
        """Number of columns so far."""
        return len(self._columns)

    def _add(self, name: str, kind: Any) -> CsvSchemaBuilder:
        if name in self._columns:
            raise ValueError(f"the CsvSchema has a column {name!r} already")
        converter(kind)  # raises TypeError for what is no type
        self._columns[name] = kind
        return self

    def _set(self, option: str, value: Any) -> CsvSchemaBuilder:
        self._options[option] = value
        return self


class ArrayConverter:
    """Reads a field that holds a list."""

    def __init__(self, separator: str, element_type: Any) -> None:
        if not separator:
            raise ValueError("the separator of an array column is empty")
        self.separator = separator
        self._convert: Callable[[str], Any] = converter(element_type)

    def __call__(self, text: str) -> list[Any]:
        return list(map(self._convert, text.split(self.separator)))
