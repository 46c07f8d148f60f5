"""Long rides: taxi rides that have not ended two hours after they began. The timeouts are the result."""

from __future__ import annotations

from typing import NamedTuple

from penstock.cep import CEP, Pattern, field
from penstock.common import Duration, Types
from penstock.datastream import DataStream, OutputTag

LONG: OutputTag[int] = OutputTag("long rides", Types.LONG())


class Ride(NamedTuple):
    """The start or the end of a ride."""

    id: int
    is_start: bool


def long_rides(rides: DataStream[Ride]) -> DataStream[int]:
    """Return the ids of rides without an end in time."""
    ride: Pattern[Ride, Ride] = Pattern.begin("start")
    complete = ride.where(field("is_start")).next("end").where(~field("is_start")).within(Duration.of_minutes(120))
    return (
        CEP.pattern(rides.key_by("id"), complete)
        .select(
            lambda match: match["end"][0].id,
            timed_out_tag=LONG,
            timeout_function=lambda match, end_ms: match["start"][0].id,
        )
        .get_side_output(LONG)
    )
