"""Kafka messages as batches of columns, compared with the values of the same messages as columns."""

from __future__ import annotations

import pickle
import re
from typing import Any

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.connectors.test_json_columns import KINDS, NAMES, OTHERS, TYPES, VALUES, lines

from penstock.api.output_tag import OutputTag
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.columns.sided_batch import SidedBatch
from penstock.common.errors import SourceError
from penstock.common.serialization import DeserializationSchema, SimpleStringSchema
from penstock.common.typeinfo import RowTypeInfo, Types
from penstock.connectors.formats.csv_row import CsvRowDeserializationSchema
from penstock.connectors.formats.json_row import JsonRowDeserializationSchema
from penstock.connectors.formats.json_values import JsonDeserializationSchema
from penstock.connectors.kafka.source.column_deserialization import ColumnDeserializer
from penstock.connectors.kafka.source.deserialization import (
    Deserializer,
    KafkaRecordDeserializationSchema,
    OnError,
    OnUnreadable,
)

BAD: OutputTag[Any] = OutputTag("bad")


class Message:
    """A message of the client. The fifth one has no timestamp."""

    def __init__(self, offset: int, content: bytes | None) -> None:
        self._offset = offset
        self._content = content

    def value(self) -> bytes | None:
        return self._content

    def key(self) -> None:
        return None

    def headers(self) -> None:
        return None

    def offset(self) -> int:
        return self._offset

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 3

    def timestamp(self) -> tuple[int, int]:
        return (0, -1) if self._offset == 4 else (1, 1000 + self._offset)


def outcome(
    schema: DeserializationSchema[Any], columns: RecordColumns, on_error: OnUnreadable, contents: Any
) -> list[str]:
    """Return what rows and columns make of messages: values, timestamps and skipped messages, or the error."""
    schema = pickle.loads(pickle.dumps(schema))
    messages = [Message(offset, content) for offset, content in enumerate(contents)]
    of_values = KafkaRecordDeserializationSchema.value_only(schema)
    found = []
    for kind in ("rows", "columns"):
        skipped: list[None] = []
        deserializer: Any = Deserializer(of_values, on_error, lambda skipped=skipped: skipped.append(None))
        if kind == "columns":
            decode = of_values.column_decoder(columns)
            assert decode is not None
            deserializer = ColumnDeserializer(columns, decode, deserializer)
        try:
            values, timestamps = deserializer.values_of(messages)
            sides: list[Any] = []
            if isinstance(on_error, OutputTag):
                values, timestamps, sides = divided(values, timestamps)
            batch = columns.batch_of(values) if kind == "rows" else values
            batch.validate(full=True)
            assert batch.schema == columns.schema
            # NaN equals itself in texts.
            found.append(re.sub("0x[0-9a-f]+", "0x", repr((batch.to_pylist(), timestamps, len(skipped), sides))))
        except SourceError as error:
            # Errors of fastavro have addresses of objects.
            text = re.sub("0x[0-9a-f]+", "0x", str(error))
            found.append("cannot convert" if "to columns" in text else f"SourceError {text}")
        except (TypeError, ValueError, OverflowError, pyarrow.ArrowException):
            assert kind == "rows", "an error of columns names the message"
            found.append("cannot convert")
    return found


def divided(values: Any, timestamps: list[int] | None) -> tuple[Any, list[int] | None, list[Any]]:
    """Return the main values, their timestamps, and what is for the side output with its place."""
    if isinstance(values, SidedBatch):
        return values.batch, timestamps, [*zip(values.positions, values.sides, strict=True)]
    if not isinstance(values, list):
        return values, timestamps, []
    sides = [(at, value) for at, value in enumerate(values) if isinstance(value, tuple) and value[0] == BAD]
    main = [at for at in range(len(values)) if at not in dict(sides)]
    times = timestamps if timestamps is None else [timestamps[at] for at in main]
    return [values[at] for at in main], times, sides


