"""Tables of Kafka: SQL over a broker's topics, with keys, metadata, formats and changes."""

from __future__ import annotations

from typing import Any

import pytest
from tests.connectors.kafka_topics import Topics
from tests.table.in_process import environment

from penstock.common.errors import SourceError
from penstock.table import StreamTableEnvironment
from penstock.table.planner.errors import PlannerError, SqlError
from penstock.table.planner.planner import shared_process

pytestmark = pytest.mark.connectors


@pytest.fixture(scope="module", autouse=True)
def planner() -> None:
    try:
        shared_process()
    except PlannerError as error:
        pytest.skip(f"Flink's planner can't be had here: {error}")


class Sql:
    """An environment whose jobs run in this process."""

    def __init__(self, topics: Topics) -> None:
        self.topics = topics
        self.tables = StreamTableEnvironment.create(environment(2))

    def create(self, name: str, columns: str, connector: str = "kafka", **options: str) -> None:
        given = {"connector": connector, "properties.bootstrap.servers": self.topics.bootstrap}
        given |= {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
        text = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
        self.tables.execute_sql(f"CREATE TABLE {name} ({columns}) WITH ({text})")

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.tables.execute_sql(query).collect() as rows:
            return [(str(row.get_row_kind()), *row) for row in rows]


@pytest.fixture
def sql(topics: Topics) -> Sql:
    return Sql(topics)


READ = {"scan__startup__mode": "earliest-offset", "scan__bounded__mode": "latest-offset"}


def test_columns_metadata_and_poison_messages(sql: Sql) -> None:
    """A message that is left out must not shift the offsets of those behind it."""
    topic = sql.topics.create()
    values: list[bytes | None] = [b'{"id":%d,"r":{"x":%d}}' % (n, 2 * n) for n in range(20)]
    values[5:5] = [b"poison", None]
    sql.topics.write(topic, values, timestamp=1_700_000_000_000, headers=[("h", b"1")])
    columns = """id BIGINT, r ROW<x BIGINT, y STRING>, o BIGINT METADATA FROM 'offset' VIRTUAL,
        made TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', headers MAP<STRING, BYTES> METADATA"""
    sql.create("t", columns, topic=topic, format="json", json__ignore_parse_errors="true", **READ)
    found = sorted(sql.rows("SELECT id, r.x, o, headers['h'], CAST(made AS STRING) FROM t"))
    expected = [("+I", n, 2 * n, n + 2 * (n >= 5), b"1", "2023-11-14 22:13:20.000") for n in range(20)]
    assert found == expected
    sql.create("strict", "id BIGINT", topic=topic, format="json", **READ)
    with pytest.raises(SourceError, match=f"at offset 5 of partition 0 of topic '{topic}' as JSON"):
        sql.rows("SELECT id FROM strict")


@pytest.mark.parametrize("value_format", ["json", "csv", "avro"])
def test_what_is_written_is_read(sql: Sql, value_format: str) -> None:
    """Keys and values have formats of their own, and the key's columns need not be in the values."""
    topic = sql.topics.create(2)
    columns = "k_id INT, name STRING, price DECIMAL(10, 2), made TIMESTAMP_LTZ(3) METADATA FROM 'timestamp'"
    options = {"key__fields": "k_id", "key__fields_prefix": "k_", "value__fields_include": "EXCEPT_KEY"}
    sql.create("t", columns, topic=topic, key__format="json", value__format=value_format, **options, **READ)
    rows = ", ".join(f"({n}, 'n{n}', {n}.25)" for n in range(8))
    made = "TO_TIMESTAMP_LTZ(1700000000123, 3)"
    sql.tables.execute_sql(
        f"INSERT INTO t SELECT id, name, price, {made} FROM (VALUES {rows}) AS v(id, name, price)"
    ).wait()
    messages = sql.topics.read(topic, 2)
    assert sorted(message.key() for message in messages) == sorted(b'{"id":%d}' % n for n in range(8))
    assert {message.timestamp()[1] for message in messages} == {1_700_000_000_123}
    if value_format == "csv":
        assert sorted(message.value() for message in messages) == sorted(b"n%d,%d.25" % (n, n) for n in range(8))
    found = sorted(sql.rows("SELECT k_id, name, CAST(price AS STRING) FROM t WHERE k_id > 5"))
    assert found == [("+I", 6, "n6", "6.25"), ("+I", 7, "n7", "7.25")]


def test_a_subtask_writes_to_its_partition(sql: Sql) -> None:
    """With `fixed`, rows of one subtask would be spread over partitions, and lose their order."""
    topic = sql.topics.create(3)
    sql.create("o", "id BIGINT", topic=topic, format="json", sink__partitioner="fixed", sink__parallelism="1")
    for _ in range(3):
        # The client would choose another partition each time.
        sql.tables.execute_sql("INSERT INTO o VALUES (1), (2), (3), (4)").wait()
    sql.create("i", "id BIGINT, p INT METADATA FROM 'partition' VIRTUAL", topic=topic, format="json", **READ)
    assert {p for _, _, p in sql.rows("SELECT * FROM i")} == {0}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"sink__partitioner": "org.x.P"}, "must be default, fixed or round-robin"),
        (
            {"sink__partitioner": "round-robin", "key__format": "json", "key__fields": "id"},
            "for messages without a key",
        ),
    ],
)
def test_partitioners_that_are_refused(sql: Sql, options: dict[str, str], reason: str) -> None:
    """Messages of one key would be in several partitions."""
    sql.create("o", "id BIGINT", topic="some", format="json", **options)
    with pytest.raises(SqlError, match=reason):
        sql.tables.execute_sql("INSERT INTO o VALUES (1)")


