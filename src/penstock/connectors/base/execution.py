"""Sizes of batches, and how often a write is retried."""

from __future__ import annotations

import msgspec

from penstock.connectors.base.options import checked_at_least


class Execution(msgspec.Struct, frozen=True):
    """Settings of a batch writer. `batch_interval_ms` 0: a batch is sent only when it is full, and with checkpoints."""

    batch_size: int = 5000
    batch_interval_ms: int = 0
    max_retries: int = 3

    @classmethod
    def checked(cls, batch_size: int, batch_interval_ms: int, max_retries: int) -> Execution:
        """Return checked settings. Raise ValueError for a size below 1, or another value below 0."""
        return cls(
            checked_at_least("batch_size", batch_size, 1),
            checked_at_least("batch_interval_ms", batch_interval_ms, 0),
            checked_at_least("max_retries", max_retries, 0),
        )