@st.composite
def of_schema(draw: st.DrawFn, types: dict[str, Any], others: dict[str, list[Any]], read: list[str]) -> RecordColumns:
    """Draw columns that are usually of these types."""
    fields = []
    for name in read:
        kind = draw(st.sampled_from([types[name], types[name], types[name], *others.get(name, [])]))
        fields.append(pyarrow.field(name, kind, draw(st.integers(0, 9)) > 0))
    return RecordColumns(pyarrow.schema(fields))


POLICIES: st.SearchStrategy[OnUnreadable] = st.sampled_from([OnError.FAIL, OnError.SKIP, BAD])
MARK = "\ufeff"


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_columns_of_json_are_those_of_values(data: st.DataObject) -> None:
    """A value would change, or a message be lost, by the move of a job to columns."""
    kind = data.draw(st.sampled_from([one for one in KINDS if isinstance(one, type) and one in NAMES]))
    names = list(NAMES[kind])
    read = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    columns = data.draw(of_schema(TYPES, OTHERS, read))
    schema = JsonDeserializationSchema(kind)
    written = [name.upper() for name in names] if kind.__name__ == "Renamed" else names
    VALUES.update({name: VALUES[name.lower()] for name in written})
    texts = data.draw(st.lists(st.none() | lines(written) | lines(written).map(MARK.__add__), max_size=6))
    if schema.column_decoder(columns) is None:
        assert kind.__name__ in ("Renamed", "Checked")
        return
    contents = [None if text is None else text.encode() for text in texts]
    rows, as_columns = outcome(schema, columns, data.draw(POLICIES), contents)
    assert as_columns == rows


ROW = Types.ROW_NAMED(
    ["i", "f", "s", "t", "b", "d", "m", "own", 'q"'],
    [
        Types.INT(), Types.DOUBLE(), Types.STRING(), Types.SQL_TIMESTAMP(), Types.BOOLEAN(), Types.SQL_DATE(),
        Types.BIG_DEC(), Types.LIST(Types.LONG()), Types.STRING(),
    ],
)  # fmt: skip
ROW_TYPES = {
    "i": pyarrow.int32(), "f": pyarrow.float64(), "s": pyarrow.string(), "t": pyarrow.timestamp("us"),
    "b": pyarrow.bool_(), "d": pyarrow.date32(), "m": pyarrow.decimal128(20, 6), "own": pyarrow.list_(pyarrow.int64()),
    'q"': pyarrow.string(),
}  # fmt: skip
ROW_OTHERS = {
    "i": [pyarrow.int64(), pyarrow.int8()], "f": [pyarrow.float32()], "m": [pyarrow.decimal128(4, 1)],
    "t": [pyarrow.timestamp("ms"), pyarrow.timestamp("us", "UTC")],
}  # fmt: skip
ROW_VALUES = {
    "i": ["1", "-5", "0", "40000", '"7"', "1.0", "1.5", "2147483648", "true", "null"],
    "f": ["1.5", "2", "-0.0", "1e-300", "1e39", "1e999", '"NaN"', '"Infinity"', '"1_0"', "null"],
    "s": ['""', '"é"', r'"\u00e9\n\""', "1", "[1]", "null"],
    "t": ['"2024-01-02T03:04:05Z"', '"2024-01-02T03:04:05.123456Z"', '"2024-01-02T03:04:05"', '"2024-01-02 03:04:05"',
          '"2024-01-02T03:04:05.1234567Z"', '"2024-01-02T03:04:05.5+05:30"', '"0001-01-01T00:00:00+05:00"',
          '"2024-02-30T00:00:00Z"', '"9999-12-31T23:59:59.999999Z"', '"2024-01-02"', "7", '""', "null"],
    "b": ["true", "false", '"TRUE"', "1", "null"],
    "d": ['"2024-01-02"', '"2024-02-30"', '"2024-1-2"', "7", "null"],
    "m": ["1.5", "0.1234567", "12345678901234567890.5", '"1.50"', '"1_0"', "1e400", "null"],
    "own": ["[]", "[1,2]", "[1.5]", '["3"]', "null"],
    'q"': ['"x"', "null"],
}  # fmt: skip

