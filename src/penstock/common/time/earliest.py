"""The earliest of several times, some of which may be None."""

from __future__ import annotations


def earliest(*moments: int | None) -> int | None:
    """Return the smallest of the times that are not None, or None if all are None."""
    first = None
    # A loop takes a third of the time of `min` with a generator, and slots call this after each step.
    for moment in moments:
        if moment is not None and (first is None or moment < first):
            first = moment
    return first
