"""Where the sections of a state file are listed: a few in its handle, many at the end of the file itself.

So a handle has the same size however large its file is, and a manifest, which consists of handles, grows with the
number of files only.
"""

from __future__ import annotations

import zlib

import msgspec

from penstock.common.errors import DamagedCheckpointError
from penstock.common.errors.unreadable import UNREADABLE
from penstock.common.values.decoding import from_json
from penstock.engine.state.handles import KeyedFile, Section
from penstock.engine.state.snapshot.storage import ReadPart, StateWriter, read_section

_IN_HANDLE_MAX = 4


class Listed(msgspec.Struct, frozen=True):
    """Where the sections are: those of a handle, or its footer. `bytes` and `crc` are those of the whole file."""

    bytes: int
    crc: int
    sections: list[Section]
    footer: Section | None


def list_sections(writer: StateWriter, sections: list[Section], size: int, crc: int) -> Listed:
    """End a file of `size` bytes, whose CRC-32 is `crc`, with a list of its sections if there are many."""
    if len(sections) <= _IN_HANDLE_MAX:
        return Listed(size, crc, sections, None)
    data = msgspec.json.encode(sections)
    writer.write(data)
    footer = Section(0, size, len(data), zlib.crc32(data))
    return Listed(size + len(data), zlib.crc32(data, crc), [], footer)


def sections_of(read: ReadPart, file: KeyedFile) -> list[Section]:
    """The sections of a file. Raises CheckpointError if they can't be read."""
    if file.footer is None:
        return file.sections
    try:
        return from_json(read_section(read, file.path, file.footer), list[Section])
    except UNREADABLE as error:
        raise DamagedCheckpointError(f"the snapshot file {file.path} is damaged: its footer is no list") from error
