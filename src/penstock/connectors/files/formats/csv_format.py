"""CSV files, parsed with Python's csv module.

pyarrow's reader is faster on wide tables of numbers, but the conversion of its result to Python values costs more than
it saves; `csv_columns` uses it where records remain columns.
"""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

from penstock.common.errors import SourceError
from penstock.common.serialization import BulkWriter, BulkWriterFactory, Encoder
from penstock.common.types import Row
from penstock.common.types.record_fields import fields_of
from penstock.common.types.type_variables import Record
from penstock.common.values.written_texts import csv_form
from penstock.connectors.files.formats.compression import suffix_hint
from penstock.connectors.files.formats.csv_parser import CsvParser, csv_reason
from penstock.connectors.files.formats.format import OnUnreadable
from penstock.connectors.files.formats.line_format import LineFormat, LineParser
from penstock.connectors.files.split import FoundFile
from penstock.connectors.formats.byte_order_mark import UTF8_BOM
from penstock.connectors.formats.conversion import converter
from penstock.connectors.formats.csv_dialect import CsvDialect
from penstock.connectors.formats.csv_schema import ArrayConverter, CsvSchema

if TYPE_CHECKING:
    import pyarrow

    from penstock.common.columns.csv_lines import CsvForm
    from penstock.common.columns.record_columns import RecordColumns
    from penstock.connectors.files.formats.line_columns import LineColumns


class CsvFormat(LineFormat[Record]):
    """Read each record as a dict from column name to value (or as a Row with field names, `as_row=True`).

    With `header` (the default) the first record of each file names the columns, and `columns` selects some of them;
    without a header, `columns` names all fields in order. Values are str unless `types` maps the column name to `int`,
    `float`, `bool`, `Decimal`, `date`, `datetime`, `time` or any function of the text. A field equal to `null_value` is
    None, and so is an empty field of a column with a type. `strict_header`: the header must name exactly `columns`, in
    that order.

    Values may be quoted and may then contain newlines (RFC 4180). Such a file is a single split, because a newline in
    its middle may or may not end a record. Set `newlines_in_values=False` if no value contains a newline: several
    subtasks then read a large file, and a newline in a value is a SourceError. Empty lines are skipped. A record with
    the wrong number of fields, or a value that cannot be converted, is a SourceError that names the line; with
    `on_error="skip"` it is skipped and counted, with "emit" it is emitted as an UnreadableLine and counted, and with
    an OutputTag the same, to that side output of the source's stream. `surplus_fields`: drop the fields of a record
    beyond the columns. A field has at most 131,072 characters (limit of the csv module).
    """

    def __init__(
        self,
        columns: Sequence[str] | None = None,
        types: Mapping[str, Callable[[str], Any]] | None = None,
        *,
        header: bool = True,
        strict_header: bool = False,
        skip_first_data_row: bool = False,
        delimiter: str = ",",
        quote_char: str | None = '"',
        escape_char: str | None = None,
        comments: bool = False,
        null_value: str | None = None,
        newlines_in_values: bool = True,
        as_row: bool = False,
        surplus_fields: bool = False,
        charset: str = "UTF-8",
        on_error: OnUnreadable = "fail",
    ) -> None:
        super().__init__(charset, on_error)
        if isinstance(columns, str):
            raise TypeError(f"columns must be a list of names, got the text {columns!r}")
        if columns is None and (not header or strict_header):
            raise ValueError("columns is required with header=False and with strict_header=True")
        if columns is not None and (not columns or len(set(columns)) < len(columns)):
            raise ValueError(f"columns must be at least one name, without duplicates, got {list(columns)}")
        self.columns = None if columns is None else list(columns)
        self.types = dict(types or {})
        for name in self.types:
            if columns is not None and name not in columns:
                raise ValueError(f"types must name columns of {', '.join(columns)}, got {name!r}")
        self.converters = {name: converter(kind) for name, kind in self.types.items()}
        self.dialect = CsvDialect(delimiter, quote_char, escape_char, comments)
        self.header = header
        self.strict_header = strict_header
        self.skip_first_data_row = skip_first_data_row
        self.null_value = null_value
        self.newlines_in_values = newlines_in_values
        self.as_row = as_row
        self.surplus_fields = surplus_fields

    def is_splittable(self, path: str) -> bool:
        """Return True only if values cannot contain a newline."""
        return not self.newlines_in_values and super().is_splittable(path)

    def check(self, file: FoundFile) -> None:
        """Read the header and check that it has the selected columns."""
        self.parser(file.path, self.ends_with_cr(file.path))

    def parser(self, path: str, cr_ends: bool) -> LineParser:
        """Return a parser for this file's columns and header size."""
        names, body_start = self._head(path, cr_ends)
        selected = names if self.columns is None or not names else self.columns
        if names and self.strict_header and names != selected:
            raise SourceError(f"{path}: the header must be {', '.join(selected)}, got {', '.join(names)}")
        missing = [name for name in {**dict.fromkeys(selected), **self.types} if names and name not in names]
        if missing:
            raise SourceError(f"{path} lacks the column {', '.join(missing)}: its columns are {', '.join(names)}")
        return CsvParser(self, names, selected, body_start)

    def on_columns(self, columns: RecordColumns) -> LineColumns | None:
        """Return a format of batches, unless UnreadableLines are among the records: they have no columns."""
        from penstock.connectors.files.formats.csv_columns import CsvColumns

        return None if self._on_error == "emit" else CsvColumns(self, self, columns)

    def _head(self, path: str, cr_ends: bool) -> tuple[list[str], int]:
        """Return the names of all fields, and the offset after header and skipped row. No names: the file is empty."""
        names = None if self.header else self.columns
        left = self.header + self.skip_first_data_row
        if not left:
            # Keep offset 0: the byte order mark is removed where lines are read.
            return names or [], 0
        with contextlib.closing(_HeadLines(path, self.lines(path, cr_ends), self.charset)) as lines:
            reader = self.dialect.reader_of_lines(lines)
            try:
                for row in reader:
                    if not row:
                        continue
                    names = row if names is None else names
                    left -= 1
                    if not left:
                        break
            except csv.Error as error:
                raise SourceError(
                    f"{path}, line {reader.line_num}: cannot read the header: {csv_reason(error)}"
                ) from error
        if names and len(set(names)) < len(names):
            raise SourceError(f"{path}: the header has duplicate names: {', '.join(names)}")
        return names or [], lines.offset


