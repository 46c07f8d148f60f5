"""Space on disk for input that tasks set aside during alignment, or sort in batched mode: an unnamed temporary file."""

from __future__ import annotations

import tempfile


class TemporarySpill:
    """The SpillFile of a task. Its space is freed when it is closed, or when the process ends in any way."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="penstock-spill-")  # noqa: SIM115 - closed by `close`

    def write(self, data: bytes) -> int:
        """Append `data`. Returns its offset in bytes."""
        # A read may have moved the position.
        offset = self._file.seek(0, 2)
        self._file.write(data)
        return offset

    def read(self, offset: int, length: int) -> bytes:
        """Return the `length` bytes at `offset`."""
        self._file.seek(offset)
        return self._file.read(length)

    def close(self) -> None:
        """Free the space."""
        self._file.close()
