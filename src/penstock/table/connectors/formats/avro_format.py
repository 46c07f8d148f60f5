"""`'format' = 'avro'`: the schema follows from the columns. Source: Flink docs, "Avro Format"; AvroSchemaConverter."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any, ClassVar

import pyarrow
from pyarrow import types as arrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.config_options import ConfigOption, option
from penstock.common.config_values import BooleanType, TextType
from penstock.connectors.formats.avro_columns import columns_of
from penstock.connectors.formats.avro_messages import can_encode, decoder_of, encoded
from penstock.connectors.formats.avro_schema import AvroSchema, fastavro
from penstock.table.connectors.formats.message_format import Encoder, MessageDecoder, MessageFormat

ENCODING = option("encoding", TextType(), "binary")
CODEC = option("codec", TextType(), "snappy")
LEGACY_TIMESTAMPS = option("timestamp_mapping.legacy", BooleanType(), True)
_SIMPLE = {
    pyarrow.bool_(): "boolean",
    pyarrow.int8(): "int",
    pyarrow.int16(): "int",
    pyarrow.int32(): "int",
    pyarrow.int64(): "long",
    pyarrow.float32(): "float",
    pyarrow.float64(): "double",
    pyarrow.string(): "string",
    pyarrow.binary(): "bytes",
}


class AvroFormat(MessageFormat):
    """Rows as Avro records, without a header."""

    name = "avro"
    reads_whole = True
    options: ClassVar[tuple[ConfigOption[Any], ...]] = (ENCODING, CODEC, LEGACY_TIMESTAMPS)

    def check(self) -> None:
        if self.get(ENCODING) != "binary":
            raise ValueError(f"encoding must be binary, got {self.get(ENCODING)!r}")

    def decoder(self, schema: pyarrow.Schema) -> MessageDecoder:
        return _Decoder(schema, self.schema(schema))

    def encoder(self, schema: pyarrow.Schema) -> Encoder:
        return _Encoder(self.schema(schema))

    def schema(self, columns: pyarrow.Schema) -> AvroSchema:
        """Return the schema of records of these columns. Raises ValueError for a type that Avro does not have."""
        record = _record(columns, "record", is_legacy=self.get(LEGACY_TIMESTAMPS))
        return AvroSchema.parse_string(json.dumps(record))


def _record(fields: Any, name: str, *, is_legacy: bool) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "namespace": "org.apache.flink.avro.generated" if name == "record" else "",
        "fields": [
            {
                "name": field.name,
                "type": ["null", _type(field.type, f"{name}_{field.name}", is_legacy=is_legacy)],
                "default": None,
            }
            for field in fields
        ],
    }


def _type(kind: pyarrow.DataType, name: str, *, is_legacy: bool) -> Any:
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if arrow.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if arrow.is_date32(kind):
        return {"type": "int", "logicalType": "date"}
    if arrow.is_time32(kind):
        return {"type": "int", "logicalType": "time-millis"}
    if arrow.is_timestamp(kind):
        if kind.unit == "ns" or (is_legacy and (kind.unit != "ms" or kind.tz is not None)):
            raise ValueError(
                f"the format avro has no values of {kind}: set avro.timestamp_mapping.legacy to false for "
                "TIMESTAMP_LTZ and precisions up to 6, or declare TIMESTAMP(3)"
            )
        local = "" if is_legacy or kind.tz is not None else "local-"
        return {"type": "long", "logicalType": f"{local}timestamp-{'millis' if kind.unit == 'ms' else 'micros'}"}
    if arrow.is_list(kind):
        return {"type": "array", "items": ["null", _type(kind.value_type, name, is_legacy=is_legacy)]}
    if arrow.is_map(kind) and arrow.is_string(kind.key_type):
        return {"type": "map", "values": ["null", _type(kind.item_type, name, is_legacy=is_legacy)]}
    if arrow.is_struct(kind):
        return _record(kind, name, is_legacy=is_legacy)
    raise ValueError(f"the format avro has no values of the type {kind}")


class _Decoder(MessageDecoder):
    name = "Avro"

    def __init__(self, schema: pyarrow.Schema, avro: AvroSchema) -> None:
        super().__init__(schema, ignores_errors=False)
        self._avro = avro
        self._decode_all = decoder_of(RecordColumns(columns_of(avro)), avro.parsed())

    def usual(self, messages: Sequence[bytes]) -> pyarrow.RecordBatch:
        if self._decode_all is None:
            rows = [self.single(message) for message in messages]
            return pyarrow.RecordBatch.from_pylist(rows, schema=self.schema)
        return fitted(self._decode_all(messages), self.schema)

    def single(self, message: bytes) -> dict[str, Any]:
        stream = io.BytesIO(message)
        record: dict[str, Any] = fastavro().schemaless_reader(stream, self._avro.parsed(), None)
        if stream.tell() != len(message):
            raise ValueError("the message is longer than a record")
        return record


class _Encoder:
    def __init__(self, avro: AvroSchema) -> None:
        self._avro = avro
        self._columns = columns_of(avro)
        self._is_plain = can_encode(avro.parsed(), RecordColumns(self._columns))

    def __call__(self, batch: pyarrow.RecordBatch) -> list[bytes]:
        records = fitted(batch, self._columns)
        if self._is_plain:
            return encoded(self._avro.parsed(), records, self._serialized)
        return list(map(self._serialized, records.to_pylist(maps_as_pydicts="strict")))

    def _serialized(self, record: Any) -> bytes:
        stream = io.BytesIO()
        fastavro().schemaless_writer(stream, self._avro.parsed(), self._avro.to_writable(record))
        return stream.getvalue()


def fitted(batch: pyarrow.RecordBatch, schema: pyarrow.Schema) -> pyarrow.RecordBatch:
    """Return the batch with the types of a schema: times with a zone and without one are the same in Avro."""
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pyarrow.RecordBatch.from_arrays(columns, schema=schema)
