"""Late departures: three of an aircraft in a row, each with a longer delay than the one before, within a day."""

from __future__ import annotations

from typing import NamedTuple

from penstock.cep import CEP, AfterMatchSkipStrategy, Context, Pattern, field
from penstock.common import Duration
from penstock.datastream import DataStream


class Departure(NamedTuple):
    """A departure and its delay (minutes)."""

    tail: str
    delay: float


def is_later(departure: Departure, ctx: Context) -> bool:
    """Return whether a departure has a longer delay than all before it."""
    before = [*ctx.get_events_for_pattern("first"), *ctx.get_events_for_pattern("later")]
    return departure.delay > float(before[-1].delay)


def worse_each_time(departures: DataStream[Departure]) -> DataStream[tuple[str, list[float]]]:
    """Return aircraft and delays."""
    first: Pattern[Departure, Departure] = Pattern.begin("first", AfterMatchSkipStrategy.skip_past_last_event())
    late = first.where(field("delay") > 0)
    pattern = late.next("later").where(is_later).times(2).consecutive().within(Duration.of_hours(24))
    return CEP.pattern(departures.key_by("tail"), pattern).select(
        lambda match: (match["first"][0].tail, [one.delay for one in (*match["first"], *match["later"])])
    )
