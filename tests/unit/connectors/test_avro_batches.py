"""Avro files from batches of columns, byte for byte those of the same records."""

from __future__ import annotations

import datetime
import io
import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy
import pyarrow
import pytest
from tests.first_cases import first_of

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.typeinfo import Types
from penstock.connectors.files.formats.avro_format import AvroWriterFactory
from penstock.connectors.formats.avro_encoding import DatumEncoder
from penstock.connectors.formats.avro_schema import AvroSchema

RANDOM = random.Random(5)
MOMENTS = [
    datetime.datetime(1, 1, 1),
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999000),
    datetime.datetime(9999, 12, 31, 23, 59, 59, 999000),
]
TIMES = [datetime.time(), datetime.time(23, 59, 59, 999000), datetime.time(23, 59, 59, 999999)]
FINER = [datetime.datetime(2024, 1, 1, 0, 0, 0, 1), *MOMENTS]
LONGS = [number for bits in range(64) for number in ((1 << bits) - 1, -(1 << bits))]
SIGNALS = numpy.frombuffer(b"\1\0\xa0\x7f", "<f4").tolist()
TEXTS = ["", "a", "é" * 40, "x" * 9000, "A"]
ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}


def logical(base: str, name: str) -> Any:
    return {"type": base, "logicalType": name}


CASES: list[tuple[Any, pyarrow.DataType, list[Any], str]] = [
    # Type, column, values; "by records": batches are taken, but these values are written by records.
    ("boolean", pyarrow.bool_(), [True, False], "taken"),
    ("int", pyarrow.int32(), [0, -(2**31), 2**31 - 1], "taken"),
    ("int", pyarrow.int64(), [1, 2**31 - 1, -(2**31)], "taken"),
    ("int", pyarrow.int64(), [1, 2**31], "by records"),
    ("long", pyarrow.int64(), LONGS, "taken"),
    ("long", pyarrow.int8(), [-128, 127], "taken"),
    ("long", pyarrow.uint64(), [0, 2**63 - 1], "taken"),
    ("long", pyarrow.uint64(), [0, 2**63], "by records"),
    ("float", pyarrow.float32(), [0.0, -0.0, 1.5, float("nan"), float("inf"), *SIGNALS], "taken"),
    ("float", pyarrow.float64(), [0.5], "not taken"),
    ("double", pyarrow.float64(), [0.1, float("nan"), 1e308], "taken"),
    ("double", pyarrow.float32(), [0.1, float("nan"), *SIGNALS], "taken"),
    ("double", pyarrow.int64(), [1], "not taken"),
    ("string", pyarrow.string(), TEXTS, "taken"),
    ("string", pyarrow.large_string(), TEXTS, "taken"),
    ("string", pyarrow.dictionary(pyarrow.int8(), pyarrow.string()), TEXTS[:2], "not taken"),
    ("bytes", pyarrow.binary(), [b"", b"\x00\xff" * 40], "taken"),
    ("bytes", pyarrow.string(), ["a"], "not taken"),
    (ENUM, pyarrow.string(), ["A", "B", "A"], "taken"),
    (ENUM, pyarrow.string(), ["A", "C"], "by records"),
    ({"type": "fixed", "name": "F", "size": 2}, pyarrow.binary(), [b"ab", b"\0\1"], "taken"),
    ({"type": "fixed", "name": "F", "size": 2}, pyarrow.binary(), [b"ab", b"abc"], "by records"),
    (logical("int", "date"), pyarrow.date32(), [moment.date() for moment in MOMENTS], "taken"),
    (logical("long", "timestamp-micros"), pyarrow.timestamp("us"), FINER, "taken"),
    (logical("long", "timestamp-millis"), pyarrow.timestamp("us"), MOMENTS, "taken"),
    (logical("long", "timestamp-millis"), pyarrow.timestamp("us"), FINER, "by records"),
    (logical("long", "timestamp-millis"), pyarrow.timestamp("ms", "UTC"), MOMENTS, "taken"),
    (logical("long", "timestamp-micros"), pyarrow.timestamp("us", "UTC"), FINER, "taken"),
    (logical("long", "timestamp-micros"), pyarrow.timestamp("us", "Europe/Berlin"), FINER[:1], "taken"),
    (logical("long", "local-timestamp-micros"), pyarrow.timestamp("us"), FINER, "taken"),
    (logical("long", "local-timestamp-millis"), pyarrow.timestamp("us", "Europe/Berlin"), MOMENTS[1:2], "taken"),
    (logical("long", "timestamp-micros"), pyarrow.timestamp("ns"), FINER[:1], "not taken"),
    (
        logical("long", "time-micros"),
        pyarrow.time64("us"),
        TIMES,
        "taken",
    ),
    (
        logical("int", "time-millis"),
        pyarrow.time32("ms"),
        TIMES[:2],
        "taken",
    ),
    (logical("int", "time-millis"), pyarrow.time64("us"), [datetime.time(0, 0, 0, 1)], "by records"),
    ({**logical("bytes", "decimal"), "precision": 9}, pyarrow.decimal128(9), [Decimal(1)], "not taken"),
    ({"type": "array", "items": "int"}, pyarrow.list_(pyarrow.int32()), [[1, 2], []], "not taken"),
    (["int", "string"], pyarrow.int32(), [1], "not taken"),
]


