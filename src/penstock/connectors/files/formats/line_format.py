"""Base of the text, JSON lines and CSV formats: records are lines, positions are byte offsets."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from itertools import chain
from typing import Any

from penstock.common.errors import SourceError
from penstock.common.types.type_variables import Record
from penstock.connectors.base.split_reader import Chunk
from penstock.connectors.files.formats.compression import suffix_hint
from penstock.connectors.files.formats.format import (
    OnUnreadable,
    RecordFormat,
    UnreadableLine,
    on_error_policy,
    python_charset,
)
from penstock.connectors.files.formats.lines import BLOCK_BYTES, LineBlocks
from penstock.connectors.files.formats.streams import (
    check_all_skipped,
    has_plain_line_ends,
    is_compressed,
    line_number,
    reading,
)
from penstock.connectors.files.split import FileSplit
from penstock.connectors.formats.byte_order_mark import UTF8_BOM

_SHOWN_CHARACTERS = 120
AFTER_BAD_RECORD_BYTES = 512
"""How many bytes are parsed after a bad record; then twice as many each time, until the next bad record."""
_HEAD_BYTES = 4096
"""Almost every file has a LF in this many bytes."""


class BadLineError(Exception):
    """Raised by a parser: the record that begins in line `index` (from 0) of the block is invalid, for this reason.

    `lines`: the number of lines of the record. The lines after it are parsed again.
    """

    def __init__(self, index: int, reason: str, lines: int = 1) -> None:
        super().__init__(reason)
        self.index = index
        self.reason = reason
        self.lines = lines


class LineParser(ABC):
    """Parse blocks of lines into records. Created per split, so it may contain settings from the file's header."""

    body_start = 0
    """Offset of the first byte after the header."""

    @abstractmethod
    def parse(self, block: bytes, last: bool) -> tuple[Any, int]:
        """Return the records of a block of whole lines, and the length in bytes of an incomplete record at its end.

        The records are a list, or a pyarrow.RecordBatch of columns. Those bytes are delivered again with more data
        after them, unless the block is the `last`. Raise BadLineError.
        """


