"""Avro contains the values that were given, or they are refused."""

from __future__ import annotations

import datetime
import io
import json
import time
from collections import UserDict, namedtuple
from decimal import Decimal
from fractions import Fraction
from typing import Any

import fastavro
import numpy as np
import pytest

from penstock.common.types import Row
from penstock.datastream.formats.avro import AvroRowSerializationSchema, AvroSchema

Named = namedtuple("Named", ["u", "v"])
INT, LONG, BOOLEAN = "int", "long", "boolean"
INNER = {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "int"}]}


def schema_of(kind: Any) -> str:
    """Return the schema of a record with one field."""
    return json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]})


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (INT, 1.5), (INT, Decimal("1.5")), (INT, "1"), (LONG, 1.5), (LONG, "1"), (LONG, 1 << 63), (BOOLEAN, "no"),
        (BOOLEAN, 5), (BOOLEAN, None), ({"type": "int"}, 1.5), ({"type": "array", "items": "long"}, [1, 1.5]),
        ({"type": "map", "values": "boolean"}, {"k": "no"}), (["null", "int"], 1.5), (["null", "boolean"], "no"),
        ("float", 1e39), (["null", "float"], -1e39), (["null", "float", INNER], 1e39), ("int", True), ("long", True),
        ("float", (1 << 24) + 1), ("double", (1 << 53) + 1), ("null", 5), ("double", "5"),
        ("double", Decimal("1E400")), ("double", Fraction(10**400)),
        ("double", np.int64((1 << 53) + 1)), ({"type": "string", "logicalType": "uuid"}, "x"),
        (["null", {"type": "string", "logicalType": "uuid"}], "x"), ({"type": "long", "logicalType": "other"}, 1.9),
        ({"type": "array", "items": "string"}, "abc"), ({"type": "array", "items": "int"}, b"ab"),
        ({"type": "array", "items": "int"}, np.array([1.5])), ({"type": "map", "values": "int"}, UserDict(k=1.5)),
    ],
)  # fmt: skip
def test_a_value_that_the_type_can_not_hold_is_refused(kind: Any, value: Any) -> None:
    """1.5 would silently be read as 1, 1e39 as infinity, and the text `no` as true."""
    schema = AvroRowSerializationSchema(avro_schema_string=schema_of(kind))
    with pytest.raises(ValueError, match="is not a record of"):
        schema.serialize({"a": value})


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        (INT, np.int32(3), 3), (INT, 3.0, 3), (LONG, np.int64(3), 3), (LONG, -(1 << 63), -(1 << 63)),
        (BOOLEAN, np.bool_(True), True),
        ({"type": "int", "logicalType": "date"}, datetime.date(2020, 1, 2), datetime.date(2020, 1, 2)),
        (["null", "long"], None, None), ("double", 1, 1.0), ("float", 1.5, 1.5), ("float", float("inf"), float("inf")),
        (["null", "double", "float"], 1e39, 1e39), (["null", "float", INNER], {"x": 1}, {"x": 1}),
        ({"type": "string", "logicalType": "local-timestamp-millis"}, "x", "x"), ("float", 1 << 40, 2.0**40),
        ("double", 10**18, 1e18), ("double", Decimal("0.5"), 0.5), ("null", None, None),
        ({"type": "array", "items": "string"}, ("a", "b"), ["a", "b"]),
    ],
)  # fmt: skip
def test_what_it_can_hold_is_written(kind: Any, value: Any, read: Any) -> None:
    """Numbers and dates of numpy are not ints of Python, and would be refused."""
    schema = schema_of(kind)
    message = AvroRowSerializationSchema(avro_schema_string=schema).serialize({"a": value})
    parsed = fastavro.parse_schema(json.loads(schema))
    assert fastavro.schemaless_reader(io.BytesIO(message), parsed, parsed) == {"a": read}


@pytest.mark.parametrize("nested", [False, True])
def test_a_schema_with_two_fields_of_one_name_is_none(nested: bool) -> None:
    """A value would be written in both places, and the other one be lost."""
    fields: list[Any] = [{"name": "a", "type": "int"}, {"name": "a", "type": "string"}]
    schema: Any = {"type": "record", "name": "R", "fields": fields}
    if nested:
        field = {"name": "rs", "type": ["null", {"type": "array", "items": schema}]}
        schema = {"type": "record", "name": "Q", "fields": [field]}
    with pytest.raises(ValueError, match="invalid Avro schema: record R has two fields 'a'"):
        AvroSchema.parse_string(json.dumps(schema))


FINE = datetime.datetime(2020, 1, 2, 3, 4, 5, 123456)
MILLIS, MICROS = ({"type": "long", "logicalType": f"timestamp-{unit}"} for unit in ("millis", "micros"))
DATE = {"type": "int", "logicalType": "date"}


