"""The bits of events: which simple conditions an event meets, as one int.

Two conditions on a chunk of 1,000 objects cost about 100 ns an event, of which the two calls are the larger part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

Predicate: TypeAlias = Callable[[Any], Any]


def bits_of_event(predicates: Sequence[Predicate]) -> Callable[[Any], int]:
    """Return a function that computes the bits of an event."""
    if len(predicates) == 1:
        only = predicates[0]
        return lambda event: 1 if only(event) else 0
    if len(predicates) == 2:
        first, second = predicates
        return lambda event: (1 if first(event) else 0) | (2 if second(event) else 0)
    masks = [(1 << position, predicate) for position, predicate in enumerate(predicates)]

    def bits(event: Any) -> int:
        found = 0
        for mask, predicate in masks:
            if predicate(event):
                found |= mask
        return found

    return bits


def bits_of_chunk(predicates: Sequence[Predicate]) -> Callable[[Sequence[Any]], list[int]]:
    """Return a function that computes the bits of each event of a chunk."""
    if not predicates:
        return lambda events: [0] * len(events)
    if len(predicates) == 1:
        only = predicates[0]
        return lambda events: [1 if only(event) else 0 for event in events]
    if len(predicates) == 2:
        first, second = predicates
        return lambda events: [(1 if first(event) else 0) | (2 if second(event) else 0) for event in events]
    if len(predicates) == 3:
        a, b, c = predicates
        return lambda events: [
            (1 if a(event) else 0) | (2 if b(event) else 0) | (4 if c(event) else 0) for event in events
        ]
    bits = bits_of_event(predicates)
    return lambda events: [bits(event) for event in events]