FINE = {
    "i": ["1", "-5", "0", "40000", "2147483647", "null"],
    "f": ["1.5", "2", "-0.0", "1e-300", "null"],
    "s": ['""', '"é"', r'"\u00e9\n\""', '"2024-01-02"', "null"],
    "t": ['"2024-01-02T03:04:05Z"', '"1969-12-31T23:59:59.123456Z"', '"2024-01-02T03:04:05.5+05:30"', "null"],
    "b": ["true", "false", "null"],
    "d": ['"2024-01-02"', '"0001-01-01"', "null"],
    "m": ["1.5", "-7", "12345678901234.500001", "0.000001", "null"],
    "own": ["[]", "[1,2]", "[null]", "null"],
    'q"': ['"x"', "null"],
    "other": ['{"x": [1]}', "null"],
}
"""Values of which the decoder can make columns."""


@st.composite
def objects(draw: st.DrawFn, names: list[str]) -> bytes | None:
    """Draw a message that is usually an object with these fields."""
    if draw(st.integers(0, 19)) == 0:
        return draw(st.sampled_from([None, b"", b" ", b"[]", b"{}", b"null", b'{"i":1', b'{"i":1} {"i":2}', b"\xff"]))
    keys = [name for name in names if draw(st.integers(0, 19))] + ["other"] * (draw(st.integers(0, 9)) == 0)
    known = FINE if draw(st.integers(0, 9)) else {**ROW_VALUES, "other": ["1e999", "[1]"]}
    values = [draw(st.sampled_from(known[key])) for key in keys]
    pairs = (f"{key.replace(chr(34), chr(92) + chr(34))!s}" for key in keys)
    text = "{" + ", ".join(f'"{key}": {value}' for key, value in zip(pairs, values, strict=True)) + "}"
    return (MARK * (draw(st.integers(0, 19)) == 0) + text).encode()


@settings(max_examples=133, deadline=None)
@given(data=st.data())
def test_columns_of_json_rows_are_those_of_rows(data: st.DataObject) -> None:
    """A value would change, or a message be lost, by the move of a job to columns."""
    names = data.draw(st.lists(st.sampled_from(ROW.get_field_names()[:-1]), min_size=1, unique=True))
    names += ['q"'] * (data.draw(st.integers(0, 19)) == 0)
    kinds = dict(zip(ROW.get_field_names(), ROW.get_field_types(), strict=True))
    declared = RowTypeInfo([kinds[name] for name in names], names)
    builder = JsonRowDeserializationSchema.builder().type_info(declared)
    policy = data.draw(st.sampled_from(["", "fail_on_missing_field", "ignore_parse_errors"]))
    schema = (getattr(builder, policy)() if policy else builder).build()
    read = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    columns = data.draw(of_schema(ROW_TYPES, ROW_OTHERS, read))
    if data.draw(st.booleans()) and "m" not in read:
        columns = RecordColumns(declared).only(read)
    if schema.column_decoder(columns) is None:
        assert 'q"' in names
        return
    contents = data.draw(st.lists(objects(names), max_size=6))
    rows, as_columns = outcome(schema, columns, data.draw(POLICIES), contents)
    assert as_columns == rows


