"""`'connector' = 'jdbc'`: tables of PostgreSQL. Source: Flink docs, "JDBC SQL Connector"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow

from penstock.common.config_options import ConfigOption, option
from penstock.common.config_values import BooleanType, DurationType, IntegerType, TextType
from penstock.common.errors import ConfigurationError
from penstock.connectors.postgres.connection import Database, checked_url
from penstock.connectors.postgres.sink.sink import PostgresSink
from penstock.table.connectors.jdbc_lookup import JdbcLookup
from penstock.table.connectors.jdbc_scan import JdbcScan, JdbcTable
from penstock.table.connectors.jdbc_sink import JdbcUpserts
from penstock.table.connectors.lookup import CACHE_OPTIONS, CacheOptions, LookupRequest, TableLookup, cache_of
from penstock.table.connectors.reloads import Reloads
from penstock.table.connectors.table_connector import (
    INSERT,
    ScanRequest,
    SinkRequest,
    TableConnector,
    TableScan,
    TableSink,
    physical_columns,
)
from penstock.table.connectors.table_options import TableOptions
from penstock.table.operators.table_columns import TableColumns
from penstock.table.planner.nodes.tables import ContextResolvedTable

URL = option("url", TextType(), None)
TABLE = option("table-name", TextType(), None)
DRIVER = option("driver", TextType(), None)
USER = option("username", TextType(), None)
PASSWORD = option("password", TextType(), None)
TIMEOUT = option("connection.max-retry-timeout", DurationType(1000), 60_000)
PARTITION = option("scan.partition.column", TextType(), None)
PARTITIONS = option("scan.partition.num", IntegerType(least=1), None)
LOWER = option("scan.partition.lower-bound", IntegerType(64), None)
UPPER = option("scan.partition.upper-bound", IntegerType(64), None)
FETCH_SIZE = option("scan.fetch-size", IntegerType(least=0), 0)
AUTO_COMMIT = option("scan.auto-commit", BooleanType(), True)
SCAN_PARALLELISM = option("scan.parallelism", IntegerType(least=1), None)
LOOKUP_RETRIES = option("lookup.max-retries", IntegerType(least=0), 3)
OLD_CACHE_ROWS = option("lookup.cache.max-rows", IntegerType(64), None)
OLD_CACHE_TTL = option("lookup.cache.ttl", DurationType(), None)
OLD_CACHE_MISSING = option("lookup.cache.caching-missing-key", BooleanType(), True)
FLUSH_ROWS = option("sink.buffer-flush.max-rows", IntegerType(least=1), 100)
FLUSH_INTERVAL = option("sink.buffer-flush.interval", DurationType(), 1000)
SINK_RETRIES = option("sink.max-retries", IntegerType(least=0), 3)
SINK_PARALLELISM = option("sink.parallelism", IntegerType(least=1), None)
OPTIONS: tuple[ConfigOption[Any], ...] = (
    URL,
    TABLE,
    DRIVER,
    USER,
    PASSWORD,
    TIMEOUT,
    PARTITION,
    PARTITIONS,
    LOWER,
    UPPER,
    FETCH_SIZE,
    AUTO_COMMIT,
    SCAN_PARALLELISM,
    LOOKUP_RETRIES,
    OLD_CACHE_ROWS,
    OLD_CACHE_TTL,
    OLD_CACHE_MISSING,
    FLUSH_ROWS,
    FLUSH_INTERVAL,
    SINK_RETRIES,
    SINK_PARALLELISM,
    *CACHE_OPTIONS,
)
_FETCH_SIZE = 1000
_DRIVER = "org.postgresql.Driver"


class JdbcConnector(TableConnector):
    """Reads, looks up and writes tables. Values are bound to statements, and names quoted."""

    def scan(self, request: ScanRequest) -> TableScan:
        options, database = _checked(request.table)
        columns = TableColumns(request.whole)
        column = options.get(PARTITION)
        names = [field.name for field in physical_columns(request.table)]
        if column is not None and column not in names:
            raise options.error(f"{PARTITION.key} is {column!r}, which is not a column of the table")
        table = JdbcTable(
            database,
            options.get(TABLE),
            column=column or _ordering_column(request.table, names),
            columns=columns,
            bounds=None if column is None else (options.get(LOWER), options.get(UPPER)),
        )
        source = JdbcScan(
            table,
            partition_count=options.get(PARTITIONS),
            fetch_size=options.get(FETCH_SIZE) or _FETCH_SIZE,
            max_retries=options.get(LOOKUP_RETRIES),
        )
        return TableScan(source, columns, options.get(SCAN_PARALLELISM))

    def lookup(self, request: LookupRequest) -> TableLookup:
        options, database = _checked(request.table)
        lookup = JdbcLookup(
            database,
            options.get(TABLE),
            keys=request.keys.schema,
            columns=request.columns.schema,
            max_retries=options.get(LOOKUP_RETRIES),
        )
        lookup.cache = _cache(options)
        return lookup

    def sink(self, request: SinkRequest) -> TableSink:
        options, database = _checked(request.table)
        key = request.table.resolved.schema.primary_key
        keys: Sequence[str] = () if key is None else key.columns
        if key is None:
            request.check_inserts()
        parallelism = options.get(SINK_PARALLELISM)
        if set(request.kinds) != {INSERT}:
            upserts = JdbcUpserts(
                database,
                options.get(TABLE),
                columns=tuple(request.columns.names),
                keys=tuple(keys),
                batch_size=options.get(FLUSH_ROWS),
                interval_ms=options.get(FLUSH_INTERVAL),
                max_retries=options.get(SINK_RETRIES),
            )
            return TableSink(upserts, takes_kinds=True, parallelism=parallelism)
        sink = PostgresSink(
            url=database.url,
            user_name=database.user_name,
            password=database.password,
            table=options.get(TABLE),
            columns=list(request.columns.names),
            key_columns=list(keys),
            batch_size=options.get(FLUSH_ROWS),
            batch_interval_ms=options.get(FLUSH_INTERVAL),
            max_retries=options.get(SINK_RETRIES),
        )
        return TableSink(sink, parallelism=parallelism)


def _checked(table: ContextResolvedTable) -> tuple[TableOptions, Database]:
    """Return the options of a table, and its database. Raises SqlError, which does not show the password."""
    options = TableOptions(table.identifier, table.resolved.options, OPTIONS)
    url = options.required(URL)
    options.required(TABLE)
    if options.get(DRIVER) not in (None, _DRIVER):
        raise options.error(f"driver must be {_DRIVER}, got {options.get(DRIVER)!r}: only PostgreSQL is supported")
    try:
        checked_url(url)
    except ValueError:
        raise options.error(
            "url must be like jdbc:postgresql://host:5432/database: only PostgreSQL is supported"
        ) from None
    for together in ((USER, PASSWORD), (PARTITION, PARTITIONS, LOWER, UPPER), (OLD_CACHE_ROWS, OLD_CACHE_TTL)):
        given = [one.key for one in together if options.get(one) is not None]
        if given and len(given) < len(together):
            all_keys = " and ".join(", ".join(one.key for one in together).rsplit(", ", 1))
            raise options.error(f"{all_keys} are set together, got only {', '.join(given)}")
    if options.get(PARTITION) is not None and options.get(LOWER) > options.get(UPPER):
        raise options.error(f"{LOWER.key} {options.get(LOWER)} is above {UPPER.key} {options.get(UPPER)}")
    for field in physical_columns(table):
        if pyarrow.types.is_map(field.type) or pyarrow.types.is_struct(field.type):
            raise options.error(f"the column {field.name} has the type {field.type}, which databases do not have")
    database = Database(url, options.get(USER), options.get(PASSWORD))
    try:
        database.check()
    except ConfigurationError as error:
        raise options.error(str(error)) from None
    return options, database


def _ordering_column(table: ContextResolvedTable, names: Sequence[str]) -> str:
    """Return the column whose order a table is read by: of the primary key, or one without NULL, if it is declared."""
    schema = table.resolved.schema
    if schema.primary_key is not None:
        return schema.primary_key.columns[0]
    row = schema.physical_row
    required = [name for name, kind in zip(row.names, row.children, strict=True) if not kind.nullable]
    return required[0] if required else names[0]


def _cache(options: TableOptions) -> CacheOptions | Reloads | None:
    """Return the cache of lookups, also by the names that older versions of Flink have for its options."""
    cache = cache_of(options, loads=True)
    rows, ttl_ms = options.get(OLD_CACHE_ROWS), options.get(OLD_CACHE_TTL)
    # As in Flink, zero by the old names disables the cache, and the new names outweigh them.
    if cache is None and rows is not None and rows > 0 and ttl_ms > 0:
        return CacheOptions(rows, None, ttl_ms, options.get(OLD_CACHE_MISSING))
    return cache
