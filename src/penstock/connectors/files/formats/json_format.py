"""JSON lines files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock.common.errors import SourceError
from penstock.common.functions.user_calls import NOT_OF_A_VALUE, RAISED, results_of
from penstock.common.types.type_variables import Record
from penstock.common.values.decoding import DECODING_ERRORS, json_decoder
from penstock.connectors.files.formats.format import OnUnreadable
from penstock.connectors.files.formats.line_format import BadLineError, LineFormat, LineParser
from penstock.connectors.files.formats.streams import reading
from penstock.connectors.files.split import FoundFile
from penstock.connectors.formats.json_decimals import decoder_of

if TYPE_CHECKING:
    from penstock.common.columns.record_columns import RecordColumns
    from penstock.connectors.files.formats.line_columns import LineColumns


class JsonLinesFormat(LineFormat[Record]):
    """Read one JSON value per line, in UTF-8; skip blank lines.

    `value_type` Any: plain dicts, lists, str, int, float, bool and None. A dataclass, TypedDict or msgspec.Struct: each
    line is decoded to it and validated. JSON is RFC 8259: NaN and Infinity are invalid. A line that is not JSON, or not
    of that type, is a SourceError that names file, line and byte; with `on_error="skip"` it is skipped and counted,
    with "emit" it is emitted as an UnreadableLine and counted, and with an OutputTag the same, to that side output of
    the source's stream.
    """

    def __init__(self, value_type: Any = Any, *, on_error: OnUnreadable = "fail") -> None:
        super().__init__("UTF-8", on_error)
        self._value_type = value_type
        json_decoder(value_type)  # raises TypeError for an unsupported type

    def on_columns(self, columns: RecordColumns) -> LineColumns | None:
        """Return a format of batches, unless UnreadableLines are among the records: they have no columns."""
        from penstock.connectors.files.formats.json_columns import JsonColumns

        return None if self._on_error == "emit" else JsonColumns(self, columns, self._value_type)

    def parser(self, path: str, cr_ends: bool) -> LineParser:
        """Return a parser with its own decoder."""
        return _JsonParser(self._value_type)

    def check(self, file: FoundFile) -> None:
        """Reject an array over several lines: it is valid JSON, but not JSON lines."""
        with reading(file.path) as stream:
            if stream.read(64).split(b"\n")[0].strip() == b"[":
                raise SourceError(f"{file.path}: expected one JSON value per line, got a JSON array over several lines")


class _JsonParser(LineParser):
    def __init__(self, value_type: Any) -> None:
        self._decode = decoder_of(value_type)

    def parse(self, block: bytes, last: bool) -> tuple[list[Any], int]:
        lines = block.split(b"\n")
        try:
            # Decoder.decode_lines is not faster, and accepts two values on one line, or one value over two lines.
            filled = list(filter(None, lines))
            return results_of(self._decode, len(filled), filled), 0
        except NOT_OF_A_VALUE:
            raise
        except RAISED:
            return self._one_by_one(lines), 0

    def _one_by_one(self, lines: list[bytes]) -> list[Any]:
        values = []
        for index, line in enumerate(lines):
            if not line or line.isspace():
                continue
            try:
                values.append(self._decode(line))
            except msgspec.ValidationError as error:
                raise BadLineError(index, f"this JSON does not have the expected type: {error}") from error
            except DECODING_ERRORS as error:
                raise BadLineError(index, f"this is not JSON: {error}") from error
            except NOT_OF_A_VALUE:
                raise
            except RAISED as error:
                raise BadLineError(index, f"cannot read this: {type(error).__name__}: {error}") from error
        return values
