"""Write columns in Avro's binary encoding, byte for byte as fastavro writes their records.

The values of each field become byte strings of an array, which Arrow joins record by record. What an encoder does not
write as fastavro does, it refuses by UnusualError, or an error of Arrow: then records are written one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pyarrow
from pyarrow import compute
from pyarrow import types as arrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.connectors.formats.avro_bytes import UnusualError
from penstock.connectors.formats.avro_plain import DAYS, MICROSECONDS, PlainTypes, check_bounds, keeps_values
from penstock.connectors.formats.avro_unions import is_unnamed

Encoder = Callable[[pyarrow.Array], list[pyarrow.Array]]
"""Returns arrays of byte strings, which are joined. The values are not null, but for those of a union."""

_LONG_BYTES_MAX = 10


class DatumEncoder:
    """Encodes batches of `columns` by a schema as fastavro parses it. Raise ValueError if it cannot do so."""

    def __init__(self, schema: Any, columns: RecordColumns) -> None:
        types = PlainTypes(schema)
        kinds = {field.name: field.type for field in columns.schema}
        is_by_position = is_unnamed(columns.names) or (
            isinstance(columns.record_type, type) and not issubclass(columns.record_type, tuple)
        )
        encode = None if is_by_position or not keeps_values(columns) else _fields(types, schema, kinds)
        if encode is None:
            raise ValueError(f"no encoding of {', '.join(map(str, columns.schema))} by {schema!r:.200}")
        self._encode = encode

    def encode(self, batch: pyarrow.RecordBatch) -> tuple[memoryview, Any] | None:
        """Return the records of a batch, and where each ends; None if fastavro must write them."""
        if not len(batch):
            return memoryview(b""), numpy.zeros(0, numpy.int64)
        try:
            pieces = self._encode({name: batch.column(name) for name in batch.schema.names})
            if any(piece.null_count for piece in pieces):
                return None
            joined = compute.binary_join_element_wise(*pieces, pyarrow.scalar(b"", pyarrow.large_binary()))
        except (UnusualError, pyarrow.ArrowException):
            return None
        offsets = numpy.frombuffer(joined.buffers()[1], numpy.int64, len(joined) + 1, 8 * joined.offset)
        return memoryview(joined.buffers()[2])[offsets[0] : offsets[-1]], offsets[1:] - offsets[0]


_Fields = Callable[[dict[str, pyarrow.Array]], list[pyarrow.Array]]


def _fields(types: PlainTypes, record: Any, kinds: dict[str, pyarrow.DataType]) -> _Fields | None:
    """Return the encoder of a record with these columns; None if there is none."""
    names = [field["name"] for field in record["fields"]]
    if not names or not kinds.keys() >= set(names):
        return None
    encoders = [_of_type(types, field["type"], kinds[field["name"]]) for field in record["fields"]]
    if any(encode is None for encode in encoders):
        return None
    return lambda columns: [
        piece
        for name, encode in zip(names, encoders, strict=True)
        if encode is not None
        for piece in encode(columns[name])
    ]


def _of_type(types: PlainTypes, schema: Any, kind: pyarrow.DataType) -> Encoder | None:
    if isinstance(schema, list):
        value = types.value_branch(schema)
        encode = _of_type(types, value, kind)
        return None if encode is None else _nullable(encode, schema.index(value))
    definition, base = types.definition(schema)
    if base == "record":
        return _struct(types, definition, kind)
    logical = definition.get("logicalType") if isinstance(definition, dict) else None
    name = f"{base}-{logical}"
    if name in _LOGICAL:
        encode = _LOGICAL[name](kind)
    else:
        encode = None if logical is not None or base not in _SINGLE else _SINGLE[base](definition, kind)
    return None if encode is None else _without_nulls(encode)


def _without_nulls(encode: Encoder) -> Encoder:
    def encode_values(values: pyarrow.Array) -> list[pyarrow.Array]:
        if values.null_count:
            raise UnusualError
        return encode(values)

    return encode_values


def _nullable(encode_values: Encoder, branch: int) -> Encoder:
    """Return the encoder of a union with null. `branch`: the position of the other type."""

    def encode(values: pyarrow.Array) -> list[pyarrow.Array]:
        is_value = numpy.asarray(values.is_valid())
        branches = _fixed(numpy.where(is_value, 2 * branch, 2 * (1 - branch)).astype(numpy.uint8))
        if is_value.all():
            return [branches, *encode_values(values)]
        rows = pyarrow.array(numpy.cumsum(is_value) - 1, mask=~is_value)
        return [branches, *(compute.fill_null(one.take(rows), b"") for one in encode_values(values.drop_null()))]

    return encode


def _struct(types: PlainTypes, record: Any, kind: pyarrow.DataType) -> Encoder | None:
    names = {field["name"] for field in record["fields"]}
    if not arrow.is_struct(kind) or {field.name for field in kind} != names or kind.num_fields != len(names):
        return None
    encode_fields = _fields(types, record, {field.name: field.type for field in kind})
    if encode_fields is None:
        return None
    columns = [field.name for field in kind]
    return _without_nulls(lambda values: encode_fields(dict(zip(columns, values.flatten(), strict=True))))


def _fixed(values: Any) -> pyarrow.Array:
    """Return the bytes of each number."""
    size = values.dtype.itemsize
    offsets = numpy.arange(0, size * (len(values) + 1), size, dtype=numpy.int64)
    return pyarrow.Array.from_buffers(
        pyarrow.large_binary(),
        len(values),
        [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(numpy.ascontiguousarray(values))],
    )


def _longs(values: Any) -> pyarrow.Array:
    """Return integers of 64 bits in the variable length of Avro."""
    rest = ((values << 1) ^ (values >> 63)).view(numpy.uint64)
    columns = []
    lengths = numpy.ones(len(values), numpy.int64)
    for _ in range(_LONG_BYTES_MAX):
        low, rest = (rest & _SEVEN_BITS).astype(numpy.uint8), rest >> _SEVEN
        continues = rest != 0
        columns.append(low | (continues.astype(numpy.uint8) << 7))
        if not continues.any():
            break
        lengths += continues
    found = numpy.stack(columns, axis=1)
    found = found[numpy.arange(len(columns)) < lengths[:, None]]
    offsets = numpy.concatenate(([0], numpy.cumsum(lengths)))
    return pyarrow.Array.from_buffers(
        pyarrow.large_binary(), len(values), [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(found)]
    )


_SEVEN = numpy.uint64(7)
_SEVEN_BITS = numpy.uint64(127)


def _integers(definition: Any, kind: pyarrow.DataType) -> Encoder | None:
    if not arrow.is_integer(kind):
        return None
    # Raises ArrowInvalid for one that is out of bounds.
    type_ = pyarrow.int32() if (definition if isinstance(definition, str) else definition["type"]) == "int" else None
    return lambda values: [_longs(_numbers((values.cast(type_) if type_ else values).cast(pyarrow.int64())))]


def _numbers(values: pyarrow.Array) -> Any:
    return values.to_numpy(zero_copy_only=False)


def _floats(definition: Any, kind: pyarrow.DataType) -> Encoder | None:
    # By way of doubles, as in Python: a NaN that signals becomes a quiet one.
    wide = pyarrow.float64()
    return (lambda values: [_fixed(_numbers(values.cast(wide)).astype("<f4"))]) if kind == pyarrow.float32() else None


def _doubles(definition: Any, kind: pyarrow.DataType) -> Encoder | None:
    if kind not in (pyarrow.float32(), pyarrow.float64()):
        return None
    return lambda values: [_fixed(_numbers(values.cast(pyarrow.float64())).astype("<f8"))]


def _booleans(definition: Any, kind: pyarrow.DataType) -> Encoder | None:
    return (lambda values: [_fixed(_numbers(values).astype(numpy.uint8))]) if arrow.is_boolean(kind) else None


def _texts(definition: Any, kind: pyarrow.DataType) -> Encoder | None:
    return _byte_strings if arrow.is_string(kind) or arrow.is_large_string(kind) else None


def _bytes(definition: Any, kind: pyarrow.DataType) -> Encoder | None:
    return _byte_strings if arrow.is_binary(kind) or arrow.is_large_binary(kind) else None


def _byte_strings(values: pyarrow.Array) -> list[pyarrow.Array]:
    found = values.cast(pyarrow.large_binary())
    return [_longs(_numbers(compute.binary_length(found)).astype(numpy.int64)), found]


def _fixed_bytes(definition: Any, kind: pyarrow.DataType) -> Encoder | None:
    size = definition["size"]
    if not arrow.is_binary(kind) and not arrow.is_large_binary(kind):
        return None

    def encode(values: pyarrow.Array) -> list[pyarrow.Array]:
        if not compute.all(compute.equal(compute.binary_length(values), size)).as_py():
            raise UnusualError
        return [values.cast(pyarrow.large_binary())]

    return encode


def _enums(definition: Any, kind: pyarrow.DataType) -> Encoder | None:
    if not arrow.is_string(kind) and not arrow.is_large_string(kind):
        return None
    symbols = pyarrow.array(definition["symbols"], kind)

    def encode(values: pyarrow.Array) -> list[pyarrow.Array]:
        found = compute.index_in(values, symbols)
        if found.null_count:
            raise UnusualError
        return [_longs(_numbers(found).astype(numpy.int64))]

    return encode


def _dates(kind: pyarrow.DataType) -> Encoder | None:
    if not arrow.is_date32(kind):
        return None

    def encode(values: pyarrow.Array) -> list[pyarrow.Array]:
        days = _numbers(values.cast(pyarrow.int32())).astype(numpy.int64)
        check_bounds(days, DAYS)
        return [_longs(days)]

    return encode


def _times(kinds: Callable[[pyarrow.DataType], bool], unit: str) -> Callable[[pyarrow.DataType], Encoder | None]:
    """Return a maker of encoders of times in this unit. Those that are finer are not written."""

    def make(kind: pyarrow.DataType) -> Encoder | None:
        if not kinds(kind) or kind.unit not in ("ms", "us"):
            return None
        factor = {"ms": 1000, "us": 1}

        def encode(values: pyarrow.Array) -> list[pyarrow.Array]:
            numbers = _numbers(values.cast(pyarrow.int32() if arrow.is_time32(kind) else pyarrow.int64()))
            units = numbers.astype(numpy.int64)
            low, high = MICROSECONDS
            check_bounds(units, (-(-low // factor[kind.unit]), high // factor[kind.unit]))
            found, rest = numpy.divmod(units * factor[kind.unit], factor[unit])
            if rest.any():
                raise UnusualError
            return [_longs(found)]

        return encode

    return make


_SINGLE: dict[str, Callable[[Any, pyarrow.DataType], Encoder | None]] = {
    "boolean": _booleans,
    "int": _integers,
    "long": _integers,
    "float": _floats,
    "double": _doubles,
    "string": _texts,
    "bytes": _bytes,
    "fixed": _fixed_bytes,
    "enum": _enums,
}
_LOGICAL: dict[str, Callable[[pyarrow.DataType], Encoder | None]] = {
    "int-date": _dates,
    "int-time-millis": _times(arrow.is_time, "ms"),
    "long-time-micros": _times(arrow.is_time, "us"),
    "long-timestamp-millis": _times(arrow.is_timestamp, "ms"),
    "long-timestamp-micros": _times(arrow.is_timestamp, "us"),
    "long-local-timestamp-millis": _times(arrow.is_timestamp, "ms"),
    "long-local-timestamp-micros": _times(arrow.is_timestamp, "us"),
}
