"""Where timers are kept when keyed state is in RocksDB."""

from __future__ import annotations

import enum


class PriorityQueueStateType(enum.Enum):
    """Source: Flink, EmbeddedRocksDBStateBackend.PriorityQueueStateType."""

    HEAP = "HEAP"
    """In memory, as Python objects."""
    ROCKSDB = "ROCKSDB"
    """In RocksDB, but for those that fire next."""
