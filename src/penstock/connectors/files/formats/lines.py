"""Assign lines to byte ranges, so that any division of a file reads each line exactly once.

A line belongs to the range in which it begins. Formally: with f(0) = 0 and f(x) = the byte after the first newline at
or after x - 1 (the end of the file if there is none), the range from a to b owns exactly the bytes f(a) … f(b) - 1.
Adjacent ranges meet at the same f(b), so every line is read once, also one that is longer than a range. A line ends
with LF; a CR before it belongs to the line end. f(x) = x where a line begins, so a position between two lines is a
range that starts there.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.connectors.files.formats.streams import ByteStream

BLOCK_BYTES = 128 * 1024
_PAST_END_BYTES = 4096


class LineBlocks:
    """Iterate over whole lines, block by block, as (offset of the first byte, bytes).

    Every block ends with a newline, except the last of a file without a final newline. A block is about `block_bytes`
    long, or as long as a single line that exceeds this.
    """

    def __init__(self, stream: ByteStream, start: int, end: int | None, block_bytes: int = BLOCK_BYTES) -> None:
        """`stream` is positioned at byte `max(0, start - 1)`: the byte before `start` shows if a line begins there.

        `end` None: read to the end of the file.
        """
        self._stream = stream
        self._end = end
        self._block_bytes = block_bytes
        self._read_to = max(0, start - 1)
        self._block_start = self._read_to
        self._buffered: list[bytes] = []
        self._unread = b""
        self._ended = end is not None and start >= end
        if start > 0 and not self._ended:
            self._skip_to_first_line()

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        return self

    def __next__(self) -> tuple[int, bytes]:
        while not self._ended:
            block = self._complete(self._next_bytes())
            if block:
                offset = self._block_start
                self._block_start += len(block)
                return offset, block
        raise StopIteration

    @property
    def is_last(self) -> bool:
        """Return whether the current block is known to be the last one."""
        return self._ended

    def give_back(self, tail: bytes) -> None:
        """Deliver the last bytes of the current block again, followed by more data.

        Not allowed for the last block.
        """
        assert not self._ended, "nothing comes after the last block"
        self._block_start -= len(tail)
        self._buffered.insert(0, tail)

    def _next_bytes(self) -> bytes:
        if self._unread:
            data, self._unread = self._unread, b""
            return data
        size = self._block_bytes
        if self._end is not None:
            # Past the end of the range only the rest of one line is needed: do not read a whole block for it.
            size = min(size, max(0, self._end - self._read_to) + _PAST_END_BYTES)
        return self._stream.read(size)

    def _complete(self, data: bytes) -> bytes:
        """Return the lines that `data` completes, including buffered bytes; b"" if it completes none."""
        if not data:
            self._ended = True
            return self._join(b"")
        data_start = self._read_to
        self._read_to += len(data)
        if self._end is not None and self._read_to >= self._end:
            # The range ends after the first newline at or after byte `end - 1`: that is f(end) in the docstring above.
            newline = data.find(b"\n", max(0, self._end - 1 - data_start))
            if newline >= 0:
                self._ended = True
                return self._join(data[: newline + 1])
        cut = data.rfind(b"\n") + 1
        block = self._join(data[:cut]) if cut else b""
        if cut < len(data):
            self._buffered.append(data[cut:])
        return block

    def _join(self, last: bytes) -> bytes:
        if not self._buffered:
            return last
        self._buffered.append(last)
        block = b"".join(self._buffered)
        self._buffered.clear()
        return block

    def _skip_to_first_line(self) -> None:
        """Skip to the start of the first line of the range."""
        while data := self._next_bytes():
            newline = data.find(b"\n")
            if newline >= 0:
                self._read_to = self._block_start = self._read_to + newline + 1
                self._unread = data[newline + 1 :]
                self._ended = self._end is not None and self._block_start >= self._end
                return
            self._read_to += len(data)
        self._ended = True
