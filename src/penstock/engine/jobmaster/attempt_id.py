"""The name of an attempt."""

from __future__ import annotations

from typing import NamedTuple


class AttemptId(NamedTuple):
    """Attempt `number`, counted from 0, of the pipelined region `region`."""

    region: int
    number: int
