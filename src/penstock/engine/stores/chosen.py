"""Open the stores for keyed state that a job's settings select."""

from __future__ import annotations

from penstock.engine.runtime.task.vertex import PostgresSettings, RedisSettings, RocksDBSettings, StoreSettings
from penstock.engine.state.backends.state_backend import StateBackend


def stores_of(settings: StoreSettings | None) -> StateBackend | None:
    """Return the stores for the tasks of a slot. None: their state is on the heap."""
    # Imported only if selected, since the packages are optional.
    if isinstance(settings, RocksDBSettings):
        from penstock.engine.stores.rocksdb import rocksdb_stores

        return rocksdb_stores(settings)
    if isinstance(settings, PostgresSettings):
        from penstock.engine.stores.postgres import postgres_stores

        return postgres_stores(settings)
    if isinstance(settings, RedisSettings):
        from penstock.engine.stores.redis import redis_stores

        return redis_stores(settings)
    return None
