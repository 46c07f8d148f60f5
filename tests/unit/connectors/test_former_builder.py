"""Programs that make connectors by the builders of earlier versions run as before."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from penstock.common.serialization import SimpleStringSchema
from penstock.connectors.base.former_builder import RENAMED, FormerBuilder, HasFormerBuilder
from penstock.connectors.http.events import ServerSentEventSource
from penstock.connectors.http.sink.sink import HttpSink
from penstock.connectors.postgres.changes.source import PostgresChangeSource
from penstock.connectors.postgres.lookup.lookup import PostgresLookup
from penstock.connectors.postgres.sink.sink import PostgresSink
from penstock.connectors.postgres.source.source import PostgresSource
from penstock.connectors.redis.lookup.lookup import RedisLookup
from penstock.connectors.redis.sink.sink import RedisSink
from penstock.connectors.redis.source.source import RedisStreamSource
from penstock.connectors.sql.sink.sink import SqlSink
from penstock.connectors.sql.source.source import SqlSource
from penstock.connectors.tables.delta import DeltaSink
from penstock.connectors.tables.iceberg import IcebergSink

# The methods that each builder had; a text is one argument of the method.
METHODS: dict[type[HasFormerBuilder], str] = {
    SqlSource: "url user_name password table columns condition record_class partition_column partition_count "
    "fetch_size max_retries",
    SqlSink: "url user_name password table columns key_columns delivery_guarantee batch_size batch_interval_ms "
    "max_retries",
    PostgresSource: "url user_name password table columns condition record_class partition_column partition_count "
    "fetch_size max_retries incremental_column starting_value poll_interval_ms",
    PostgresChangeSource: "url user_name password slot_name publication_name tables startup_options fetch_size "
    "max_retries",
    PostgresSink: "url user_name password table columns key_columns statement delivery_guarantee write_ahead_log "
    "batch_size batch_interval_ms max_retries",
    PostgresLookup: "url user_name password table key_column columns key_selector cache max_retries",
    RedisStreamSource: "url user_name password streams stream_pattern discovery_interval_ms starting_position bounded "
    "value_deserializer deserializer consumer_group on_trimmed fetch_size max_retries",
    RedisSink: "url user_name password command hash stream delivery_guarantee batch_size batch_interval_ms max_retries",
    RedisLookup: "url user_name password key_selector fields values cache max_retries",
    HttpSink: "url header ca_path timeout_ms body payload batch_size batch_interval_ms max_retries backoff_ms "
    "key_header on_failure dead_letters",
    ServerSentEventSource: "url header ca_path timeout_ms idle_timeout_ms last_event_id max_retries backoff_ms",
    DeltaSink: "table record_type partition_columns storage_options",
    IcebergSink: "catalog table record_type partition_columns",
}
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "backoff_ms": (1, 2),
    "bounded": (),
    "cache": (1, 2),
    "header": ("Accept", "text"),
    "hash": (str, "a"),
    "value_deserializer": ("a", SimpleStringSchema()),
    "values": (),
}


@pytest.mark.parametrize(
    ("connector", "method"),
    [(connector, method) for connector, methods in METHODS.items() for method in methods.split()],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_each_method_gives_arguments_that_the_connector_takes(connector: type[HasFormerBuilder], method: str) -> None:
    """A program of an earlier version would end with a TypeError of a call that is not in it."""
    builder: FormerBuilder[dict[str, Any]] = FormerBuilder(dict)

    getattr(builder, f"set_{method}")(*ARGUMENTS.get(method, ("text",)))

    arguments = builder.build()
    assert arguments
    assert arguments.keys() <= inspect.signature(connector).parameters.keys()


def test_arguments_of_each_form_reach_the_connector() -> None:
    """A header or a column that is lost on the way changes what the job reads."""
    builder: FormerBuilder[dict[str, Any]] = FormerBuilder(dict)
    builder.set_url("u").set_columns("a", "b").set_header("x", "1").set_header("y", "2").set_backoff_ms(1, 2)
    builder.set_catalog("lake", type="sql").set_stream("s", "f", max_length=3)

    assert builder.build() == {
        "url": "u",
        "columns": ["a", "b"],
        "headers": {"x": "1", "y": "2"},
        "backoff_ms": 1,
        "backoff_max_ms": 2,
        "catalog": "lake",
        "catalog_properties": {"type": "sql"},
        "stream": "s",
        "fields": ["f"],
        "max_length": 3,
    }


@pytest.mark.parametrize("connector", METHODS, ids=lambda connector: connector.__name__)
def test_a_builder_says_what_replaces_it(connector: type[HasFormerBuilder]) -> None:
    """The program would break without a warning when the builders go."""
    with pytest.warns(DeprecationWarning, match=rf"{connector.__name__}\.builder\(\) is deprecated: call"):
        builder = connector.builder()
    with pytest.raises(AttributeError, match=f"the builder of {connector.__name__} has no 'url'"):
        builder.url("u")


def test_a_connector_of_a_builder_is_the_one_of_the_class() -> None:
    """The builder would have defaults of its own."""
    with pytest.warns(DeprecationWarning):
        built = SqlSource.builder().set_url("sqlite:///t.db").set_table("t").set_partition_column("id").build()

    assert type(built) is SqlSource
    assert built.describe() == SqlSource(url="sqlite:///t.db", table="t", partition_column="id").describe()


def test_renamed_arguments_are_methods_that_builders_had() -> None:
    """An entry with a misspelled name would be used by no program."""
    assert RENAMED.keys() <= {method for methods in METHODS.values() for method in methods.split()}