class _HeadLines:
    """The first lines of a file as text. `offset`: the end of the lines returned so far."""

    def __init__(self, path: str, lines: Generator[bytes], charset: str) -> None:
        self.offset = 0
        self._path = path
        self._lines = lines
        self._charset = charset
        self._number = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self._number += 1
        if not self.offset and self._charset == "utf-8" and line.startswith(UTF8_BOM):
            self.offset, line = len(UTF8_BOM), line[len(UTF8_BOM) :]
        try:
            text = line.decode(self._charset)
        except UnicodeDecodeError as error:
            hint = suffix_hint(line) if self._number == 1 else ""
            raise SourceError(
                f"{self._path}, line {self._number} (byte {self.offset + error.start}): this is not {self._charset} "
                f"text: {error.reason}{hint or '. Set another charset: StreamFormat.csv_format(charset=...)'}"
            ) from error
        self.offset += len(line)
        return text

    def close(self) -> None:
        """Close the file."""
        self._lines.close()


class CsvReaderFormat(CsvFormat[Row]):
    """Read CSV files by a `CsvSchema`: each record is a Row with field names."""

    @staticmethod
    def for_schema(schema: CsvSchema) -> CsvFormat[Row]:
        """Return the format that `schema` describes. Raise ValueError if it has no columns."""
        if not schema.columns:
            raise ValueError("the CsvSchema has no columns")
        types = {name: kind for name, kind in schema.columns.items() if kind is not str}
        options = {"header": False, **schema.options}
        surplus = options.pop("surplus_fields", None)
        columns = list(schema.columns)
        return CsvFormat(columns, types, as_row=True, surplus_fields=surplus is not None, **options)


