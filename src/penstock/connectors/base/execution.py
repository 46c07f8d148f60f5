"""How many records are written at once, and how often that is tried."""

from __future__ import annotations

import msgspec

from penstock.connectors.base.options import checked_at_least


class Execution(msgspec.Struct, frozen=True):
    """How records are written. `batch_interval_ms` 0: by size, and with checkpoints, only."""

    batch_size: int = 5000
    batch_interval_ms: int = 0
    max_retries: int = 3

    def with_batch_size(self, batch_size: int) -> Execution:
        """The same with another size. Raises ValueError below 1."""
        return msgspec.structs.replace(self, batch_size=checked_at_least("batch_size", batch_size, 1))

    def with_batch_interval_ms(self, batch_interval_ms: int) -> Execution:
        """The same with another interval. Raises ValueError below 0."""
        return msgspec.structs.replace(
            self, batch_interval_ms=checked_at_least("batch_interval_ms", batch_interval_ms, 0)
        )

    def with_max_retries(self, max_retries: int) -> Execution:
        """The same with another number of retries. Raises ValueError below 0."""
        return msgspec.structs.replace(self, max_retries=checked_at_least("max_retries", max_retries, 0))
