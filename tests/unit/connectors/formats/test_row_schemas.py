"""Rows as messages of JSON and CSV: what is read and written, and what is refused."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

from penstock.common import Row, Types
from penstock.common.typeinfo import TypeInformation
from penstock.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema
from penstock.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema

INNER = Types.ROW_NAMED(["x"], [Types.DOUBLE()])
VALUES: list[tuple[TypeInformation, Any, bytes]] = [
    (Types.LONG(), 12, b"12"),
    (Types.STRING(), 'a "b"', rb'"a \"b\""'),
    (Types.BOOLEAN(), True, b"true"),
    (Types.DOUBLE(), 0.5, b"0.5"),
    (Types.BIG_DEC(), Decimal("1.50"), b"1.50"),
    (Types.SQL_DATE(), dt.date(2020, 1, 2), b'"2020-01-02"'),
    (Types.SQL_TIME(), dt.time(1, 2, 3), b'"01:02:03Z"'),
    (Types.SQL_TIMESTAMP(), dt.datetime(2020, 1, 2, 3, 4, 5), b'"2020-01-02T03:04:05Z"'),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"ab", b'"YWI="'),
    (Types.LIST(Types.INT()), [1, None], b"[1,null]"),
    (Types.MAP(Types.STRING(), INNER), {"k": Row(x=1.0)}, b'{"k":{"x":1.0}}'),
    (INNER, Row(x=2.0), b'{"x":2.0}'),
    (Types.STRING(), None, b"null"),
]


def json_reader(type_info: TypeInformation) -> JsonRowDeserializationSchema:
    return JsonRowDeserializationSchema.builder().type_info(type_info).build()


@pytest.mark.parametrize(("type_info", "value", "text"), VALUES, ids=str)
def test_json_there_and_back(type_info: TypeInformation, value: Any, text: bytes) -> None:
    """Messages of other programs could not be read, or those for them not be understood."""
    of = Types.ROW_NAMED(["v"], [type_info])
    message = b'{"v":' + text + b"}"
    writes = JsonRowSerializationSchema.builder().with_type_info(of).build()
    assert writes.serialize(Row(v=value)) == writes.serialize((value,)) == message
    reads = json_reader(of)
    for schema in (reads, pickle.loads(pickle.dumps(reads))):
        assert schema.deserialize(message) == Row(v=value)
    assert reads.get_produced_type() == of and reads.deserialize(None) is None


def test_json_that_does_not_fit() -> None:
    """A malformed message would end a job that skips such messages, or be skipped in one that does not."""
    of = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
    builder = JsonRowDeserializationSchema.builder
    assert json_reader(of).deserialize(b'{"id": "7", "more": 1}') == Row(id=7, name=None)
    assert json_reader(of).deserialize(b'{"id": 7, "name": {"a": 1}}') == Row(id=7, name='{"a":1}')
    for message in (b"{", b"[]", b'{"id": "x"}', b"\xff"):
        with pytest.raises(ValueError, match="cannot be read as JSON of RowTypeInfo"):
            json_reader(of).deserialize(message)
        assert builder().type_info(of).ignore_parse_errors().build().deserialize(message) is None
    with pytest.raises(ValueError, match="the field 'name' is missing"):
        builder().type_info(of).fail_on_missing_field().build().deserialize(b'{"id": 7}')
    with pytest.raises(ValueError, match="exclude each other"):
        builder().type_info(of).fail_on_missing_field().ignore_parse_errors().build()
    with pytest.raises(TypeError, match="set the type of the rows by type_info"):
        builder().build()
    with pytest.raises(ValueError, match=r"expected a record with the fields id, name, got \(1,\)"):
        JsonRowSerializationSchema.builder().with_type_info(of).build().serialize((1,))


SCHEMA = """{"type": "object", "properties": {
    "id": {"type": "integer"}, "price": {"type": ["number", "null"]}, "at": {"type": "string", "format": "date-time"},
    "tags": {"type": "array", "items": {"type": "string"}}, "raw": {"type": "string", "contentEncoding": "base64"},
    "pair": {"type": "array", "items": [{"type": "string"}, {"type": "boolean"}]}, "in": {"$ref": "#/definitions/in"}},
    "definitions": {"in": {"properties": {"x": {"type": "string"}}}}}"""


def test_types_of_json_schemas() -> None:
    """A schema that a registry has would have to be written again, as types."""
    schema = JsonRowDeserializationSchema.builder().json_schema(SCHEMA).build()
    assert schema.get_produced_type() == Types.ROW_NAMED(
        ["id", "price", "at", "tags", "raw", "pair", "in"],
        [
            Types.BIG_INT(),
            Types.BIG_DEC(),
            Types.SQL_TIMESTAMP(),
            Types.OBJECT_ARRAY(Types.STRING()),
            Types.PRIMITIVE_ARRAY(Types.BYTE()),
            Types.ROW([Types.STRING(), Types.BOOLEAN()]),
            Types.ROW_NAMED(["x"], [Types.STRING()]),
        ],
    )


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{", "is not valid JSON"),
        ('{"type": "string"}', "an object with properties"),
        ('{"type": "object"}', "does not determine the type of the root"),
        ('{"properties": {"a": {"type": ["string", "number"]}}}', "must give 'a' one type"),
        ('{"properties": {"a": {"$ref": "#/nowhere"}}}', "nothing at '#/nowhere'"),
        ('{"properties": {"a": true}}', "does not define 'a'"),
    ],
)
def test_json_schemas_that_say_too_little(schema: str, message: str) -> None:
    """Fields would be of a type that the user did not choose."""
    with pytest.raises(ValueError, match=message):
        JsonRowDeserializationSchema.builder().json_schema(schema)


ORDER = Types.ROW_NAMED(
    ["id", "name", "paid", "tags", "at"],
    [Types.INT(), Types.STRING(), Types.BOOLEAN(), Types.LIST(Types.BOOLEAN()), Types.SQL_DATE()],
)
ROW = Row(id=1, name="a, b", paid=True, tags=[True, False], at=dt.date(2020, 1, 2))


def test_csv_there_and_back() -> None:
    """Messages of other programs could not be read, or those for them not be understood."""
    writes = CsvRowSerializationSchema.Builder(ORDER).build()
    assert writes.serialize(ROW) == b'1,"a, b",true,true;false,2020-01-02\n'
    reads = CsvRowDeserializationSchema.Builder(ORDER).build()
    for schema in (reads, pickle.loads(pickle.dumps(reads))):
        assert schema.deserialize(writes.serialize(ROW)) == ROW
    assert reads.get_produced_type() == ORDER and reads.deserialize(None) is None


def test_characters_of_csv() -> None:
    """Each program has a CSV of its own."""
    builder = CsvRowSerializationSchema.Builder(ORDER).set_field_delimiter("|").set_line_delimiter("\r\n")
    builder.set_array_element_delimiter("/").set_quote_character("'").set_null_literal("n/a")
    message = builder.build().serialize(Row(1, "a|b", None, [True], None))
    assert message == b"1|'a|b'|n/a|true|n/a\r\n"
    reading = CsvRowDeserializationSchema.Builder(ORDER).set_field_delimiter("|").set_quote_character("'")
    schema = reading.set_array_element_delimiter("/").set_null_literal("n/a").set_allow_comments(True).build()
    assert schema.deserialize(message) == Row(id=1, name="a|b", paid=None, tags=[True], at=None)
    assert schema.deserialize(b"# a comment") is None
    plain = CsvRowSerializationSchema.Builder(Types.ROW([Types.STRING()])).disable_quote_character()
    assert plain.set_escape_character("\\").set_line_delimiter("").build().serialize(("a,b",)) == b"a\\,b"
    escaped = CsvRowDeserializationSchema.Builder(Types.ROW([Types.STRING()])).set_escape_character("\\").build()
    assert escaped.deserialize(b"a\\,b") == Row(f0="a,b")


def test_csv_that_does_not_fit() -> None:
    """A malformed message would end a job that skips such messages, or be skipped in one that does not."""
    reads = CsvRowDeserializationSchema.Builder(ORDER)
    for message in (b"1,a", b"x,a,true,,2020-01-02", b"1,a,maybe,,2020-01-02", b"", b"1\n2"):
        with pytest.raises(ValueError, match="cannot be read as CSV of RowTypeInfo"):
            reads.build().deserialize(message)
    with pytest.raises(ValueError, match=r"expected a record with the fields id, .*, got \(1,\)"):
        CsvRowSerializationSchema.Builder(ORDER).build().serialize((1,))
    with pytest.raises(ValueError, match="cannot be written as CSV"):
        CsvRowSerializationSchema.Builder(ORDER).disable_quote_character().build().serialize(ROW)
    for refused in (
        lambda: reads.set_field_delimiter("||"),
        lambda: CsvRowSerializationSchema.Builder(ORDER).set_line_delimiter(";"),
    ):
        with pytest.raises(ValueError, match=r"expected one character|the end of a line must be"):
            refused()
    with pytest.raises(TypeError, match=r"set the type of the rows by Builder\(Types\.ROW_NAMED"):
        CsvRowDeserializationSchema.Builder(Types.STRING())
    with pytest.raises(TypeError, match=r"expected a record with the fields id, .*, got \{'id': 1\}: '\w+' is missing"):
        CsvRowSerializationSchema.Builder(ORDER).build().serialize({"id": 1})
    with pytest.raises(TypeError, match="a column's type must be a type like int"):
        CsvRowDeserializationSchema.Builder(Types.ROW([Types.MAP(Types.INT(), Types.INT())]))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (b"1,a", Row(id=1, name="a", paid=None, tags=None, at=None)),
        (b"x,a,maybe,true;or;false,today", Row(id=None, name="a", paid=None, tags=[True, None, False], at=None)),
        (b"1,a,true,,2020-01-02,one too many", None),
        (b'1,"never closed', None),
        (b"\xff", None),
        (b"", None),
    ],
)
def test_errors_in_csv_that_are_ignored_cost_a_field_as_in_flink(message: bytes, expected: Row | None) -> None:
    """A row of which one optional field is malformed would be lost without a trace."""
    reads = CsvRowDeserializationSchema.Builder(ORDER).set_ignore_parse_errors(True).build()
    assert reads.deserialize(message) == expected


def test_rows_and_none_inside_of_a_field_of_csv() -> None:
    """A row in a row would be written as its repr, and None in a list as text or as what can't be read."""
    inner = Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.STRING()])
    kinds = [inner, Types.LIST(Types.INT()), Types.SQL_TIMESTAMP()]
    outer = Types.ROW_NAMED(["point", "n", "at"], kinds)
    row = Row(point=Row(x=1, y=None), n=[1, None], at=dt.datetime(2020, 1, 2, 3, 4, 5))
    writes = CsvRowSerializationSchema.Builder(outer).set_null_literal("null").build()
    reads = CsvRowDeserializationSchema.Builder(outer).set_null_literal("null").build()
    message = writes.serialize(row)
    assert message == b"1;null,1;null,2020-01-02 03:04:05\n"
    assert reads.deserialize(message) == row
    with pytest.raises(ValueError, match="cannot be read as CSV"):
        reads.deserialize(b"1,2,2020-01-02 03:04:05")


