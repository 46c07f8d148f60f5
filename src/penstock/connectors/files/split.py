"""File splits, and the division of files into them."""

from __future__ import annotations

from penstock.common.stored import stored_as
from penstock.connectors.files.located import Located

DEFAULT_SPLIT_BYTES = 64 * 1024 * 1024


class FoundFile(Located, frozen=True, gc=False):
    """An input file: its path as in the program (a URL keeps its scheme), and its size in bytes."""

    path: str
    size: int


@stored_as("file-split")
class FileSplit(Located, frozen=True, gc=False):
    """Bytes `start` … `end - 1` of a file (to its end if `end` is None), and the read position.

    `offset`: byte at which reading continues, initially `start`; counted after decompression in compressed files.
    `skip`: number of records to skip from there.
    """

    path: str
    start: int
    end: int | None
    offset: int
    skip: int = 0

    @property
    def split_id(self) -> str:
        """Return path and byte range."""
        return f"{self.path}:{self.start}-{'' if self.end is None else self.end}"

    def at(self, offset: int) -> FileSplit:
        """Return this split positioned at byte `offset`."""
        return FileSplit(self.path, self.start, self.end, offset)

    def skipping(self, records: int) -> FileSplit:
        """Return this split with `records` more records to skip."""
        return FileSplit(path=self.path, start=self.start, end=self.end, offset=self.offset, skip=self.skip + records)


def whole(file: FoundFile) -> FileSplit:
    """Return the whole file as one split."""
    return FileSplit(file.path, 0, None, 0)


def cut(file: FoundFile, split_bytes: int) -> list[FileSplit]:
    """Divide a file into splits of `split_bytes`. The last one may be half as long again, to avoid a tiny one."""
    splits = []
    start = 0
    while file.size - start > split_bytes * 3 // 2:
        splits.append(FileSplit(file.path, start, start + split_bytes, start))
        start += split_bytes
    splits.append(FileSplit(file.path, start, file.size, start))
    return splits
