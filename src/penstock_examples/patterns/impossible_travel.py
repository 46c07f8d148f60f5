"""Impossible travel: two logons of a user within ten minutes, more than 100 km apart."""

from __future__ import annotations

import math
from typing import NamedTuple

from penstock.cep import CEP, Context, Pattern
from penstock.common import Duration
from penstock.datastream import DataStream

EARTH_RADIUS_KM = 6_371.0
FAR_KM = 100.0


class Logon(NamedTuple):
    """A logon, and where it came from (degrees)."""

    user: str
    latitude: float
    longitude: float


def distance_km(one: Logon, other: Logon) -> float:
    """Return the length of the great circle between two logons."""
    a, b = math.radians(one.latitude), math.radians(other.latitude)
    across = math.sin((b - a) / 2) ** 2
    along = math.sin(math.radians(other.longitude - one.longitude) / 2) ** 2
    return 2 * EARTH_RADIUS_KM * math.asin(math.sqrt(across + math.cos(a) * math.cos(b) * along))


def is_far(logon: Logon, ctx: Context) -> bool:
    """Return whether a logon is far from the one that the match began with."""
    return distance_km(ctx.get_events_for_pattern("here")[0], logon) > FAR_KM


def travels(logons: DataStream[Logon]) -> DataStream[tuple[str, int]]:
    """Return user and distance (km) of each pair of logons."""
    here: Pattern[Logon, Logon] = Pattern.begin("here")
    apart = here.followed_by("there").where(is_far).within(Duration.of_minutes(10))
    return CEP.pattern(logons.key_by("user"), apart).select(
        lambda match: (match["here"][0].user, round(distance_km(match["here"][0], match["there"][0])))
    )