class LineFormat(RecordFormat[Record]):
    """Read a split block by block: a chunk contains the records of one block of about 128 KiB.

    Lines end with LF or CR LF. They end with CR if the first 128 KiB of the file (or the whole file) contain no LF.
    """

    def __init__(self, charset: str = "UTF-8", on_error: OnUnreadable = "fail") -> None:
        self._file_charset = python_charset(charset)
        self._on_error = on_error_policy(on_error)
        self._is_plain = has_plain_line_ends(self._file_charset)
        # Other charsets are transcoded to UTF-8 while reading; see streams.reading.
        self.charset = self._file_charset if self._is_plain else "utf-8"

    @property
    def block_bytes(self) -> int:
        """Return the approximate size of the blocks that are parsed."""
        return BLOCK_BYTES

    def joined(self, parts: list[Any]) -> Any:
        """Return the records of the parts of a block, in order."""
        return list(chain.from_iterable(parts))

    def emitted(self, line: UnreadableLine) -> Any:
        """Return the part of a block that has this line in the place of a record."""
        return [line] if self._on_error == "emit" else [(self._on_error, line)]

    @abstractmethod
    def parser(self, path: str, cr_ends: bool) -> LineParser:
        """Return a parser for one file. `cr_ends`: its lines end with CR."""

    def is_splittable(self, path: str) -> bool:
        """Return True for uncompressed files in a charset whose line ends can be found from any byte."""
        return self._is_plain and not is_compressed(path)

    def ends_with_cr(self, path: str) -> bool:
        """Return whether lines of a file end with CR, as on old Macs and in exports of some programs."""
        has_cr, seen = False, 0
        with reading(path, 0, self._file_charset) as stream:
            while seen < BLOCK_BYTES and (data := stream.read(_HEAD_BYTES)):
                if b"\n" in data:
                    return False
                has_cr = has_cr or b"\r" in data
                seen += len(data)
            # The last CR may be half of a CR LF.
            return has_cr and not (data.endswith(b"\r") and stream.read(1) == b"\n")

    def lines(self, path: str, cr_ends: bool) -> Generator[bytes]:
        """Yield the lines of a file from its beginning, with their ends."""
        with reading(path, 0, self._file_charset, cr_ends=cr_ends) as stream:
            for _, block in LineBlocks(stream, 0, None):
                yield from io.BytesIO(block)

    def read(self, split: FileSplit, skipped: Callable[[int], None]) -> Iterator[Chunk]:
        """See `FileFormat.read`.

        A position is the offset of a block's first byte, plus the number of records to skip.
        """
        cr_ends = self.ends_with_cr(split.path)
        parser = self.parser(split.path, cr_ends)
        start = max(split.offset, parser.body_start)
        to_skip = split.skip
        with reading(
            path=split.path, offset=max(0, start - 1), charset=self._file_charset, end=split.end, cr_ends=cr_ends
        ) as stream:
            blocks = LineBlocks(stream, start, split.end, self.block_bytes)
            for offset, block in blocks:
                values, unfinished = self._parse(
                    parser=parser, path=split.path, offset=offset, block=block, last=blocks.is_last, skipped=skipped
                )
                if unfinished:
                    blocks.give_back(block[-unfinished:])
                position = split.at(offset + len(block) - unfinished)
                if to_skip:
                    to_skip, values = max(0, to_skip - len(values)), values[to_skip:]
                    position = position.skipping(to_skip)
                yield Chunk(values, None if blocks.is_last else position)
        check_all_skipped(split.path, to_skip)

    def _parse(
        self, parser: LineParser, path: str, offset: int, block: bytes, last: bool, skipped: Callable[[int], None]
    ) -> tuple[Any, int]:
        if offset == 0 and self.charset == "utf-8" and block.startswith(UTF8_BOM):
            offset, block = len(UTF8_BOM), block[len(UTF8_BOM) :]
        parts: list[Any] = []
        unfinished = 0
        size = len(block)
        while block:
            # Parse few bytes after a bad record: another one may follow, and each one causes a second parse.
            piece = block if size >= len(block) else block[: block.find(b"\n", size) + 1] or block
            try:
                more, unfinished = parser.parse(piece, last and len(piece) == len(block))
            except BadLineError as bad:
                # Drop the bad record and parse the rest again: parsers work on whole blocks, and cannot resume after a
                # line.
                lines = piece.split(b"\n", bad.index + bad.lines)
                start = sum(map(len, lines[: bad.index])) + bad.index
                if self._on_error == "fail":
                    raise SourceError(self._complaint(path, offset + start, lines[bad.index], bad.reason)) from bad
                skipped(1)
                if start:
                    # There may be other bad records before it: a parser converts whole columns.
                    before, _ = self._parse(
                        parser=parser, path=path, offset=offset, block=piece[:start], last=True, skipped=skipped
                    )
                    parts.append(before)
                if self._on_error != "skip":
                    raw = b"\n".join(lines[bad.index : bad.index + bad.lines])
                    parts.append(self.emitted(UnreadableLine(path, offset + start, raw, bad.reason)))
                after = start + sum(len(line) + 1 for line in lines[bad.index : bad.index + bad.lines])
                offset, block = offset + after, block[after:]
                size = AFTER_BAD_RECORD_BYTES
                unfinished = 0
                continue
            parts.append(more)
            if len(piece) == len(block):
                break
            taken = len(piece) - unfinished
            offset, block = offset + taken, block[taken:]
            size = 2 * len(piece)
        return parts[0] if len(parts) == 1 else self.joined(parts), unfinished

    def _complaint(self, path: str, offset: int, line: bytes, reason: str) -> str:
        text = line.decode(self.charset, "backslashreplace").rstrip("\r\n")
        shown = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + " …"
        number = line_number(path, offset, self._file_charset, self.ends_with_cr(path))
        hint = suffix_hint(line) if offset == 0 else ""
        return f"{path}, line {number} (byte {offset}): {reason}{hint}\n  {shown}"


def text_lines(block: bytes, charset: str) -> list[str]:
    """Return the lines of a block as text, without line ends. Raise BadLineError for invalid bytes."""
    try:
        text = block.decode(charset)
    except UnicodeDecodeError:
        for index, line in enumerate(block.split(b"\n")):
            try:
                line.decode(charset)
            except UnicodeDecodeError as error:
                raise BadLineError(index, f"this is not {charset} text: {error.reason}") from error
        raise
    lines = text.replace("\r\n", "\n").split("\n") if "\r" in text else text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines
