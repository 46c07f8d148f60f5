"""Unique ids of jobs."""

from __future__ import annotations

import re
import uuid

_HEX = re.compile(r"[0-9a-f]{32}")


class JobID:
    """Identifies one submission of a program: 32 hexadecimal digits. Raises ValueError for anything else."""

    __slots__ = ("_hex",)

    def __init__(self, hex_digits: str) -> None:
        if not _HEX.fullmatch(hex_digits):
            raise ValueError(f"a job id must have 32 hexadecimal digits in lower case, got {hex_digits!r}")
        self._hex = hex_digits

    @staticmethod
    def generate() -> JobID:
        """Return a new random id."""
        return JobID(uuid.uuid4().hex)

    def __str__(self) -> str:
        return self._hex

    def __repr__(self) -> str:
        return f"JobID({self._hex!r})"

    def __eq__(self, other: object) -> bool:
        return self._hex == other._hex if isinstance(other, JobID) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._hex)
