"""Tables of timers in a store, which gives them in the order of time.

An *order* is the sort key of a timer within its table, as bytes: it begins with the timestamp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.engine.state.tables import FrozenTable, Layer

FIRST: bytes = bytes(8)
"""The order before all others."""


def order_of(timestamp: int) -> bytes:
    """Return the order before all timers of this time (milliseconds)."""
    return (min(max(timestamp, MIN_TIMESTAMP), MAX_TIMESTAMP) - MIN_TIMESTAMP).to_bytes(8, "big")


def time_of(order: bytes) -> int:
    """Return the timestamp of an order."""
    return int.from_bytes(order[:8], "big") + MIN_TIMESTAMP


class TimerTable(Protocol):
    """A table of timers: (key, timestamp, namespace) -> True."""

    current: Layer
    """The layer with the latest changes. It may be written to."""
    on_spilled: Callable[[list[Any]], None]
    """Called with some timers at a time that were in memory and are now only in the store."""

    def from_order(self, order: bytes) -> Iterator[tuple[bytes, Any]]:
        """Return (order, place) of the timers in the store from `order` on, in order. Memory has precedence."""

    def order(self, place: Any) -> bytes:
        """Return the order of a timer."""

    def is_in_memory(self, place: Any) -> bool:
        """Whether a layer above the store holds the timer, or its tombstone."""

    def memory_max(self) -> int:
        """Return an upper bound of the number of timers in the layers."""

    def discard(self, entry_key: Any) -> None:
        """Remove a timer without reading it."""

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over all timers, in any order."""

    def freeze(self, full: bool) -> FrozenTable:
        """Freeze all timers (`full`), or the changes since the last call."""

    def restore(self, entry_keys: Iterable[Any], values: Iterable[Any]) -> None:
        """Restore timers before any other use."""

    def compact(self, entries_max: int) -> int:
        """Compact some frozen entries into lower layers. Returns how many."""

    def clear(self) -> None:
        """Remove all timers."""
