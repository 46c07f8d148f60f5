"""Schemas of rows, given many messages at once: the same values as of one message after another, and made quickly."""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec
import pytest
from benchmarks.messages import rows, schemas

from penstock.common import Row, Types
from penstock.common.typeinfo import RowTypeInfo, TypeInformation
from penstock.common.types import row_factory
from penstock.connectors.formats.json_fields import row_reader
from penstock.connectors.formats.json_typed import typed_decoder
from penstock.datastream.formats.csv import CsvRowDeserializationSchema
from penstock.datastream.formats.json import JsonRowDeserializationSchema

NESTED = Types.ROW_NAMED(["x", "on"], [Types.DOUBLE(), Types.SQL_TIMESTAMP()])
TYPED: list[tuple[TypeInformation, str]] = [
    (Types.BIG_INT(), "12345678901234567890123"),
    (Types.LONG(), "9223372036854775807"),
    (Types.STRING(), '"\\u00e9"'),
    (Types.BOOLEAN(), "false"),
    (Types.FLOAT(), "7"),
    (Types.BIG_DEC(), "1.25"),
    (Types.SQL_DATE(), '"2020-01-02"'),
    (Types.SQL_TIME(), '"01:02:03.1234567Z"'),
    (Types.SQL_TIMESTAMP(), '"2020-01-02T03:04:05.1234567+01:00"'),
    (Types.LIST(Types.SQL_TIMESTAMP()), '["2020-01-02T03:04:05", null]'),
    (Types.MAP(Types.STRING(), NESTED), '{"k": {"x": 1, "on": "2020-01-02 03:04:05", "more": 1}, "none": null}'),
    (Types.LIST(NESTED), '[{}, {"x": 0.5}, null]'),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), '"YWI="'),
    (Types.STRING(), "null"),
]
NEAR: list[tuple[TypeInformation, str]] = [
    (Types.LONG(), '"12"'),
    (Types.LONG(), "1.5"),
    (Types.STRING(), "1"),
    (Types.BOOLEAN(), '"TRUE"'),
    (Types.DOUBLE(), '"0.5"'),
    (Types.SQL_DATE(), '"20200102"'),
    (Types.LIST(Types.INT()), '["1", 2]'),
]


def of(kind: TypeInformation) -> RowTypeInfo:
    return Types.ROW_NAMED(["a field", "other"], [kind, Types.INT()])


def message_of(text: str) -> bytes:
    return f'{{"more": [1], "a field": {text}, "other": 1}}'.encode()


@pytest.mark.parametrize(("kind", "text"), TYPED, ids=str)
def test_json_of_its_types_is_decoded_at_once(kind: TypeInformation, text: str) -> None:
    """A value would depend on how many messages have come together, or each field be a call."""
    one_by_one = row_reader(of(kind), False)(msgspec.json.decode(message_of(text)))
    assert typed_decoder(of(kind), False)([message_of(text)] * 2) == [one_by_one] * 2
    value = one_by_one["a field"]
    assert type(typed_decoder(of(kind), False)([message_of(text)])[0]["a field"]) is type(value)


@pytest.mark.parametrize(("kind", "text"), NEAR, ids=str)
def test_json_that_is_near_its_types_is_read(kind: TypeInformation, text: str) -> None:
    """A number in quotation marks would cost its message, or the whole batch."""
    with pytest.raises(ValueError, match=r"Expected|Invalid RFC3339"):
        typed_decoder(of(kind), False)([message_of(text)])
    reads = JsonRowDeserializationSchema.builder().type_info(of(kind)).build()
    exact, near = message_of("null"), message_of(text)
    expected = [reads.deserialize(exact), reads.deserialize(near)]
    assert reads.deserialize_batch([exact, near, exact]) == [*expected, expected[0]]
    assert expected[1] == row_reader(of(kind), False)(msgspec.json.decode(near))


def test_names_that_structs_can_not_have_are_read() -> None:
    """A field whose name has a quotation mark would end the job."""
    kind = Types.ROW_NAMED(['the "id"', "if"], [Types.INT(), Types.INT()])
    reads = JsonRowDeserializationSchema.builder().type_info(kind).build()
    assert reads.deserialize_batch([b'{"the \\"id\\"": 1, "if": 2}']) == [row_factory(['the "id"', "if"])([1, 2])]


@pytest.mark.parametrize("name", ["json", "csv", "avro", "protobuf"])
def test_a_batch_is_its_messages(name: str) -> None:
    """A message would be confused with its neighbor, or a damaged one cost others."""
    schema, serialize = schemas()[name]
    written = rows(5)
    messages = [serialize(row) for row in written]
    read = [schema.deserialize(message) for message in messages]
    assert schema.deserialize_batch(messages) == read
    assert schema.deserialize_batch([messages[0], None, messages[1]]) == [read[0], None, read[1]]  # type: ignore[list-item]
    assert schema.deserialize_batch([]) == []
    with pytest.raises(ValueError, match=r"cannot be read|is longer than"):
        schema.deserialize_batch([messages[0], messages[1][:-9] + b"\xff" * 9, messages[2]])
    assert all(row._fields is read[0]._fields for row in read), "names are shared, in memory and in pickles"


@pytest.mark.parametrize("name", ["json", "csv", "avro"])
def test_what_a_batch_gives_is_what_was_written(name: str) -> None:
    """Fields would change places."""
    schema, serialize = schemas()[name]
    assert schema.deserialize_batch([serialize(row) for row in rows(3)]) == rows(3)


PAIR = Types.ROW_NAMED(["n", "s"], [Types.INT(), Types.STRING()])


@pytest.mark.parametrize(
    "messages",
    [
        [b"1,a\n", b"2,b", b'3,"c\nd"\r\n'],
        [b"1,a", b'2,"open', b'closed",3'],
        [b"1,a\n2,b", b"3,c"],
        [b"1,", b"n/a,n/a", b"# 1,a"],
        [b"1", b"x,a", b"", b"1,a,b"],
        [b"\xff", b"1,a"],
    ],
    ids=str,
)
@pytest.mark.parametrize("lenient", [False, True])
def test_lines_of_a_batch_do_not_run_together(messages: list[bytes], lenient: bool) -> None:
    """A quotation mark that is never closed would swallow the messages behind it."""
    builder = CsvRowDeserializationSchema.Builder(PAIR).set_null_literal("n/a").set_allow_comments(True)
    reads: Any = builder.set_ignore_parse_errors(lenient).build()

    def result(call: Any, argument: Any) -> Any:
        try:
            return call(argument)
        except ValueError as error:
            return str(error)

    one_by_one = [result(reads.deserialize, message) for message in messages]
    first_error = next((one for one in one_by_one if isinstance(one, str)), None)
    assert result(reads.deserialize_batch, messages) == (one_by_one if first_error is None else first_error)


def test_a_row_of_a_factory_is_a_row() -> None:
    """It would be another one to `==`, to keys, or in a pickle."""
    values = [1, dt.date(2020, 1, 2)]
    row = row_factory(["a", "b"])(values)
    assert row == Row(a=1, b=dt.date(2020, 1, 2)) and hash(row) == hash(Row("a", "b")(*values))
    row["a"] = 2
    assert values[0] == 1, "the list of its maker is not its own"
    with pytest.raises(ValueError, match="must differ"):
        row_factory(["a", "a"])
