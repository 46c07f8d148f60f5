"""How many records are written at once, and how often that is tried."""

from __future__ import annotations

import msgspec

from penstock.connectors.base.options import checked_at_least


class Execution(msgspec.Struct, frozen=True):
    """How records are written. `batch_interval_ms` 0: by size, and with checkpoints, only."""

    batch_size: int = 5000
    batch_interval_ms: int = 0
    max_retries: int = 3

    @classmethod
    def checked(cls, batch_size: int, batch_interval_ms: int, max_retries: int) -> Execution:
        """Return one with these values. Raise ValueError for a size below 1, or another value below 0."""
        return cls(
            checked_at_least("batch_size", batch_size, 1),
            checked_at_least("batch_interval_ms", batch_interval_ms, 0),
            checked_at_least("max_retries", max_retries, 0),
        )
