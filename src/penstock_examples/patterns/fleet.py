"""A fleet that reports its positions, and reports of real ships from a file of AIS data."""

from __future__ import annotations

import csv
import gzip
import math
import random
from datetime import UTC, datetime
from pathlib import Path

from penstock_examples.patterns.dark_ships import SILENCE, Position

MINUTE_MS = 60_000
START_MS = 1_767_225_600_000
"""The first of January 2026."""
SHIPS, MINUTES = 400, 180
DARK_SHIPS = 15


class Fleet:
    """Ships between New York and Boston. Each reports once a minute, at its own second; some stop for a while."""

    def __init__(self, ships: int = SHIPS, dark_ships: int = DARK_SHIPS) -> None:
        chance = random.Random(1)
        self._courses = [
            (chance.uniform(39, 42), chance.uniform(-73, -69), chance.uniform(0, math.tau), chance.randrange(MINUTE_MS))
            for _ in range(ships)
        ]
        least = SILENCE.to_millis() // MINUTE_MS + 1
        self.dark = {
            ship: range(start, start + chance.randint(least, 60))
            for ship in chance.sample(range(ships), dark_ships)
            for start in [chance.randint(10, 100)]
        }
        """The minutes in which these ships are silent."""

    def positions(self) -> list[Position]:
        """Return all reports by time. One in fifty is lost, which is shorter than a silence."""
        chance = random.Random(0)
        return sorted(
            (
                self._position(ship, minute)
                for minute in range(MINUTES)
                for ship in range(len(self._courses))
                if minute not in self.dark.get(ship, ()) and chance.random() > 0.02
            ),
            key=lambda one: one.time_ms,
        )

    def _position(self, ship: int, minute: int) -> Position:
        latitude, longitude, course, offset_ms = self._courses[ship]
        way = 0.003 * minute
        return Position(
            ship,
            START_MS + minute * MINUTE_MS + offset_ms,
            latitude + way * math.cos(course),
            longitude + way * math.sin(course),
        )


def read_positions(file: Path) -> list[Position]:
    """Return the reports in a CSV file with the columns MMSI, BaseDateTime (UTC), LAT and LON; `.gz`: compressed."""
    with gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else file.open(encoding="utf-8") as lines:
        return [
            Position(
                int(row["MMSI"]),
                int(datetime.fromisoformat(row["BaseDateTime"]).replace(tzinfo=UTC).timestamp()) * 1000,
                float(row["LAT"]),
                float(row["LON"]),
            )
            for row in csv.DictReader(lines)
        ]
