"""The Kafka source and sink on columns, against a broker, compared with those on rows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.connectors.driven import SourceInTest, prepared, until
from tests.connectors.kafka_topics import Topics, bounded, sink_of, source_of

from penstock.api.output_tag import OutputTag
from penstock.common import Row
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.errors import SourceError
from penstock.common.typeinfo import Types
from penstock.connectors.kafka.sink.sink import KafkaSink
from penstock.connectors.kafka.source.source import KafkaSource
from penstock.datastream.connectors.kafka import (
    DeliveryGuarantee,
    KafkaRecordSerializationSchema,
    UnreadableRecord,
)
from penstock.datastream.formats.csv import CsvRowSerializationSchema
from penstock.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from penstock.testing.conformance.sink import SimpleSinkContext, check_sink

np = pytest.importorskip("numpy")
pytestmark = pytest.mark.connectors
NUMBER = Types.ROW_NAMED(["key", "number"], [Types.LONG(), Types.LONG()])
COLUMNS = RecordColumns(NUMBER)
BAD = b"{"


def message(number: int) -> bytes:
    return json.dumps({"key": number % 3, "number": number, "other": [number]}).encode()


def numbers_of(topics: Topics, topic: str, on_error: Any = "fail") -> Any:
    schema = JsonRowDeserializationSchema.builder().type_info(NUMBER).build()
    return source_of(topics, topic).set_value_only_deserializer(schema).set_on_error(on_error)


def on_columns(source: KafkaSource[Any]) -> KafkaSource[Any]:
    of_columns = source.on_columns(COLUMNS)
    assert of_columns is not None
    return of_columns


def rows_of(chunks: list[Any]) -> list[tuple[str, int, int | None]]:
    """Split, number and timestamp of each record, of rows or columns."""
    found = []
    for chunk in chunks:
        values = chunk.values if isinstance(chunk.values, list) else COLUMNS.reader()(chunk.values)
        times = chunk.timestamps or [None] * len(values)
        found += [(chunk.split_id, row["number"], time) for row, time in zip(values, times, strict=True)]
    return found


def errors_of(run: SourceInTest) -> int:
    for group in run.metrics:
        group.collect()
    return sum(int(counters.user["numRecordsInErrors"]) for counters in run.counters)


@pytest.mark.parametrize("parallelism", [1, 2])
def test_columns_are_those_of_rows(topics: Topics, parallelism: int) -> None:
    """A message would be lost with the batch of a bad one, or have the timestamp of another."""
    topic = topics.create(2)
    for partition in range(2):
        contents: list[bytes | None] = [message(number) for number in range(partition, 60, 2)]
        contents[5:5] = [None, BAD, b'{"key": "x"}', b'\xef\xbb\xbf{"key": 1, "number": -1}', b'{"key": "1"}']
        topics.write(topic, contents, partition, timestamp=1_700_000_000_000 + partition)
    source = bounded(numbers_of(topics, topic, "skip")).build()
    found = []
    for one in (source, on_columns(source)):
        run = SourceInTest(one, parallelism)
        found.append((sorted(rows_of(run.read(max_records=7)), key=str), errors_of(run)))
        run.close()

    assert found[1] == found[0]
    assert len(found[0][0]) == 60 + 2 * 2 and found[0][1] == 2 * 2


@pytest.mark.parametrize("columns_first", [True, False])
def test_a_restored_reader_goes_on_inside_a_batch(topics: Topics, columns_first: bool) -> None:
    """A restart would lose records, or process some twice; and so would a job that moves to columns, or back."""
    topic = topics.create(2)
    for partition in range(2):
        values: list[bytes | None] = [message(number) for number in range(partition, 40, 2)]
        topics.write(topic, [*values[:4], None, BAD, *values[4:]], partition)
    source = numbers_of(topics, topic, "skip").build()
    kinds = [on_columns(source), source] if columns_first else [source, on_columns(source)]
    run = SourceInTest(kinds[0], 2)
    before = run.read(11, max_records=3)
    enumerator, splits = run.snapshot()
    run.close()

    for restored in kinds:
        resumed = SourceInTest(restored, 1, (enumerator, [splits[0] + splits[1]]))
        after = resumed.read(40 - len(rows_of(before)), max_records=4)
        resumed.close()
        assert sorted(number for _, number, _ in rows_of(before + after)) == list(range(40))


def test_what_happens_to_a_bad_message(topics: Topics) -> None:
    """Nobody would find the message that fails a job, or a message would be lost silently."""
    topic = topics.create()
    topics.write(topic, [message(0), message(1), BAD, message(3)])
    run = SourceInTest(on_columns(bounded(numbers_of(topics, topic)).build()))
    with pytest.raises(SourceError, match=f"offset 2 of partition 0 of topic '{topic}'"):
        run.read()
    run.close()
    # With an UnreadableRecord in place of it the stream has no columns: it is one of rows.
    emitting = bounded(numbers_of(topics, topic, "emit")).build()
    assert emitting.on_columns(COLUMNS) is None
    run = SourceInTest(emitting)
    bad = run.values()[2]
    run.close()
    assert bad.record.value == BAD and "cannot be read as JSON" in bad.error


def test_bad_messages_go_to_a_side_output(topics: Topics) -> None:
    """Columns would need a function of rows behind the source, or lose the bytes and the reason."""
    topic, bad = topics.create(), OutputTag[UnreadableRecord]("bad")
    topics.write(topic, [message(0), BAD, message(2), BAD])
    source = bounded(numbers_of(topics, topic, bad)).build()
    for one in (source, on_columns(source)):
        run = SourceInTest(one)
        chunks = [chunk for chunk in run.read() if len(chunk.values)]
        if one is source:
            sides = [value for chunk in chunks for value in chunk.values if isinstance(value, tuple)]
        else:
            sides = [value for chunk in chunks for value in chunk.values.sides]
            rows = [row["number"] for chunk in chunks for row in COLUMNS.reader()(chunk.values.batch)]
            assert rows == [0, 2] and all(len(chunk.timestamps) == len(chunk.values.batch) for chunk in chunks)
        assert [(tag, one.record.offset, one.record.value) for tag, one in sides] == [(bad, 1, BAD), (bad, 3, BAD)]
        assert errors_of(run) == 2
        run.close()


def sink(topics: Topics, topic: str, guarantee: DeliveryGuarantee, **properties: str) -> KafkaSink:
    schema = KafkaRecordSerializationSchema.builder().set_topic(topic)
    key = Types.ROW_NAMED(["key"], [Types.LONG()])
    schema.set_key_serialization_schema(CsvRowSerializationSchema.Builder(key).set_line_delimiter("").build())
    value = JsonRowSerializationSchema.builder().with_type_info(NUMBER).build()
    builder = sink_of(topics, topic).set_delivery_guarantee(guarantee)
    for name, setting in properties.items():
        builder.set_property(name.replace("_", "."), setting)
    return builder.set_record_serializer(schema.set_value_serialization_schema(value).build()).build()


def rows(*numbers: int) -> list[Row]:
    make = Row("key", "number")
    return [make(number % 3, number) for number in numbers]


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE])
def test_messages_are_those_of_rows(topics: Topics, guarantee: DeliveryGuarantee) -> None:
    """A message would have another key, so another partition, or the time of its writing instead of its event."""
    times = [*range(1_700_000_000_000, 1_700_000_000_040)]
    found = []
    for on_columns in (False, True):
        topic = topics.create(3)
        target = sink(topics, topic, guarantee)
        assert target.takes_columns(COLUMNS)
        writer = target.create_writer(SimpleSinkContext(job_id=topic))
        if on_columns:
            writer.write_columns(COLUMNS.batch_of(rows(*range(40))), np.array(times))
        else:
            writer.write_chunk(rows(*range(40)), times)
        committables, _ = prepared(writer)
        if (committer := target.create_committer()) is not None:
            assert topics.read(topic, 3) == []
            committer.commit(committables)
        # The brokers write the ends of a transaction behind the answer.
        until(lambda topic=topic: len(topics.read(topic, 3)) == 40)
        writer.close()
        found.append(
            sorted((m.partition(), m.offset(), m.key(), m.value(), m.timestamp()) for m in topics.read(topic, 3))
        )
    assert found[1] == found[0]


def test_messages_without_a_time_have_that_of_writing(topics: Topics) -> None:
    """Retention by time would delete them at once: their time would be 1970."""
    topic = topics.create()
    target = sink(topics, topic, DeliveryGuarantee.AT_LEAST_ONCE)
    writer = target.create_writer(SimpleSinkContext())
    writer.write_columns(COLUMNS.batch_of(rows(1)), None)
    writer.write_columns(COLUMNS.batch_of(rows(2)), np.array([-5]))
    writer.flush(True)
    writer.close()
    assert all(one.timestamp()[1] > 1_700_000_000_000 for one in topics.read(topic))


def test_a_batch_is_larger_than_the_queue(topics: Topics) -> None:
    """A message would be lost or doubled where the client had no room for it."""
    topic = topics.create()
    target = sink(topics, topic, DeliveryGuarantee.AT_LEAST_ONCE, queue_buffering_max_messages="7")
    writer = target.create_writer(SimpleSinkContext())
    writer.write_columns(COLUMNS.batch_of(rows(*range(50))), np.arange(50) + 1_700_000_000_000)
    writer.flush(True)
    writer.close()
    messages = [(json.loads(one.value())["number"], one.key(), one.timestamp()[1]) for one in topics.read(topic)]
    assert messages == [(n, b"%d" % (n % 3), 1_700_000_000_000 + n) for n in range(50)]


class _OfColumns:
    """A writer of rows that writes batches of them."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def write_chunk(self, values: list[Any], timestamps: Any) -> None:
        self._writer.write_columns(COLUMNS.batch_of(values), timestamps)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)


class _SinkOfColumns(KafkaSink):
    def restore_writer(self, context: Any, state: Any) -> Any:
        return _OfColumns(super().restore_writer(context, state))


def test_the_sink_of_columns_meets_what_is_required_of_all(topics: Topics) -> None:
    """Records would be seen before their checkpoint, twice, or never."""
    last: list[str] = []

    def make_sink() -> KafkaSink:
        last[:] = [topics.create(2)]
        made = sink(topics, last[0], DeliveryGuarantee.EXACTLY_ONCE)
        made.__class__ = _SinkOfColumns
        return made

    def committed() -> list[Row]:
        return rows(*sorted(json.loads(value)["number"] for value in topics.values(last[0], 2)))

    check_sink(make_sink, committed, rows(*range(5)))
