"""The schema of a CSV file, built column by column as in PyFlink."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.common.types.basic_types import type_of_values
from penstock.connectors.formats.conversion import converter
from penstock.connectors.formats.csv_dialect import CsvDialect


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
        """Return the characters that separate and quote fields."""
        return CsvDialect(**{name: self.options[name] for name in CsvDialect.__struct_fields__ if name in self.options})

    def __repr__(self) -> str:
        return f"CsvSchema({', '.join(self.columns)})"


class CsvSchemaBuilder:
    """Add columns and settings; each method returns the builder. As in PyFlink, files have no header by default."""

    def __init__(self) -> None:
        self._columns: dict[str, Any] = {}
        self._options: dict[str, Any] = {}
        self._array_separator = ";"

    def build(self) -> CsvSchema:
        """Return the schema.

        Raise ValueError if the name for surplus fields is that of a column, and for characters that cannot separate or
        quote fields.
        """
        surplus = self._options.get("surplus_fields")
        if surplus in self._columns:
            raise ValueError(f"{surplus!r} is the name of a column of the CsvSchema: give surplus fields another name")
        columns = {
            name: kind.completed(self._array_separator, self._options.get("null_value"))
            if isinstance(kind, ArrayConverter)
            else kind
            for name, kind in self._columns.items()
        }
        schema = CsvSchema(columns, dict(self._options))
        # Raises ValueError for invalid characters.
        schema.dialect.reader("")
        return schema

    def add_string_column(self, name: str) -> CsvSchemaBuilder:
        """Add a column of text."""
        return self._add(name, str)

    def add_number_column(self, name: str, number_type: Any = int) -> CsvSchemaBuilder:
        """Add a column of numbers: `int` (the default), `float`, `Decimal`, or a number type of `Types`."""
        return self._add(name, type_of_values(number_type))

    def add_boolean_column(self, name: str) -> CsvSchemaBuilder:
        """Add a column of true, false, 1 or 0."""
        return self._add(name, bool)

    def add_array_column(self, name: str, separator: str = ";", element_type: Any = str) -> CsvSchemaBuilder:
        """Add a column of lists whose elements are separated by `separator`; if it is empty, by that of the schema."""
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

    def set_any_property_name(self, name: str) -> CsvSchemaBuilder:
        """Accept records with more fields than columns, and drop the surplus. By default such a record is an error.

        `name`: Jackson's name for such fields; Rows only have the columns of the schema. `build` raises ValueError if a
        column has this name. Source: PyFlink's method of this name.
        """
        return self._set("surplus_fields", name)

    def set_array_element_separator(self, separator: str) -> CsvSchemaBuilder:
        """Set the text between elements of arrays whose column has no separator of its own. Default: a semicolon."""
        self._array_separator = separator
        return self

    def disable_array_element_separator(self) -> CsvSchemaBuilder:
        """Read each array whose column has no separator of its own as one element: the whole field."""
        return self.set_array_element_separator("")

    def remove_array_element_separator(self, index: int) -> CsvSchemaBuilder:
        """Let the array in column `index`, from 0, use the separator of the schema instead of its own.

        Raise IndexError if there is no such column so far. A column of another type stays unchanged.
        """
        names = list(self._columns)
        if not 0 <= index < len(names):
            raise IndexError(f"the index of a column must be from 0 to {len(names) - 1}, got {index}")
        kind = self._columns[names[index]]
        if isinstance(kind, ArrayConverter):
            self._columns[names[index]] = kind.without_separator()
        return self

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
        """Accept LF, CR LF and CR, which are detected in each file. Raise ValueError for anything else."""
        if separator not in ("\n", "\r\n", "\r"):
            raise ValueError(f"the line separator of CSV must be LF, CR LF or CR, got {separator!r}")
        return self

    def set_null_value(self, null_value: str) -> CsvSchemaBuilder:
        """Set the text that represents None."""
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
    """Parse a field that contains a list. Without a separator the whole field is its only element.

    `null_value`: the text of elements that are None; None: there is no such text.
    """

    def __init__(self, separator: str, element_type: Any, null_value: str | None = None) -> None:
        self.separator = separator
        self._convert: Callable[[str], Any] = converter(type_of_values(element_type))
        self._null_value = null_value

    def completed(self, separator: str, null_value: str | None) -> ArrayConverter:
        """Return a converter with this text for None, and this separator unless it has its own."""
        return ArrayConverter(self.separator or separator, self._convert, null_value)

    def without_separator(self) -> ArrayConverter:
        """Return a converter without a separator of its own."""
        return ArrayConverter("", self._convert, self._null_value)

    def text(self, elements: Sequence[Any], text_of: Callable[[Any], str]) -> str:
        """Return the text that is parsed to `elements`. Raise ValueError for several elements without a separator."""
        if not self.separator and len(elements) > 1:
            raise ValueError(f"expected at most one element in an array without a separator, got {elements!r:.200}")
        null = self._null_value or ""
        return self.separator.join(null if element is None else text_of(element) for element in elements)

    def __call__(self, text: str) -> list[Any]:
        texts = text.split(self.separator) if self.separator else [text]
        null = self._null_value
        if null is not None and null in texts:
            return [None if text == null else self._convert(text) for text in texts]
        return list(map(self._convert, texts))
