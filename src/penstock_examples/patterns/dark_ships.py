"""Ships that go dark: a report of a position that no other one follows for ten minutes.

The stream has no end for a ship that is silent: time completes the match.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.cep import CEP, Pattern
from penstock.common import Duration
from penstock.datastream import DataStream

SILENCE = Duration.of_minutes(10)


class Position(NamedTuple):
    """The position of a ship (degrees) at a time (ms)."""

    ship: int
    time_ms: int
    latitude: float
    longitude: float


def gone_dark(positions: DataStream[Position]) -> DataStream[Position]:
    """Return the last position before each silence."""
    last: Pattern[Position, Position] = Pattern.begin("last")
    silent = last.not_followed_by("another").within(SILENCE)
    return CEP.pattern(positions.key_by("ship"), silent).select(lambda match: match["last"][0])