class CsvWriterFactory(BulkWriterFactory):
    """Create writers of CSV files by a CsvSchema. Records are dicts, Rows, tuples, or objects with attributes.

    A record that begins with # is quoted if the schema has comments. `skip_first_data_row` only affects reading. Raise
    ValueError if the schema has no columns.
    """

    def __init__(self, schema: CsvSchema) -> None:
        if not schema.columns:
            raise ValueError("the CsvSchema has no columns")
        options, dialect = schema.options, schema.dialect
        self.dialect = dialect
        self.names = tuple(schema.columns)
        self.header = options.get("header", False)
        self.arrays = {
            position: kind for position, kind in enumerate(schema.columns.values()) if isinstance(kind, ArrayConverter)
        }
        self.encoder = Encoder.csv_encoder(
            delimiter=dialect.delimiter,
            quote_char=dialect.quote_char,
            escape_char=dialect.escape_char,
            null_value=options.get("null_value") or "",
        )
        self._null_value = options.get("null_value") or ""

    def takes_columns(self, columns: RecordColumns) -> bool:
        """Return whether the columns have the names of the schema, and are written as their records are."""
        return not self.arrays and self.form.takes_columns(columns)

    @property
    def form(self) -> CsvForm:
        """The form of lines of columns."""
        from penstock.common.columns.csv_lines import CsvForm

        dialect = self.dialect
        return CsvForm(
            self.names,
            dialect.delimiter,
            dialect.quote_char,
            dialect.escape_char,
            null_value=self._null_value,
            comments=dialect.comments,
        )

    def create(self, stream: IO[bytes]) -> CsvWriter:
        """Create a writer to an empty file."""
        return CsvWriter(stream, self)


class CsvWriter(BulkWriter):
    """Writes each chunk immediately."""

    def __init__(self, stream: IO[bytes], settings: CsvWriterFactory) -> None:
        self._stream = stream
        self._settings = settings
        if settings.header:
            stream.write(settings.encoder.encode(settings.names))

    def add_element(self, element: Any) -> None:
        self.add_elements([element])

    def add_elements(self, elements: Sequence[Any] | pyarrow.RecordBatch) -> None:
        if not isinstance(elements, Sequence):
            self._stream.write(self._settings.form.lines(elements).data)
            return
        encode = self._settings.encoder.encode
        lines = [encode(self._fields(element)) for element in elements]
        if self._settings.dialect.comments:
            lines = [self._not_a_comment(line) if line.startswith(b"#") else line for line in lines]
        self._stream.write(b"".join(lines))

    def flush(self) -> None:
        """Do nothing: no data is buffered here."""

    def finish(self) -> None:
        """Do nothing: CSV has no footer."""

    def _fields(self, record: Any) -> Sequence[Any]:
        fields = list(fields_of(record, self._settings.names, has_all=False))
        for position, array in self._settings.arrays.items():
            if fields[position] is not None:
                fields[position] = array.text(fields[position], csv_form)
        return fields

    def _not_a_comment(self, line: bytes) -> bytes:
        """Quote or escape a record whose first field begins with #, so that readers do not skip it."""
        dialect = self._settings.dialect
        if dialect.quote_char is not None:
            # A field that needs quotes already begins with one: this field therefore ends at the first delimiter.
            field, rest, quote = line[:-1], b"", dialect.quote_char.encode()
            if (end := field.find(dialect.delimiter.encode())) >= 0:
                field, rest = field[:end], field[end:]
            return quote + field + quote + rest + b"\n"
        if dialect.escape_char is not None:
            return dialect.escape_char.encode() + line
        raise ValueError(f"{line!r:.200} would be read as a comment: set a quote or escape character in the CsvSchema")
