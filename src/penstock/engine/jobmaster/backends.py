"""Read the settings of a job's state backend from a configuration."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

from penstock.common.config_options import ConfigOption
from penstock.common.configuration import Configuration, options
from penstock.common.configuration.choices import PriorityQueueStateType
from penstock.common.configuration.options import checkpoint_interval_ms
from penstock.common.doors.extras import POSTGRES, REDIS, ROCKSDB
from penstock.common.errors import ConfigurationError
from penstock.common.text.secrets import has_secret
from penstock.connectors.postgres import connection as postgres
from penstock.connectors.postgres.connection import Database
from penstock.connectors.redis import server as redis
from penstock.connectors.redis.server import RedisServer
from penstock.engine.runtime.task.vertex import PostgresSettings, RedisSettings, RocksDBSettings, StoreSettings


def store_settings(configuration: Configuration) -> StoreSettings | None:
    """Return the settings of the store for keyed state, or None if it is on the heap.

    Raises ConfigurationError for an unknown backend, or one that is not installed.
    """
    name = configuration.get(options.STATE_BACKEND).strip().lower()
    if name == "hashmap":
        return None
    if name == "rocksdb":
        return _rocksdb(configuration)
    if name == "postgres":
        return _postgres(configuration)
    if name == "redis":
        return _redis(configuration)
    raise ConfigurationError(f"{options.STATE_BACKEND.key} must be hashmap, rocksdb, postgres or redis, got {name!r}")


def _rocksdb(configuration: Configuration) -> RocksDBSettings:
    _check_installed("rocksdb", "rocksdict", ROCKSDB)
    return RocksDBSettings(
        configuration.get(options.ROCKSDB_DIRECTORY),
        configuration.get(options.ROCKSDB_MEMORY),
        configuration.get(options.ROCKSDB_CACHED_ENTRIES),
        configuration.get(options.ROCKSDB_TIMERS) is PriorityQueueStateType.ROCKSDB,
    )


def _postgres(configuration: Configuration) -> PostgresSettings:
    _check_installed("postgres", "psycopg", POSTGRES)
    return PostgresSettings(
        _url(
            configuration,
            option=options.POSTGRES_URL,
            password=options.POSTGRES_PASSWORD,
            example="postgresql://host:5432/database",
            checked=postgres.checked_url,
            server=Database,
        ),
        user=configuration.get(options.POSTGRES_USER),
        password=configuration.get(options.POSTGRES_PASSWORD),
        cached_entries=configuration.get(options.POSTGRES_CACHED_ENTRIES),
        retained_max=configuration.get(options.RETAINED_CHECKPOINTS),
    )


def _redis(configuration: Configuration) -> RedisSettings:
    _check_installed("redis", "redis", REDIS)
    url = _url(
        configuration,
        option=options.REDIS_URL,
        password=options.REDIS_PASSWORD,
        example="redis://host:6379/0",
        checked=redis.checked_url,
        server=RedisServer,
    )
    if checkpoint_interval_ms(configuration) is None:
        # Changes are written when a checkpoint is complete: without checkpoints they would grow in memory.
        raise ConfigurationError(
            f"{options.STATE_BACKEND.key} redis needs checkpoints, with which changes are written: set "
            f"{options.CHECKPOINT_INTERVAL.key}, for example 10s"
        )
    return RedisSettings(
        url,
        configuration.get(options.REDIS_USER),
        configuration.get(options.REDIS_PASSWORD),
        configuration.get(options.REDIS_CACHED_ENTRIES),
    )


def _url(
    configuration: Configuration,
    *,
    option: ConfigOption[str | None],
    password: ConfigOption[str | None],
    example: str,
    checked: Callable[[str], str],
    server: Callable[[str], Database | RedisServer],
) -> str:
    """Return the server's URL. Raises ConfigurationError, which does not show the URL."""
    url = configuration.get(option)
    if url is None:
        name = configuration.get(options.STATE_BACKEND)
        raise ConfigurationError(f"{options.STATE_BACKEND.key} is {name}: set {option.key}, for example {example}")
    if has_secret(url):
        raise ConfigurationError(
            f"{option.key} contains a password, but settings are shown to users: set it as {password.key}"
        )
    try:
        # Check that the URL can be parsed: the server's text contains its address.
        str(server(checked(url)))
    except ValueError as error:
        raise ConfigurationError(f"{option.key}: {error}") from None
    return url


def _check_installed(backend: str, package: str, extra: str) -> None:
    # Check before anything runs: a task could only fail with an ImportError.
    if find_spec(package) is None:
        raise ConfigurationError(
            f"{options.STATE_BACKEND.key} is {backend}, but {package} is not installed: run pip install '{extra}' "
            "here and on the executors"
        )
