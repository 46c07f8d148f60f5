"""The stores for keyed state that a job's settings ask for."""

from __future__ import annotations

from penstock.engine.runtime.task.vertex import PostgresSettings, RedisSettings, RocksDBSettings, StoreSettings
from penstock.engine.state.backends.rocksdb.store import Stores
from penstock.engine.state.backends.versioned.store import VersionedStores


def stores_of(settings: StoreSettings | None) -> Stores | VersionedStores | None:
    """Stores for the tasks of a slot; None: their state is on the heap."""
    # Imported where they are needed: no package need be installed.
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
