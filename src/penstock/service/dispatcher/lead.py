"""Until when this process leads its cluster, as the register has confirmed it last."""

from __future__ import annotations

from collections.abc import Callable


class Lead:
    """`lease_ms`: for how long each confirmation counts; 0: nobody else can lead."""

    def __init__(self, lease_ms: int = 0) -> None:
        self.until_ms = 0
        """By `steady_ms`; 0: for ever."""
        self.on_extension: Callable[[int, int], object] = lambda until_ms, asked_ms: None
        """Called with the new `until_ms`, and the time at which the register was asked."""
        self._lease_ms = lease_ms

    def extend(self, until_ms: int) -> None:
        """It was confirmed."""
        self.until_ms = until_ms
        self.on_extension(until_ms, until_ms - self._lease_ms)
