"""`'connector' = 'kafka'` and `'upsert-kafka'`. Source: Flink docs, "Apache Kafka SQL Connector"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow

from penstock.connectors.base.delivery_guarantee import DeliveryGuarantee
from penstock.connectors.kafka.sink.sink import KafkaSink
from penstock.table.connectors.formats.chosen_format import ChosenFormat
from penstock.table.connectors.formats.message_format import MessageFormat
from penstock.table.connectors.kafka_decoding import READABLE, KafkaTableSchema, Part
from penstock.table.connectors.kafka_encoding import KafkaTableSerialization, WrittenPart
from penstock.table.connectors.kafka_options import (
    DEFAULT,
    FIXED,
    FORMAT,
    GUARANTEE,
    KEY_FIELDS,
    KEY_FORMAT,
    KEY_PREFIX,
    OF_KAFKA,
    OF_UPSERTS,
    PARTITIONER,
    PREFIX,
    PROPERTIES,
    ROUND_ROBIN,
    SCAN_PARALLELISM,
    SERVERS,
    SINK_PARALLELISM,
    VALUE_FIELDS,
    VALUE_FORMAT,
    source_builder,
    topics_of,
)
from penstock.table.connectors.table_connector import (
    METADATA,
    ScanRequest,
    SinkRequest,
    TableConnector,
    TableScan,
    TableSink,
    physical_columns,
)
from penstock.table.connectors.table_options import TableOptions
from penstock.table.operators.table_columns import KIND, TableColumns
from penstock.table.planner.nodes.tables import ContextResolvedTable

_WRITABLE = ("timestamp", "headers")


@dataclass(frozen=True)
class _Table:
    """A table's options, and the columns of the messages' keys and values.

    `key_names`: columns of the table in keys; the format has them without the prefix.
    """

    options: TableOptions
    value: MessageFormat
    key: MessageFormat | None
    columns: pyarrow.Schema
    key_names: tuple[str, ...]
    value_names: tuple[str, ...]

    def key_schema(self, names: Sequence[str]) -> pyarrow.Schema:
        """Return the fields of keys for some columns."""
        prefix = self.options.get(KEY_PREFIX)
        return pyarrow.schema([self.columns.field(name).with_name(name.removeprefix(prefix)) for name in names])

    def value_schema(self, names: Sequence[str]) -> pyarrow.Schema:
        """Return the fields of values for some columns."""
        return pyarrow.schema([self.columns.field(name) for name in names])

    def key_part(self, names: Sequence[str]) -> Part | None:
        """Return how keys are decoded to these columns."""
        if self.key is None:
            return None
        of_table = self.key_names if self.key.reads_whole else names
        return Part(self.key, self.key_schema(of_table), tuple(of_table))

    def value_part(self, read: pyarrow.Schema, names: Sequence[str]) -> Part:
        """Return how values are decoded to these columns, of rows perhaps only the fields that are read."""
        if self.value.reads_whole or not names:
            # Of a value without columns only that it is there counts.
            names = self.value_names if self.value.reads_whole else self.value_names[:1]
            return Part(self.value, self.value_schema(names), tuple(names))
        return Part(self.value, pyarrow.schema([read.field(name) for name in names]), tuple(names))


class KafkaConnector(TableConnector):
    """Reads and appends messages. Rows of a table that is read are insertions."""

    sink_abilities = frozenset({"WritingMetadata"})
    upserts = False

    def scan(self, request: ScanRequest) -> TableScan:
        table = self._table(request.table)
        options = table.options
        for name in request.metadata:
            if name not in READABLE:
                raise options.error(f"messages have no metadata {name!r}. There is {', '.join(READABLE)}")
        wanted = set(request.schema.names)
        of_key = tuple(name for name in table.key_names if name in wanted)
        of_value = tuple(name for name in table.value_names if name in wanted and name not in of_key)
        reads_whole = table.value.reads_whole or (table.key is not None and table.key.reads_whole)
        fields = list(request.whole if reads_whole else request.schema)
        value = table.value_part(request.schema, of_value)
        key = table.key_part(of_key) if of_key or self.upserts else None
        schema = KafkaTableSchema(value, key, dict(request.metadata), upserts=self.upserts)
        fields += [pyarrow.field(METADATA + name, kind) for name, kind in request.metadata.items()]
        columns = TableColumns(pyarrow.schema([*fields, *([pyarrow.field(KIND, pyarrow.uint8())] * self.upserts)]))
        builder = source_builder(options, upserts=self.upserts).set_deserializer(schema)
        try:
            for part in (value, key):
                if part is not None:
                    part.format.decoder(part.columns)
            source = builder.build().on_columns(columns)
        except ValueError as error:
            raise options.error(str(error)) from None
        assert source is not None
        return TableScan(source, columns, options.get(SCAN_PARALLELISM), watermarks_by_split=True)

    def sink(self, request: SinkRequest) -> TableSink:
        table = self._table(request.table)
        options = table.options
        if not self.upserts:
            request.check_inserts()
            _check_partitioner(options, has_key=table.key is not None)
        topics = topics_of(options)
        if len(topics) != 1:
            raise options.error(f"exactly one topic can be written, got {len(topics)}")
        names = request.columns.names
        metadata = dict(zip(request.metadata, names[len(names) - len(request.metadata) :], strict=True))
        for name in metadata:
            if name not in _WRITABLE:
                raise options.error(f"the metadata {name!r} can't be written: declare its column VIRTUAL")
        try:
            key = None
            if table.key is not None:
                schema = table.key_schema(table.key_names)
                key = WrittenPart(table.key.encoder(schema), table.key_names, schema)
            of_value = table.value_schema(table.value_names)
            value = WrittenPart(table.value.encoder(of_value), table.value_names, of_value)
            serializer = KafkaTableSerialization(
                topics[0],
                value,
                key,
                timestamp=metadata.get("timestamp"),
                headers=metadata.get("headers"),
                upserts=self.upserts,
                is_fixed=not self.upserts and options.get(PARTITIONER) == FIXED,
            )
            sink = _sink(options, serializer)
        except ValueError as error:
            raise options.error(str(error)) from None
        return TableSink(sink, takes_kinds=self.upserts, parallelism=options.get(SINK_PARALLELISM))

    def _table(self, given: ContextResolvedTable) -> _Table:
        resolved = given.resolved
        value_key = VALUE_FORMAT.key if self.upserts or VALUE_FORMAT.key in resolved.options else FORMAT.key
        value = ChosenFormat(resolved.options, value_key, prefix="value." if value_key == VALUE_FORMAT.key else "")
        key = ChosenFormat(resolved.options, KEY_FORMAT.key, prefix="key.")
        for one in (value, key):
            one.check(given.identifier)
        known = [*(OF_UPSERTS if self.upserts else OF_KAFKA), *value.options, *key.options]
        options = TableOptions(given.identifier, resolved.options, known, prefixes=(PROPERTIES,))
        if FORMAT.key in resolved.options and VALUE_FORMAT.key in resolved.options:
            raise options.error("the options 'format' and 'value.format' exclude each other")
        if value.name is None:
            raise options.error(f"the option {value_key!r} is required: write it in WITH (...)")
        options.required(SERVERS)
        columns = pyarrow.schema(physical_columns(given))
        key_names = self._key_names(given, options, columns)
        if self.upserts and key.name is None:
            raise options.error(f"the option {KEY_FORMAT.key!r} is required: write it in WITH (...)")
        if (key.name is None) != (not key_names):
            raise options.error("the options 'key.format' and 'key.fields' are set together")
        prefix = options.get(KEY_PREFIX)
        if wrong := [name for name in key_names if not name.startswith(prefix)]:
            raise options.error(f"key.fields-prefix is {prefix!r}, and the column {wrong[0]!r} does not begin with it")
        include = options.get(VALUE_FIELDS)
        if include not in ("ALL", "EXCEPT_KEY"):
            raise options.error(f"value.fields-include must be ALL or EXCEPT_KEY, got {include!r}")
        if prefix and include == "ALL":
            raise options.error("with key.fields-prefix, value.fields-include must be EXCEPT_KEY")
        value_names = tuple(name for name in columns.names if include == "ALL" or name not in key_names)
        return _Table(
            options,
            value.make(options),
            key.make(options) if key.name is not None else None,
            columns=columns,
            key_names=key_names,
            value_names=value_names,
        )

    def _key_names(
        self, table: ContextResolvedTable, options: TableOptions, columns: pyarrow.Schema
    ) -> tuple[str, ...]:
        text = options.get(KEY_FIELDS) or ""
        names = tuple(filter(None, map(str.strip, text.split(";"))))
        if unknown := [name for name in names if name not in columns.names]:
            raise options.error(f"key.fields names {unknown[0]!r}, which is not a column of the table")
        return names


class UpsertKafkaConnector(KafkaConnector):
    """Reads and writes the newest row of each key: a message without a value deletes it."""

    upserts = True

    def _key_names(
        self, table: ContextResolvedTable, options: TableOptions, columns: pyarrow.Schema
    ) -> tuple[str, ...]:
        key = table.resolved.schema.primary_key
        if key is None:
            raise options.error("upsert-kafka needs a primary key: declare PRIMARY KEY (...) NOT ENFORCED")
        return key.columns


def _check_partitioner(options: TableOptions, *, has_key: bool) -> None:
    """Raise SqlError for a partitioner that does not exist, or does not heed the keys of messages."""
    name = options.get(PARTITIONER)
    if name not in (DEFAULT, FIXED, ROUND_ROBIN):
        raise options.error(
            f"sink.partitioner must be {DEFAULT}, {FIXED} or {ROUND_ROBIN}, got {name!r}: classes in Java are not "
            "supported. To choose partitions in Python, write a stream with a KafkaSink"
        )
    if name == ROUND_ROBIN and has_key:
        raise options.error(f"sink.partitioner {ROUND_ROBIN!r} is for messages without a key: leave out 'key.fields'")


def _sink(options: TableOptions, serializer: KafkaTableSerialization) -> KafkaSink:
    guarantee = options.get(GUARANTEE)
    builder = KafkaSink.builder().set_record_serializer(serializer).set_delivery_guarantee(guarantee)
    properties = options.behind(PROPERTIES)
    for key, value in properties.items():
        if key not in ("group.id", "auto.offset.reset"):
            builder.set_property(key, value)
    prefix = options.get(PREFIX)
    if guarantee is DeliveryGuarantee.EXACTLY_ONCE:
        if prefix is None:
            raise ValueError(f"the option {PREFIX.key!r} is required for exactly-once")
        builder.set_transactional_id_prefix(prefix)
    return builder.build()
