"""How far out of order the reports of each feed come, in event time."""

from __future__ import annotations

from typing import NamedTuple

from penstock_examples.flights.flights import FEEDS, Reports
from penstock_examples.flights.records import MINUTE_MS


class Disorder(NamedTuple):
    """Over all feeds."""

    in_order: int
    behind: dict[int, int]
    """How many reports come more than so many minutes of event time behind one before them."""
    most_ms: int
    """The bound of out-of-orderness that admits all."""


def disorder(reports: Reports, marks: tuple[int, ...] = (15, 60, 180, 720)) -> Disorder:
    """Count the reports that come behind a later one of their feed, by how much."""
    latest = dict.fromkeys(FEEDS, 0)
    delays_ms = []
    for feed, scheduled_ms in zip(reports.columns["feed"], reports.columns["scheduled_ms"], strict=True):
        if scheduled_ms >= latest[feed]:
            latest[feed] = scheduled_ms
        else:
            delays_ms.append(latest[feed] - scheduled_ms)
    behind = {mark: sum(delay_ms > mark * MINUTE_MS for delay_ms in delays_ms) for mark in marks}
    return Disorder(len(reports) - len(delays_ms), behind, max(delays_ms, default=0))
