"""The first of several moments, some of which may never come."""

from __future__ import annotations


def earliest(*moments: int | None) -> int | None:
    """Return the smallest; None: all are None."""
    first = None
    # A loop takes a third of the time of `min` over a generator, and slots ask after each step.
    for moment in moments:
        if moment is not None and (first is None or moment < first):
            first = moment
    return first