CSV_VALUES = {
    "i": ["1", "-5", " 7", "40000", "1.0", "2147483648", "", "1_0", "NULL"],
    "f": ["1.5", "2", "-0.0", "1e-300", "1e39", "NaN", "Infinity", "0x1f", "", "NULL"],
    "s": ["x", "", '"a,b"', '"a""b"', "a\"b", "é", "NULL", '"NULL"', " ", "#", '"two\nlines"', "\ufeffx"],
    "t": ["2024-01-02 03:04:05", "2024-01-02T03:04:05.123456", "2024-01-02 03:04:05.1234567", "2024-02-30 00:00:00",
          "2024-01-02T03:04:05Z", "2024-01-02", "NULL"],
    "b": ["true", "FALSE", "1", "yes", "NULL"],
    "d": ["2024-01-02", "2024-02-30", "2024-1-2", "NULL"],
    "m": ["1.5", "0.1234567", "12345678901234567890.5", "1_0", "", "NULL"],
    "own": ["1;2", "", "1;x", "NULL"],
}  # fmt: skip
FINE_TEXTS = {
    "i": ["1", "-5", "40000", "2147483647", "NULL"],
    "f": ["1.5", "2", "-0.0", "1e-300", "NULL"],
    "s": ["x", "", '"a,b"', '"NULL"', "é", " ", "NULL"],
    "t": ["2024-01-02 03:04:05", "1969-12-31T23:59:59.123456", "NULL"],
    "b": ["true", "FALSE", "1", "NULL"],
    "d": ["2024-01-02", "0001-01-01", "NULL"],
    "m": ["1.5", "12345678901234.500001", "NULL"],
    "own": ["1;2", "", "7", "NULL"],
}
END_OF_LINE = ["", "\n", "\r\n", "\r", "\n\n"]


@st.composite
def csv_lines(draw: st.DrawFn, names: list[str]) -> bytes | None:
    """Draw a message that is usually a line of these fields."""
    if draw(st.integers(0, 19)) == 0:
        return draw(st.sampled_from([None, b"", b" ", b"\n", b"#", b"1", b"1,2,3,4,5,6,7,8,9", b"\xff", b"a\0b", b'"']))
    known = FINE_TEXTS if draw(st.integers(0, 9)) else CSV_VALUES
    values = [draw(st.sampled_from(known[name])) for name in names]
    end = draw(st.sampled_from(END_OF_LINE)) if draw(st.integers(0, 9)) == 0 else "\n"
    return (MARK * (draw(st.integers(0, 19)) == 0) + ",".join(values) + end).encode()


@settings(max_examples=133, deadline=None)
@given(data=st.data())
def test_columns_of_csv_are_those_of_rows(data: st.DataObject) -> None:
    """A value would change, or a message be lost, by the move of a job to columns."""
    names = data.draw(st.lists(st.sampled_from(sorted(CSV_VALUES)), min_size=1, unique=True))
    kinds = dict(zip(ROW.get_field_names(), ROW.get_field_types(), strict=True))
    declared = RowTypeInfo([kinds[name] for name in names], names)
    builder = CsvRowDeserializationSchema.Builder(declared)
    builder.set_allow_comments(data.draw(st.booleans())).set_ignore_parse_errors(data.draw(st.booleans()))
    if data.draw(st.booleans()):
        builder.set_null_literal("NULL")
    if data.draw(st.integers(0, 9)) == 0:
        builder.set_escape_character("\\")
    read = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    columns = data.draw(of_schema(ROW_TYPES, ROW_OTHERS, read))
    if data.draw(st.booleans()) and "m" not in read:
        columns = RecordColumns(declared).only(read)
    contents = data.draw(st.lists(csv_lines(names), max_size=6))
    rows, as_columns = outcome(builder.build(), columns, data.draw(POLICIES), contents)
    assert as_columns == rows


@pytest.mark.parametrize(
    "contents",
    [
        [b"x,1\ny,2\n", b"\n"],
        [b"x,1\n", b"\n", b"y,2"],
        [b"\xef\xbb\xbfx,1\n", b"y,2\n"],
        [b"x,1\n", b"\xef\xbb\xbfy,2\n"],
        [b"NULL,1\n", b"y,2\n"],
        [b"NULL,1\n", b"y,NULL\n", b'"NULL",1'],
        [b'x,"1\n', b'",2\n'],
        [b"x,1\r", b"y,2\r\n", b"z,3"],
        [b"#x,1", b"y,2"],
        [b"x\0,1", b"y,2"],
        [],
    ],
)
def test_columns_of_lines_that_are_not_plain(contents: list[bytes]) -> None:
    """Lines of one message would be taken for those of another, or a mark for a part of a value."""
    declared = Types.ROW_NAMED(["s", "i"], [Types.STRING(), Types.INT()])
    for comments in (True, False):
        builder = CsvRowDeserializationSchema.Builder(declared).set_null_literal("NULL").set_allow_comments(comments)
        rows, as_columns = outcome(builder.build(), RecordColumns(declared), OnError.SKIP, contents)
        assert as_columns == rows


