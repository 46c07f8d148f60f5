"""Ships that go dark: a report of a position that no other one follows for ten minutes.

The stream has no end for a ship that is silent: time completes the match. `svg` draws where ships fell silent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from penstock.cep import CEP, Pattern
from penstock.common import Duration
from penstock.datastream import DataStream

SILENCE = Duration.of_minutes(10)
WIDTH, HEIGHT = 800, 400


class Position(NamedTuple):
    """The position of a ship (degrees)."""

    ship: int
    latitude: float
    longitude: float


def gone_dark(positions: DataStream[Position]) -> DataStream[Position]:
    """Return the last position before each silence."""
    last: Pattern[Position, Position] = Pattern.begin("last")
    silent = last.not_followed_by("another").within(SILENCE)
    return CEP.pattern(positions.key_by("ship"), silent).select(lambda match: match["last"][0])


def svg(positions: Iterable[Position]) -> str:
    """Return a map of the world as SVG, with a dot for each position."""
    dots = [
        f'<circle cx="{(one.longitude + 180) / 360 * WIDTH:.1f}" cy="{(90 - one.latitude) / 180 * HEIGHT:.1f}" r="2"/>'
        for one in positions
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#e8f1f5"/>',
            *dots,
            "</svg>",
        ]
    )
