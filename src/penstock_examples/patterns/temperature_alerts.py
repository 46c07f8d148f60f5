"""Temperatures: two warnings of a rack in a row, the second one higher, are an alert. One pattern behind another."""

from __future__ import annotations

from typing import NamedTuple

from penstock.cep import CEP, AfterMatchSkipStrategy, Context, Pattern, field
from penstock.common import Duration
from penstock.datastream import DataStream

LIMIT = 100.0


class Temperature(NamedTuple):
    """A measurement."""

    rack: int
    degrees: float


class Warning(NamedTuple):
    """Two high temperatures in a row."""

    rack: int
    mean: float


def is_higher(warning: Warning, ctx: Context) -> bool:
    """Return whether a warning has a higher mean than the one before."""
    return warning.mean > float(ctx.get_events_for_pattern("first")[0].mean)


def warnings(temperatures: DataStream[Temperature]) -> DataStream[Warning]:
    """Return a warning for each two high temperatures within ten seconds."""
    high = field("degrees") >= LIMIT
    first: Pattern[Temperature, Temperature] = Pattern.begin("first", AfterMatchSkipStrategy.skip_past_last_event())
    twice = first.where(high).next("second").where(high).within(Duration.of_seconds(10))
    return CEP.pattern(temperatures.key_by("rack"), twice).select(
        lambda match: Warning(match["first"][0].rack, (match["first"][0].degrees + match["second"][0].degrees) / 2)
    )


def alerts(found: DataStream[Warning]) -> DataStream[int]:
    """Return the rack of each two rising warnings within twenty seconds."""
    first: Pattern[Warning, Warning] = Pattern.begin("first")
    rising = first.next("second").where(is_higher).within(Duration.of_seconds(20))
    return CEP.pattern(found.key_by("rack"), rising).select(lambda match: match["first"][0].rack)
