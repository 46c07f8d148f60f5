"""Which state backend a job uses for keyed state."""

from __future__ import annotations

from importlib.util import find_spec

from penstock.common import options
from penstock.common.configuration import Configuration
from penstock.common.errors import ConfigurationError
from penstock.common.extras import ROCKSDB
from penstock.common.priority_queue_state_type import PriorityQueueStateType
from penstock.runtime.task.vertex import RocksDBSettings


def rocksdb_settings(configuration: Configuration) -> RocksDBSettings | None:
    """Settings of RocksDB; None: state is on the heap. Raises ConfigurationError for an unknown or absent backend."""
    name = configuration.get(options.STATE_BACKEND).strip().lower()
    if name == "hashmap":
        return None
    if name != "rocksdb":
        raise ConfigurationError(f"{options.STATE_BACKEND.key} must be hashmap or rocksdb, got {name!r}")
    # Reported here, before anything runs: a task could only fail with an ImportError.
    if find_spec("rocksdict") is None:
        raise ConfigurationError(
            f"{options.STATE_BACKEND.key} is rocksdb, and rocksdict is not installed: pip install '{ROCKSDB}', here "
            "and on the executors"
        )
    return RocksDBSettings(
        configuration.get(options.ROCKSDB_DIRECTORY),
        configuration.get(options.ROCKSDB_MEMORY),
        configuration.get(options.ROCKSDB_CACHED_ENTRIES),
        configuration.get(options.ROCKSDB_TIMERS) is PriorityQueueStateType.ROCKSDB,
    )
