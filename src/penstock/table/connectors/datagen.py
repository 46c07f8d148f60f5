"""`'connector' = 'datagen'`: rows of random values and of sequences. Source: Flink docs, "DataGen SQL Connector"."""

from __future__ import annotations

from typing import Any

import numpy
import pyarrow

from penstock.common.config_options import ConfigOption, option
from penstock.common.config_values import DurationType, FloatType, IntegerType, TextType
from penstock.connectors.base.data_generator import DataGeneratorSource
from penstock.connectors.base.generated_fields import FieldGenerator, FieldGenerators, GeneratedFields, Numbers
from penstock.connectors.base.rate_limiter import RateLimiterStrategy
from penstock.connectors.base.split_mix import STEP, Words, mixed
from penstock.table.connectors.table_connector import ScanRequest, TableConnector, TableScan
from penstock.table.connectors.table_options import TableOptions
from penstock.table.operators.table_columns import TableColumns

_RATE = option("rows-per-second", IntegerType(64, least=1), 10_000)
_ROWS = option("number-of-rows", IntegerType(64, least=1), None)
_PARALLELISM = option("scan.parallelism", IntegerType(least=1), None)
_LENGTH = 100
_DIGITS = numpy.frombuffer(b"0123456789abcdef", numpy.uint8)
_RANGES = {
    pyarrow.int8(): (-(1 << 7), (1 << 7) - 1),
    pyarrow.int16(): (-(1 << 15), (1 << 15) - 1),
    pyarrow.int32(): (-(1 << 31), (1 << 31) - 1),
    pyarrow.int64(): (-(1 << 62), (1 << 62) - 1),
}


class DatagenConnector(TableConnector):
    """Generates rows. The same options give the same rows at any parallelism."""

    def scan(self, request: ScanRequest) -> TableScan:
        per_field = {field.name: _field_options(field) for field in _all_fields(request)}
        known: list[ConfigOption[Any]] = [
            _RATE,
            _ROWS,
            _PARALLELISM,
            *(one for of in per_field.values() for one in of.values()),
        ]
        options = TableOptions(request.table.identifier, request.options, known)
        columns = TableColumns(request.whole)
        generators: dict[str, Any] = {}
        ends: list[int] = []
        for field in request.whole:
            settings = {name: options.get(one) for name, one in per_field[field.name].items()}
            if settings["kind"] == "sequence":
                start, end = settings["start"], settings["end"]
                if start is None or end is None:
                    raise options.error(f"fields.{field.name}.start and .end are needed for a sequence")
                ends.append(end - start + 1)
                generators[field.name] = FieldGenerators.sequence(start)
            elif settings["kind"] == "random":
                generators[field.name] = _random(field, settings, options)
            else:
                raise options.error(f"fields.{field.name}.kind must be random or sequence, got {settings['kind']!r}")
        rows = min([*ends, *([] if options.get(_ROWS) is None else [options.get(_ROWS)])], default=None)
        fields = GeneratedFields(request.whole, generators)
        source: DataGeneratorSource[Any] = DataGeneratorSource(
            fields, rows, RateLimiterStrategy.per_second(options.get(_RATE))
        )
        of_columns = source.on_columns(columns)
        assert of_columns is not None
        return TableScan(of_columns, columns, options.get(_PARALLELISM))


def _all_fields(request: ScanRequest) -> list[pyarrow.Field]:
    from penstock.table.functions.arrow_types import arrow_type

    assert request.table.resolved_table is not None
    return [
        pyarrow.field(column.name, arrow_type(column.data_type.logical))
        for column in request.table.resolved_table.schema.columns
        if column.kind == "PHYSICAL" and column.data_type is not None
    ]


