"""Out-of-orderness of the reports of each feed, in event time."""

from __future__ import annotations

from typing import NamedTuple

from penstock_examples.flights.flights import FEEDS, Reports
from penstock_examples.flights.records import MINUTE_MS


class Disorder(NamedTuple):
    """Over all feeds."""

    in_order: int
    behind: dict[int, int]
    """Number of reports more than so many minutes of event time behind an earlier one."""
    most_ms: int
    """The bound of out-of-orderness that admits all reports."""


def disorder(reports: Reports, marks: tuple[int, ...] = (15, 60, 180, 720)) -> Disorder:
    """Count the reports behind a later one of their feed, by how much."""
    latest = dict.fromkeys(FEEDS, 0)
    delays_ms = []
    for feed, scheduled_ms in zip(reports.columns["feed"], reports.columns["scheduled_ms"], strict=True):
        if scheduled_ms >= latest[feed]:
            latest[feed] = scheduled_ms
        else:
            delays_ms.append(latest[feed] - scheduled_ms)
    behind = {mark: sum(delay_ms > mark * MINUTE_MS for delay_ms in delays_ms) for mark in marks}
    return Disorder(len(reports) - len(delays_ms), behind, max(delays_ms, default=0))
