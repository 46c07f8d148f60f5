"""Lines as batches of columns: blocks are read as columns where that is exact, and otherwise by the parser of rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import pyarrow

from penstock.common.columns.named_failures import named_batch
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.columns.sided_batch import SidedBatch, joined
from penstock.common.errors import SourceError
from penstock.common.functions.user_calls import NOT_OF_A_VALUE, RAISED
from penstock.connectors.files.formats.format import UnreadableLine
from penstock.connectors.files.formats.line_format import BadLineError, LineFormat, LineParser
from penstock.connectors.files.split import FoundFile
from penstock.connectors.formats.byte_order_mark import UTF8_BOM

_PIECE_BYTES = 32 * 1024
"""The size of the pieces of an unusual block, so that the parser of rows gets few of its lines."""
_BLOCKS = 4
"""How many times larger blocks are than those of rows: a batch costs much by itself."""


class OtherLine(NamedTuple):
    """A line that only the parser of rows can tell: its place among the records, its first byte in the block."""

    place: int
    offset: int
    line: bytes


class UsualRecords(NamedTuple):
    """The batch of a block, the length of an incomplete record at its end, and the lines that are not in the batch."""

    batch: pyarrow.RecordBatch
    unfinished: int
    others: Sequence[OtherLine] = ()


def other_lines(lines: list[bytes], places: Sequence[int], empty: tuple[bytes, ...] = (b"",)) -> list[OtherLine]:
    """Return some lines of a block by their places among those that are not empty."""
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    filled = [index for index, line in enumerate(lines) if line not in empty]
    return [OtherLine(place, starts[filled[place]], lines[filled[place]]) for place in places]


class LineColumns(LineFormat[Any]):
    """Read the records of a format as batches. Positions are those of the format, so rows may continue from them."""

    def __init__(self, records: LineFormat[Any], columns: RecordColumns) -> None:
        super().__init__(records._file_charset, records._on_error)
        self._records = records
        self._columns = columns

    @property
    def block_bytes(self) -> int:
        """Return the size of larger blocks than those of rows."""
        return _BLOCKS * super().block_bytes

    def is_splittable(self, path: str) -> bool:
        """Return what the format returns."""
        return self._records.is_splittable(path)

    def check(self, file: FoundFile) -> None:
        """Check what the format checks."""
        self._records.check(file)

    def _parse(
        self, parser: LineParser, path: str, offset: int, block: bytes, last: bool, skipped: Callable[[int], None]
    ) -> tuple[Any, int]:
        assert isinstance(parser, ColumnsParser)
        if offset == 0 and self.charset == "utf-8" and block.startswith(UTF8_BOM):
            offset, block = len(UTF8_BOM), block[len(UTF8_BOM) :]
        whole = self._usual(parser=parser, path=path, offset=offset, block=block, last=last, skipped=skipped)
        if whole is not None:
            return whole
        # Most pieces of an unusual block are usual.
        parts: list[Any] = []
        size, unfinished = _PIECE_BYTES, 0
        while block:
            piece = block if size >= len(block) else block[: block.find(b"\n", size) + 1] or block
            is_last = last and len(piece) == len(block)
            found = self._usual(parser=parser, path=path, offset=offset, block=piece, last=is_last, skipped=skipped)
            if found is None:
                records, unfinished = self._records._parse(
                    parser=parser.records, path=path, offset=offset, block=piece, last=is_last, skipped=skipped
                )
                try:
                    found = parser.batch_of(records), unfinished
                except NOT_OF_A_VALUE:
                    raise
                except RAISED as error:
                    self._refuse_misfit(parser, path, offset, piece)
                    raise SourceError(f"{path}: cannot convert lines to columns: {error}") from error
            part, unfinished = found
            parts.append(part)
            if len(piece) == len(block):
                break
            taken = len(piece) - unfinished
            # A record may be longer than a piece.
            size = _PIECE_BYTES if taken else 2 * len(piece)
            offset, block = offset + taken, block[taken:]
        return joined(parts) if parts else self._columns.batch_of([]), unfinished

    def _refuse_misfit(self, parser: ColumnsParser, path: str, offset: int, block: bytes) -> None:
        """Raise SourceError, which names the line, for the first record of a block that does not fit the columns."""
        start = end = 0
        while end < len(block):
            end = block.find(b"\n", end) + 1 or len(block)
            try:
                records, unfinished = parser.records.parse(block[start:end], end == len(block))
            except BadLineError:
                start = end
                continue
            if unfinished:
                # The record has more lines.
                continue
            try:
                named_batch(self._columns, records, lambda _, reason: ValueError(reason))
            except ValueError as error:
                raise SourceError(
                    self._records._complaint(path, offset + start, block[start:end], str(error))
                ) from error.__cause__
            start = end

    def _usual(
        self,
        parser: ColumnsParser,
        path: str,
        offset: int,
        block: bytes,
        last: bool,
        skipped: Callable[[int], None],
    ) -> tuple[pyarrow.RecordBatch | SidedBatch, int] | None:
        """Return the records of a block by its batch, and by rows only lines that cannot be read; None otherwise."""
        found = parser.parse_usual(block, last)
        if found is None or not found.others:
            return None if found is None else (found.batch, found.unfinished)
        if self._on_error == "fail":
            # The parser of rows chooses the line that the error names.
            return None
        counts: list[int] = []
        positions: list[int] = []
        sides: list[Any] = []
        for number, other in enumerate(found.others):
            records, _ = self._records._parse(
                parser=parser.records,
                path=path,
                offset=offset + other.offset,
                block=other.line,
                last=True,
                skipped=counts.append,
            )
            if not all(map(is_for_side_output, records)):
                return None
            # A line that is skipped has no place.
            positions += [other.place - number + len(sides)] * len(records)
            sides += records
        for count in counts:
            skipped(count)
        return SidedBatch(found.batch, positions, sides) if sides else found.batch, found.unfinished


class ColumnsParser(LineParser):
    """Parse blocks to batches. `records`: the parser of rows, which decides whenever a block is unusual."""

    def __init__(self, path: str, records: LineParser, columns: RecordColumns) -> None:
        self.body_start = records.body_start
        self.columns = columns
        self.records = records
        self._path = path

    @abstractmethod
    def parse_usual(self, block: bytes, last: bool) -> UsualRecords | None:
        """Return the records of a block, maybe without some of its lines; None if only the parser of rows can."""

    def parse(self, block: bytes, last: bool) -> tuple[Any, int]:
        found = self.parse_usual(block, last)
        if found is not None and not found.others:
            return found.batch, found.unfinished
        records, unfinished = self.records.parse(block, last)
        return self.batch_of(records), unfinished

    def batch_of(self, records: list[Any]) -> pyarrow.RecordBatch | SidedBatch:
        """Return records as columns. Raise any error if one does not fit."""
        positions = [at for at, record in enumerate(records) if is_for_side_output(record)]
        if not positions:
            return self.columns.batch_of(records)
        sides = set(positions)
        rows = [record for at, record in enumerate(records) if at not in sides]
        return SidedBatch(self.columns.batch_of(rows), positions, [records[at] for at in positions])


def is_for_side_output(record: Any) -> bool:
    """Return whether a record is a pair of an OutputTag and a line."""
    return type(record) is tuple and len(record) == 2 and isinstance(record[1], UnreadableLine)