@pytest.mark.parametrize(
    "kind", [MILLIS, MICROS, ["null", MILLIS], ["null", MICROS, DATE], {"type": "array", "items": MICROS}]
)
def test_a_time_without_a_zone_is_in_utc_on_every_machine(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each worker would write it in the zone of its machine, and twice a year an hour would be another one."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    at = datetime.datetime(2020, 11, 1, 1, 30)
    is_list = isinstance(kind, dict) and kind["type"] == "array"
    try:
        schema = schema_of(kind)
        message = AvroRowSerializationSchema(avro_schema_string=schema).serialize({"a": [at] if is_list else at})
    finally:
        monkeypatch.undo()
        time.tzset()
    parsed = fastavro.parse_schema(json.loads(schema))
    read = fastavro.schemaless_reader(io.BytesIO(message), parsed, parsed)["a"]  # type: ignore[index,call-overload]
    assert (read[0] if is_list else read) == at.replace(tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (DATE, datetime.datetime(2020, 1, 2, 3)),
        (DATE, 1.5),
        (MICROS, 1.5),
        (["null", DATE], datetime.datetime(2020, 1, 2)),
        (DATE, 1 << 40),
        (MILLIS, FINE),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, FINE),
        ({"type": "int", "logicalType": "time-millis"}, FINE.time()),
        ({"type": "int", "logicalType": "time-millis"}, 1.5),
        ({"type": "int", "logicalType": "time-millis"}, 1 << 31),
        ({"type": "int", "logicalType": "time-millis"}, -1),
        ({"type": "long", "logicalType": "time-micros"}, 86_400_000_000),
        ({"type": "long", "logicalType": "time-micros"}, FINE.replace(tzinfo=datetime.UTC).timetz()),
        ({"type": "array", "items": MILLIS}, [FINE]),
    ],
)
def test_a_part_of_a_time_is_not_cut_off(kind: Any, value: Any) -> None:
    """A day would silently be written as a moment, and milliseconds as microseconds."""
    with pytest.raises(ValueError, match="is not a record of"):
        AvroRowSerializationSchema(avro_schema_string=schema_of(kind)).serialize({"a": value})


def test_a_zone_of_a_local_time_is_not_dropped() -> None:
    """Noon in New York would be noon in UTC: in all formats what has no zone is in UTC."""
    schema = schema_of({"type": "long", "logicalType": "local-timestamp-micros"})
    at = datetime.datetime(2020, 1, 2, 12, tzinfo=datetime.timezone(datetime.timedelta(hours=-5)))
    message = AvroRowSerializationSchema(avro_schema_string=schema).serialize({"a": at})
    parsed = fastavro.parse_schema(json.loads(schema))
    read = fastavro.schemaless_reader(io.BytesIO(message), parsed, parsed)
    assert read == {"a": datetime.datetime(2020, 1, 2, 17)}


FIELDS = [{"name": "x", "type": ["null", "long"], "default": None}, {"name": "y", "type": "long", "default": 5}]
TWO = json.dumps({"type": "record", "name": "R", "fields": FIELDS})


@pytest.mark.parametrize("value", [Row(a=1, b=2), Row(X=1, y=2), {"X": 1, "y": 2}, {"z": 1}, Named(1, 2)], ids=str)
def test_a_record_with_other_names_is_refused(value: Any) -> None:
    """All of its values would silently be written as null, or as the default."""
    nested = schema_of({"type": "array", "items": {"type": "record", "name": "Inner", "fields": FIELDS}})
    for schema, one in ((TWO, value), (nested, {"a": [value]})):
        with pytest.raises(ValueError, match="lacks "):
            AvroRowSerializationSchema(avro_schema_string=schema).serialize(one)


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ({"x": 1}, {"x": 1, "y": 5}), ({}, {"x": None, "y": 5}), ({"x": 1, "y": 2, "z": 3}, {"x": 1, "y": 2}),
        (Row(y=2, x=1), {"x": 1, "y": 2}), (Row(x=1, y=2, z=3), {"x": 1, "y": 2}), (Row(1, 2), {"x": 1, "y": 2}),
    ],
)  # fmt: skip
def test_what_a_record_may_leave_out_or_have_besides(value: Any, read: Any) -> None:
    """Defaults would be of no use, nor a record that has more than is to be written."""
    message = AvroRowSerializationSchema(avro_schema_string=TWO).serialize(value)
    parsed = fastavro.parse_schema(json.loads(TWO))
    assert fastavro.schemaless_reader(io.BytesIO(message), parsed, parsed) == read