def test_a_comment_begins_where_a_record_may_begin() -> None:
    """A text of several lines, one of them with a # at its start, would come back without that line."""
    kind = Types.ROW([Types.INT(), Types.STRING()])
    reads = CsvRowDeserializationSchema.Builder(kind).set_allow_comments(True).build()
    assert reads.deserialize(b'# a comment\n1,"a\n# no comment\n#"\n# another\n') == Row(f0=1, f1="a\n# no comment\n#")


class Named(NamedTuple):
    b: str
    a: int


@dataclass
class WithAttributes:
    a: int
    b: str


TWO = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])
OUTER = Types.ROW_NAMED(["inner"], [TWO])
_JSON = JsonRowSerializationSchema.builder().with_type_info
_CSV = CsvRowSerializationSchema.Builder


@pytest.mark.parametrize(
    "record",
    [
        {"a": 1, "b": "x"}, {"b": "x", "a": 1}, {"a": 1, "b": "x", "more": 2}, Named("x", 1), WithAttributes(1, "x"),
        Row(b="x", a=1), Row(1, "x"), (1, "x"), [1, "x"],
    ],
)  # fmt: skip
def test_a_record_is_written_by_its_names_if_it_has_some(record: Any) -> None:
    """A dict's keys would be written in the place of its values, and fields of a named tuple change their places."""
    assert _JSON(TWO).build().serialize(record) == b'{"a":1,"b":"x"}'
    assert _JSON(OUTER).build().serialize((record,)) == b'{"inner":{"a":1,"b":"x"}}'
    assert _CSV(TWO).build().serialize(record) == b"1,x\n"
    assert _CSV(OUTER).build().serialize({"inner": record}) == b"1;x\n"


