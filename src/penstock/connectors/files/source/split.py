"""A part of a file, and how files are cut."""

from __future__ import annotations

import msgspec

from penstock.common.stored import stored_as

DEFAULT_SPLIT_BYTES = 64 * 1024 * 1024


class FoundFile(msgspec.Struct, frozen=True, gc=False):
    """A file to be read: its path as the program would write it (a URL keeps its scheme), its size in bytes."""

    path: str
    size: int


@stored_as("file-split")
class FileSplit(msgspec.Struct, frozen=True, gc=False):
    """Bytes `start` … `end - 1` of a file (to its end if `end` is None), and how far they have been read.

    `offset`: byte at which reading goes on, `start` at first; of the decompressed bytes if the file is compressed.
    `skip`: records to pass over from there.
    """

    path: str
    start: int
    end: int | None
    offset: int
    skip: int = 0

    @property
    def split_id(self) -> str:
        """Path and byte range."""
        return f"{self.path}:{self.start}-{'' if self.end is None else self.end}"

    def at(self, offset: int) -> FileSplit:
        """This split, to be read on at byte `offset`."""
        return FileSplit(self.path, self.start, self.end, offset)

    def skipping(self, records: int) -> FileSplit:
        """This split, `records` further than now."""
        return FileSplit(self.path, self.start, self.end, self.offset, self.skip + records)


def whole(file: FoundFile) -> FileSplit:
    """All of a file as one split."""
    return FileSplit(file.path, 0, None, 0)


def cut(file: FoundFile, split_bytes: int) -> list[FileSplit]:
    """A file in pieces of `split_bytes`; the last one may be up to half as long again, rather than a tiny rest."""
    splits = []
    start = 0
    while file.size - start > split_bytes * 3 // 2:
        splits.append(FileSplit(file.path, start, start + split_bytes, start))
        start += split_bytes
    splits.append(FileSplit(file.path, start, file.size, start))
    return splits