def schema_of(fields: dict[str, Any]) -> AvroSchema:
    listed = [{"name": name, "type": kind} for name, kind in fields.items()]
    return AvroSchema({"type": "record", "name": "R", "fields": listed})


def written(schema: AvroSchema, parts: Sequence[Any], codec: str = "null") -> Any:
    """Return the file without its sync marker, which is random, or the error."""
    stream = io.BytesIO()
    writer = AvroWriterFactory(schema, codec=codec).create(stream)
    try:
        for part in parts:
            writer.flush() if part is None else writer.add_elements(part)
    except (TypeError, ValueError, OverflowError) as error:
        return f"{type(error).__name__}: {error}"
    writer.finish()
    data = stream.getvalue()
    return data.replace(data[-16:], b"SYNC")


def assert_same(schema: AvroSchema, parts: Sequence[Any], codec: str = "null") -> None:
    read = {id(part): RecordColumns(part.schema).reader()(part) for part in parts if part is not None}
    by_rows = written(schema, [None if part is None else read[id(part)] for part in parts], codec)
    assert written(schema, parts, codec) == by_rows


@pytest.mark.parametrize("case", range(len(CASES)))
def test_batches_are_written_as_their_records(case: int) -> None:
    """A value would be written otherwise by the move of a job to columns."""
    kind, target, values, how = CASES[case]
    unions = [] if isinstance(kind, list) else [["null", kind], [kind, "null"]]
    for avro_type in (kind, *unions):
        schema = schema_of({"f": avro_type})
        batch = pyarrow.RecordBatch.from_pydict({"f": pyarrow.array(values, target)})
        assert AvroWriterFactory(schema).takes_columns(RecordColumns(batch.schema)) is (how != "not taken")
        if how == "not taken":
            continue
        assert_same(schema, [batch])
        with_nulls = pyarrow.RecordBatch.from_pydict({"f": pyarrow.array([None, *values, None, values[0]], target)})
        assert_same(schema, [with_nulls])
        assert_same(schema, [with_nulls.slice(1, 2)])


@pytest.mark.parametrize("codec", ["null", "deflate"])
@pytest.mark.parametrize("seed", first_of(8, range(25)))
def test_generated_batches_are_written_as_their_records(seed: int, codec: str) -> None:
    """Blocks would end after other records, or a field be written before another one."""
    rng = random.Random(seed)
    chosen = rng.choices([case for case in CASES if case[3] == "taken"], k=rng.randrange(1, 5))
    fields: dict[str, Any] = {}
    arrays = {"unknown": lambda size: pyarrow.array(range(size))}
    for number, (kind, target, values, _) in enumerate(chosen):
        name = f"n{number}"
        kind = {**kind, "name": f"N{number}"} if isinstance(kind, dict) and "name" in kind else kind
        optional = rng.random() < 0.5
        fields[name] = ["null", kind] if optional else kind
        pool = [*values, None] if optional else values
        if rng.random() < 0.3:
            fields[name] = {"type": "record", "name": f"I{number}", "fields": [{"name": "x", "type": fields[name]}]}
            pool, target = [{"x": value} for value in pool], pyarrow.struct({"x": target})
        arrays[name] = lambda size, pool=pool, target=target: pyarrow.array(rng.choices(pool, k=size), target)
    parts: list[Any] = []
    for _ in range(4):
        size = rng.choice([0, 1, 5, 3000])
        names = rng.sample(sorted(arrays), len(arrays))
        parts += [pyarrow.RecordBatch.from_pydict({name: arrays[name](size + 3) for name in names}).slice(2, size)]
        parts += [None] if rng.random() < 0.3 else []
    assert_same(schema_of(fields), parts, codec)


@pytest.mark.parametrize("is_declared", [False, True])
def test_which_columns_are_taken(is_declared: bool) -> None:
    """A record that has no such fields would be written, or one by position be written by name."""

    def takes(names: list[str], kinds: list[Any]) -> bool:
        declared = RecordColumns(Types.ROW_NAMED(names, kinds))
        columns = declared if is_declared else RecordColumns(declared.schema)
        return AvroWriterFactory(schema_of({"f0": "string"})).takes_columns(columns)

    assert takes(["f0", "other"], [Types.STRING(), Types.INT()])
    assert not takes(["f0"], [Types.STRING()])
    assert not takes(["other"], [Types.STRING()])
    # The column is a text, but the value a Decimal.
    assert takes(["f0", "x"], [Types.BIG_DEC(), Types.INT()]) is not is_declared


def test_the_usual_values_are_written_without_records() -> None:
    """Each batch would become records, which takes several times longer, with the same result."""
    for kind, target, values, how in CASES:
        if how == "not taken":
            continue
        batch = pyarrow.RecordBatch.from_pydict({"f": pyarrow.array([*values, None], target)})
        found = DatumEncoder(schema_of({"f": ["null", kind]}).parsed(), RecordColumns(batch.schema)).encode(batch)
        assert (found is not None) is (how == "taken"), (kind, target)