GOOD = {"json": b'{"i": 1, "f": 2.5, "s": "x", "t": "2024-01-02T03:04:05Z"}', "csv": b"1,2.5,x,2024-01-02 03:04:05\n"}
USUAL = Types.ROW_NAMED(["i", "f", "s", "t"], [Types.INT(), Types.DOUBLE(), Types.STRING(), Types.SQL_TIMESTAMP()])
SCHEMAS: dict[str, DeserializationSchema[Any]] = {
    "json": JsonRowDeserializationSchema.builder().type_info(USUAL).build(),
    "csv": CsvRowDeserializationSchema.Builder(USUAL).build(),
}


class _NoRows:
    def readable(self, messages: Any) -> Any:
        raise AssertionError("a record was made")


@pytest.mark.parametrize("form", GOOD)
def test_usual_messages_make_no_record(form: str) -> None:
    """The conversion would cost as much as that of rows."""
    columns = RecordColumns(USUAL)
    decode = SCHEMAS[form].column_decoder(columns)
    assert decode is not None
    messages = [Message(0, GOOD[form]), Message(1, None), Message(2, GOOD[form])]
    batch, timestamps = ColumnDeserializer(columns, decode, _NoRows()).values_of(messages)  # type: ignore[arg-type]
    assert len(batch) == 2 and timestamps == [1000, 1002]


@pytest.mark.parametrize("form", GOOD)
def test_only_a_bad_message_is_left_out(form: str) -> None:
    """A bad message would take its whole batch with it, or nobody would learn where it is."""
    columns = RecordColumns(USUAL)
    contents = [GOOD[form], b"bad", GOOD[form]]
    rows, as_columns = outcome(SCHEMAS[form], columns, OnError.SKIP, contents)
    assert as_columns == rows and rows.endswith("[1000, 1002], 1, [])")
    rows, as_columns = outcome(SCHEMAS[form], columns, OnError.FAIL, contents)
    assert as_columns == rows and "offset 1 of partition 3 of topic 't'" in rows


def test_a_message_that_does_not_fit_the_columns_is_named() -> None:
    """The error would name a value, and nobody would find its message."""
    columns = RecordColumns(pyarrow.schema({"i": pyarrow.int8()}))
    decode = SCHEMAS["json"].column_decoder(columns)
    assert decode is not None
    values = Deserializer(KafkaRecordDeserializationSchema.value_only(SCHEMAS["json"]), OnError.SKIP, lambda: None)
    messages = [Message(0, b'{"i": 1}'), Message(1, b"bad"), Message(2, b'{"i": 1000}')]
    with pytest.raises(SourceError, match=r"at offset 2 of partition 3 of topic 't': cannot convert .* to columns"):
        ColumnDeserializer(columns, decode, values).values_of(messages)


def test_schemas_of_users_are_called() -> None:
    """A subclass that changes values would be passed over."""

    class Mine(JsonRowDeserializationSchema):
        pass

    columns = RecordColumns(USUAL)
    assert Mine(USUAL, False, False).column_decoder(columns) is None
    assert SimpleStringSchema().column_decoder(columns) is None
    assert JsonDeserializationSchema().column_decoder(columns) is None
    other = RecordColumns(Types.ROW_NAMED(["i", "unknown"], [Types.INT(), Types.INT()]))
    assert all(schema.column_decoder(other) is None for schema in SCHEMAS.values())
