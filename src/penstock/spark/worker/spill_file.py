"""Scratch space for what tasks set aside: a temporary file without a name."""

from __future__ import annotations

import tempfile


class TemporarySpill:
    """The SpillFile of a task. It goes with the process."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="penstock-spill-")  # noqa: SIM115 - closed by `close`

    def write(self, data: bytes) -> int:
        """Append; returns where it begins."""
        offset = self._file.seek(0, 2)
        self._file.write(data)
        return offset

    def read(self, offset: int, length: int) -> bytes:
        """What was written there."""
        self._file.seek(offset)
        return self._file.read(length)

    def close(self) -> None:
        """Remove it."""
        self._file.close()