def _field_options(field: pyarrow.Field) -> dict[str, ConfigOption[Any]]:
    name = f"fields.{field.name}"
    bound: Any = FloatType() if pyarrow.types.is_floating(field.type) else IntegerType(64)
    return {
        "kind": option(f"{name}.kind", TextType(), "random"),
        "start": option(f"{name}.start", IntegerType(64), None),
        "end": option(f"{name}.end", IntegerType(64), None),
        "min": option(f"{name}.min", bound, None),
        "max": option(f"{name}.max", bound, None),
        "length": option(f"{name}.length", IntegerType(least=1), None),
        "max-past": option(f"{name}.max-past", DurationType(), 0),
        "null-rate": option(f"{name}.null-rate", FloatType(), 0.0),
    }


def _random(field: pyarrow.Field, settings: dict[str, Any], options: TableOptions) -> Any:
    kind, types = field.type, pyarrow.types
    if types.is_string(kind):
        made: Any = RandomTexts(settings["length"] or _LENGTH)
    elif types.is_boolean(kind):
        made = FieldGenerators.choice([True, False])
    elif kind in _RANGES:
        low, high = _RANGES[kind]
        made = FieldGenerators.random(
            low if settings["min"] is None else settings["min"], high if settings["max"] is None else settings["max"]
        )
    elif types.is_floating(kind):
        low, high = settings["min"], settings["max"]
        made = FieldGenerators.random(float(0 if low is None else low), float(1e9 if high is None else high))
    elif types.is_timestamp(kind):
        made = RecentTimes(settings["max-past"], kind)
    else:
        raise options.error(f"the column {field.name} has the type {kind}, of which there are no random values")
    return made if not settings["null-rate"] else WithNulls(made, settings["null-rate"])


class RandomTexts(FieldGenerator):
    """Random hexadecimal digits, as Flink's."""

    def __init__(self, length: int) -> None:
        self._length = length

    def values(self, numbers: Numbers, name: str) -> Any:
        words = -(-self._length // 16)
        places = numbers.view(numpy.uint64)[:, None] * numpy.uint64(words) + numpy.arange(words, dtype=numpy.uint64)
        positions: Words = (places * STEP + numpy.uint64(len(name))).astype(numpy.uint64)
        mixed_words = mixed(positions)
        octets = mixed_words.view(numpy.uint8).reshape(len(numbers), 8 * words)
        nibbles = numpy.stack([octets >> 4, octets & 15], axis=2).reshape(len(numbers), 16 * words)
        digits = numpy.ascontiguousarray(_DIGITS[nibbles[:, : self._length]])
        offsets = numpy.arange(len(numbers) + 1, dtype=numpy.int32) * self._length
        buffers = [None, pyarrow.py_buffer(offsets), pyarrow.py_buffer(digits)]
        return pyarrow.Array.from_buffers(pyarrow.string(), len(numbers), buffers)


class RecentTimes(FieldGenerator):
    """Times up to `past_ms` before the time at which a row is generated."""

    def __init__(self, past_ms: int, kind: pyarrow.DataType) -> None:
        self._past_ms = past_ms
        self._kind = kind

    def values(self, numbers: Numbers, name: str) -> Any:
        from penstock.common.time.wall_clock import now_ms

        words = mixed(numbers.view(numpy.uint64) * STEP + numpy.uint64(len(name)))
        past = (words % numpy.uint64(self._past_ms + 1)).astype(numpy.int64)
        return pyarrow.array(now_ms() - past).cast(pyarrow.timestamp("ms", self._kind.tz)).cast(self._kind)


class WithNulls(FieldGenerator):
    """The values of another generator, a share of which is NULL."""

    def __init__(self, inner: FieldGenerator, rate: float) -> None:
        self._inner = inner
        self._rate = rate

    def values(self, numbers: Numbers, name: str) -> Any:
        values = self._inner.values(numbers, name)
        words = mixed(numbers.view(numpy.uint64) * STEP + numpy.uint64(1 + len(name)))
        is_null = (words >> numpy.uint64(11)).astype(numpy.float64) / (1 << 53) < self._rate
        column = values if isinstance(values, pyarrow.Array) else pyarrow.array(values)
        return pyarrow.compute.if_else(pyarrow.array(is_null), pyarrow.scalar(None, column.type), column)