@pytest.mark.parametrize(
    "record", ["ab", b"ab", {1, 2}, {"a": 1}, {"x": 1, "y": 2}, (1,), [1, "x", 2], 5, Row(a=1, c="x")]
)
def test_what_is_no_record_of_these_fields_is_refused(record: Any) -> None:
    """The characters of a text would be written as its fields."""
    for schema in (_JSON(TWO).build(), _CSV(TWO).build()):
        with pytest.raises((TypeError, ValueError), match="field"):
            schema.serialize(record)


ZONED = dt.time(3, 4, 5, tzinfo=dt.timezone(dt.timedelta(hours=2)))
OTHERS: list[tuple[TypeInformation, Any, str]] = [
    (Types.LONG(), "nope", "'nope' is not a whole number"), (Types.LONG(), 1.5, "1.5 is not a whole number"),
    (Types.LONG(), True, "True is not of type LONG"), (Types.INT(), 1 << 31, "2147483648 is not of type INT"),
    (Types.BYTE(), -129, "-129 is not of type BYTE"), (Types.DOUBLE(), "1.5", "'1.5' is not a number"),
    (Types.DOUBLE(), True, "True is not a number"), (Types.FLOAT(), 1e39, r"1e\+39 is too large for a FLOAT"),
    (Types.BIG_DEC(), "1", "'1' is not a number"), (Types.STRING(), 5, "5 is not of type String"),
    (Types.BOOLEAN(), "true", "'true' is not of type Boolean"), (Types.BOOLEAN(), 1, "1 is not of type Boolean"),
    (Types.SQL_DATE(), "2020-01-02", "'2020-01-02' is not a date"),
    (Types.SQL_DATE(), dt.datetime(2020, 1, 2), "is not a date"),
    (Types.SQL_TIME(), dt.date(2020, 1, 2), "is not of type TimeType"), (Types.SQL_TIME(), ZONED, "has a zone"),
    (Types.SQL_TIMESTAMP(), dt.date(2020, 1, 2), "is not of type TimestampType"),
    (Types.INSTANT(), 5, "5 is not of type Instant"),
    (Types.LIST(Types.STRING()), "abc", "'abc' is not a list"), (Types.LIST(Types.INT()), [1, "x"], "'x' is not a"),
    (INNER, Row(x="y"), "field 'x': 'y' is not a number"),
]  # fmt: skip