def test_upserts_delete_what_is_gone(sql: Sql) -> None:
    """A row that a query removes is a message without a value, which removes it where the topic is read."""
    topic = sql.topics.create()
    columns = "name STRING, n BIGINT, PRIMARY KEY (name) NOT ENFORCED"
    sql.create(
        "counts",
        columns,
        "upsert-kafka",
        topic=topic,
        key__format="json",
        value__format="json",
        scan__bounded__mode="latest-offset",
    )
    source = "(VALUES ('a', 1), ('b', 1), ('a', 2)) AS v(name, n)"
    sql.tables.execute_sql(f"INSERT INTO counts SELECT name, SUM(n) FROM {source} GROUP BY name").wait()
    sql.topics.write(topic, [None], key=b'{"name":"b"}')
    left: dict[str, int] = {}
    for kind, name, count in sql.rows("SELECT * FROM counts"):
        if kind in ("+I", "+U"):
            left[name] = count
        else:
            assert left.pop(name) == count
    assert left == {"a": 3}


def test_the_slowest_partition_holds_back_the_watermark(sql: Sql) -> None:
    """Rows of a slow partition would be late by the times of a fast one in the same subtask."""
    topic = sql.topics.create(2)
    for partition, step in ((0, 60), (1, 1)):
        values: list[bytes | None] = [
            b'{"ts":"2024-01-01 %02d:%02d:00"}' % divmod(n * step % 1440, 60) for n in range(24)
        ]
        sql.topics.write(topic, values, partition)
    columns = "ts TIMESTAMP(3), WATERMARK FOR ts AS ts"
    sql.tables.get_config().set("parallelism.default", "1")
    sql.create("t", columns, topic=topic, format="json", scan__watermark__emit__strategy="on-event", **READ)
    query = """SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR))
        GROUP BY window_start, window_end"""
    assert sum(count for _, count in sql.rows(query)) == 48


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "'format' is required"),
        ({"format": "xml"}, "'xml' does not exist. Formats: avro, csv, json, raw"),
        ({"format": "json", "json__nope": "1"}, r"no option 'json\.nope'\. It has format, json\.decode"),
        ({"format": "json"}, r"needs the option 'properties\.group\.id'"),
        ({"format": "json", "topic_pattern": "x"}, "exactly one of the options 'topic' and 'topic-pattern'"),
        ({"format": "json", "key__format": "json"}, r"'key\.format' and 'key\.fields' are set together"),
        ({"format": "json", "scan__startup__mode": "nope"}, r"'scan\.startup\.mode' must be one of"),
        (
            {"format": "json", "scan__startup__mode": "specific-offsets", "scan__startup__specific_offsets": "x"},
            "must be like partition:0,offset:42",
        ),
    ],
)
def test_options_that_are_refused(sql: Sql, options: dict[str, str], reason: str) -> None:
    """A misspelled option would be ignored, and other messages read than the user thinks."""
    sql.create("t", "id BIGINT", topic="some", **options)
    with pytest.raises(SqlError, match=reason):
        sql.rows("SELECT * FROM t")
