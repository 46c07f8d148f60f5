"""Whether it pays to encode a column for an exchange: the CPU time of the bytes that are saved, against its own.

The one rule of all encodings. docs/internals/decisions/0047-bytes-of-an-exchange.md has the figures.
"""

from __future__ import annotations

from typing import NamedTuple

ROW_BYTE_NS = 4.0
"""CPU time of a byte in a row of Spark: JVM, sockets and both workers."""
SHARED_BYTE_NS = 0.3
"""CPU time of a byte in memory that sender and receiver share, where a row has only its place."""

ROWS_MIN = 320
"""Fewer rows are sent as they are: to look at a column, 1,000 ns or more, would cost as much as it could save."""


class Price(NamedTuple):
    """The price of a byte on an exchange, by the row in which it travels.

    `shared_from`: rows of so many bytes lie in memory that sender and receivers share; None: no row does.
    """

    shared_from: int | None = None

    def byte_ns(self, row_bytes: int) -> float:
        """Return the CPU time of a byte in a row of this size, which is that of its columns before they are encoded."""
        return ROW_BYTE_NS if self.shared_from is None or row_bytes < self.shared_from else SHARED_BYTE_NS


IN_ROWS = Price()
"""All bytes are in rows of Spark."""


class Cost(NamedTuple):
    """CPU time to encode and decode a column: of a call, and of each row (ns)."""

    call_ns: float
    row_ns: float


def pays(saved_bytes: float, rows: int, cost: Cost, byte_ns: float) -> bool:
    """Return whether an encoding that saves so many bytes takes less time than they would.

    `byte_ns`: the price of a byte on the exchange, such as ROW_BYTE_NS.
    """
    return saved_bytes * byte_ns > cost.call_ns + rows * cost.row_ns
