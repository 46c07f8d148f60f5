"""Open files for reading: decompressed, in UTF-8 compatible bytes, with errors that name the file."""

from __future__ import annotations

import codecs
import lzma
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, cast

import pyarrow

from penstock.common.errors import SourceError
from penstock.common.files.open_inputs import reading_input
from penstock.connectors.files.formats.compression import codec_of
from penstock.connectors.files.storage import resolve

_DISCARD_BYTES = 1024 * 1024


class ByteStream(Protocol):
    """The input of the formats."""

    def read(self, nbytes: int, /) -> bytes:
        """Return at most `nbytes`; b"" only at the end of the file."""


_CHANGED = (
    "it was truncated or replaced after it was listed, or after the restored checkpoint. Files must not change "
    "while a job reads them"
)
_SHIFTING = ("iso2022", "hz", "utf-7")


def is_compressed(path: str) -> bool:
    """Return whether the name has the suffix of a compressed file, which can only be read from its beginning."""
    return codec_of(path) is not None


def has_plain_line_ends(charset: str) -> bool:
    """Return whether byte 10 always and only is a line end in this charset, and each line can be decoded alone.

    True for all but UTF-16, UTF-32 and EBCDIC, and charsets with shift sequences: in ISO-2022-KR the beginning of the
    file selects the character set.
    """
    return "\n".encode(charset) == b"\n" and not charset.startswith(_SHIFTING)


@contextmanager
def reading(
    path: str, offset: int = 0, charset: str = "utf-8", end: int | None = None, cr_ends: bool = False
) -> Iterator[ByteStream]:
    """Open a file for reading from `offset` on.

    A compressed file (.gz, .bz2, .zst, .lz4, .xz, .deflate, .snappy) is decompressed; a charset without plain line ends
    is transcoded to UTF-8. Offsets count the resulting bytes; in these two cases the bytes before an offset are read
    and dropped. Any failure while the file is open, such as a missing file or a damaged archive, is raised as
    SourceError with the file's name. `end`: the minimum length of the file if it is not compressed. `cr_ends`: read
    each CR as LF.
    """
    plain = has_plain_line_ends(charset)
    with reading_raw(path) as file:
        if plain and not is_compressed(path):
            if offset or end:
                _check_length(path, file.size(), max(offset, end or 0))
                file.seek(offset)
            yield _WithLineFeeds(file) if cr_ends else file
        else:
            codec = codec_of(path)
            stream = cast(ByteStream, file if codec is None else codec.opened(file))
            if not plain:
                stream = _Transcoded(stream, charset)
            _check_length(path, offset - _discard(stream, offset), offset)
            yield _WithLineFeeds(stream) if cr_ends else stream


@contextmanager
def reading_raw(path: str) -> Iterator[Any]:
    """Open the file unmodified, as a seekable pyarrow file. Raise the same errors as `reading`.

    If the process crashes meanwhile, as pyarrow does for some damaged ORC files, its report names the file.
    """
    try:
        file_system, inner = resolve(path)
        with reading_input(path), file_system.open_input_file(inner) as file:
            yield file
    except FileNotFoundError as error:
        raise SourceError(f"{path} was deleted after the job listed its input") from error
    except (OSError, EOFError, lzma.LZMAError, UnicodeError, pyarrow.ArrowException) as error:
        raise SourceError(f"cannot read {path}: {error}") from error


def line_number(path: str, offset: int, charset: str = "utf-8", cr_ends: bool = False) -> int:
    """Return the number (from 1) of the line that begins at byte `offset`.

    Reads the file up to there: for error messages only.
    """
    newlines = 0
    with reading(path, 0, charset, cr_ends=cr_ends) as stream:
        while offset > 0 and (data := stream.read(min(offset, _DISCARD_BYTES))):
            newlines += data.count(b"\n")
            offset -= len(data)
    return newlines + 1


def _discard(stream: ByteStream, count: int) -> int:
    """Read and drop `count` bytes. Return how many were missing."""
    while count > 0 and (data := stream.read(min(count, _DISCARD_BYTES))):
        count -= len(data)
    return count


def _check_length(path: str, size: int, offset: int) -> None:
    # Otherwise the file would seem to be read to its end.
    if size < offset:
        raise SourceError(f"{path} has {size:,} bytes, expected at least {offset:,}: {_CHANGED}")


def check_all_skipped(path: str, missing: int) -> None:
    """Raise SourceError if a file ended before all records of the restored position were skipped.

    A truncated file would otherwise seem to be read to its end.
    """
    if missing > 0:
        raise SourceError(f"{path} has {missing:,} records fewer than were read from it before: {_CHANGED}")


class _WithLineFeeds:
    """Read CR as LF: the bytes keep their offsets."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream

    def read(self, nbytes: int, /) -> bytes:
        return self._stream.read(nbytes).replace(b"\r", b"\n")


class _Transcoded:
    """Read text of any charset as UTF-8. `read` never exceeds its byte count, so that offsets can be reached."""

    def __init__(self, stream: ByteStream, charset: str) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(charset)()
        self._ready = b""
        self._ended = False

    def read(self, nbytes: int, /) -> bytes:
        while not self._ready and not self._ended:
            data = self._stream.read(nbytes)
            self._ended = not data
            self._ready = self._decoder.decode(data, final=self._ended).encode()
        out, self._ready = self._ready[:nbytes], self._ready[nbytes:]
        return out