def writers(kind: TypeInformation) -> list[Any]:
    of = Types.ROW_NAMED(["v"], [kind])
    return [
        JsonRowSerializationSchema.builder().with_type_info(of).build(),
        CsvRowSerializationSchema.Builder(of).build(),
    ]


@pytest.mark.parametrize(("kind", "value", "told"), OTHERS, ids=str)
def test_a_value_of_another_type_than_its_fields_is_refused(kind: TypeInformation, value: Any, told: str) -> None:
    """Readers of the message would find it, or read it as another value."""
    for schema in writers(kind):
        with pytest.raises(ValueError, match=f"^field 'v': .*{told}"):
            schema.serialize(Row(v=value))
    if kind == Types.LONG():
        with pytest.raises(ValueError, match="field 'v'"):
            writers(Types.MAP(Types.STRING(), kind))[0].serialize(Row(v={"k": value}))


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (Types.LONG(), np.int64(7), b"7"), (Types.LONG(), 2.0, b"2"), (Types.DOUBLE(), 3, b"3"),
        (Types.DOUBLE(), np.float32(0.5), b"0.5"), (Types.BOOLEAN(), np.bool_(True), b"true"),
        (Types.FLOAT(), np.float64(0.25), b"0.25"), (Types.BIG_INT(), 1 << 62, b"4611686018427387904"),
    ],
)  # fmt: skip
def test_numbers_of_numpy_and_whole_floats_are_written(kind: TypeInformation, value: Any, text: bytes) -> None:
    """What went through pandas would be refused."""
    in_json, in_csv = (schema.serialize(Row(v=value)) for schema in writers(kind))
    assert (in_json, in_csv) == (b'{"v":' + text + b"}", text + b"\n")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Types.LIST(Types.STRING()), ["a;b", "c"]), (Types.ROW([Types.STRING(), Types.STRING()]), Row("a", ";")),
        (Types.LIST(Types.LIST(Types.INT())), [[1, 2], [3]]),
    ],
)  # fmt: skip
def test_an_element_with_the_delimiter_of_elements_in_it_is_refused(kind: TypeInformation, value: Any) -> None:
    """A list of two would be read as one of three."""
    with pytest.raises(ValueError, match=r"would be read as two.*set_array_element_delimiter"):
        _CSV(Types.ROW_NAMED(["v"], [kind])).build().serialize(Row(v=value))


def test_lists_without_it_are_written() -> None:
    """An empty delimiter has no text, and the first character of a longer one may occur in a text."""
    of = Types.ROW_NAMED(["v"], [Types.LIST(Types.STRING())])
    assert _CSV(of).build().serialize(Row(v=[])) == b'""\n'
    assert _CSV(of).build().serialize(Row(v=["a", None, "b"])) == b"a;;b\n"
    longer = _CSV(of).set_array_element_delimiter("; ").build()
    assert longer.serialize(Row(v=["a;b", "c"])) == b"a;b; c\n"
    with pytest.raises(ValueError, match="would be read as two"):
        _CSV(of).set_array_element_delimiter(";;").build().serialize(Row(v=["a;", "c"]))


@pytest.mark.parametrize("builder", [_CSV, lambda of: JsonRowSerializationSchema.builder().with_type_info(of)])
def test_a_time_of_pandas_that_is_none_is_refused(builder: Any) -> None:
    """Readers could not parse the text NaT: a missing value is None."""
    with pytest.raises(ValueError, match="NaT is not of type "):
        builder(Types.ROW_NAMED(["t"], [Types.SQL_TIMESTAMP()])).build().serialize(Row(t=pd.NaT))


def test_a_time_of_day_in_another_zone_is_refused() -> None:
    """Three o'clock in Paris would be three o'clock in UTC. Flink reads no zone but Z."""
    reads = JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(["t"], [Types.SQL_TIME()])).build()
    assert reads.deserialize(b'{"t":"03:04:05Z"}') == reads.deserialize(b'{"t":"03:04:05"}') == Row(t=dt.time(3, 4, 5))
    with pytest.raises(ValueError, match="has a zone other than UTC"):
        reads.deserialize(b'{"t":"03:04:05+02:00"}')


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Types.BIG_DEC(), {Decimal("1.50"): 2}), (Types.INT(), {1: 2}), (Types.BOOLEAN(), {True: 1, False: 0}),
        (Types.DOUBLE(), {1.5: 2}), (Types.SQL_DATE(), {dt.date(2020, 1, 2): 1}), (Types.STRING(), {"a": 1}),
    ],
)  # fmt: skip
def test_keys_of_maps_are_texts_in_json(kind: TypeInformation, value: Any) -> None:
    """The written message would not be JSON, and readers would fail."""
    of = Types.ROW_NAMED(["m"], [Types.MAP(kind, Types.INT())])
    message = _JSON(of).build().serialize(Row(m=value))
    assert all(isinstance(key, str) for key in json.loads(message)["m"])
    assert JsonRowDeserializationSchema.builder().type_info(of).build().deserialize(message) == Row(m=value)


def test_keys_of_another_type_are_refused() -> None:
    """1 and "1" would be one key, twice."""
    of = Types.ROW_NAMED(["m"], [Types.MAP(Types.INT(), Types.INT())])
    for key in ("1", 1.5, True):
        with pytest.raises(ValueError, match="field 'm'"):
            _JSON(of).build().serialize(Row(m={key: 1}))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", ""])
@pytest.mark.parametrize("text", ["a\r", "a\nb", "a\r\nb", "\n", "plain", ""])
def test_ends_of_lines_within_a_field_are_quoted(text: str, end: str) -> None:
    """A message would be read as two, or without its last character."""
    of = Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.STRING()])
    message = _CSV(of).set_line_delimiter(end).build().serialize(Row(a=text, b="x"))
    assert message.decode().endswith(f"x{end}")
    assert CsvRowDeserializationSchema.Builder(of).build().deserialize(message) == Row(a=text, b="x")
