"""Text becomes numbers and times as in any other language: Python's own literals, digits and spellings are refused."""

from datetime import date, datetime, time
from decimal import Decimal

import pytest

from penstock.common.typeinfo import Types
from penstock.connectors.files.source import CsvSchema
from penstock.connectors.formats.conversion import column_converter, converter
from penstock.datastream.formats.csv import CsvRowDeserializationSchema
from penstock.datastream.formats.json import JsonDeserializationSchema, JsonRowDeserializationSchema

BOM = b"\xef\xbb\xbf"
INTEGERS = [int, Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG(), Types.BIG_INT()]
FLOATS = [float, Types.FLOAT(), Types.DOUBLE()]
DECIMALS = [Decimal, Types.BIG_DEC()]
TIMESTAMPS = [datetime, Types.SQL_TIMESTAMP()]
PYTHONS = {
    "1_2": [*INTEGERS, *FLOATS, *DECIMALS],
    "١٢": [*INTEGERS, *FLOATS, *DECIMALS],
    "１２": [*INTEGERS, *FLOATS, *DECIMALS],
    "\xa012": [*INTEGERS, *FLOATS, *DECIMALS],
    "0x12": [*INTEGERS, *FLOATS, *DECIMALS],
    "1_0.5": [*FLOATS, *DECIMALS],
    "1e1_0": [*FLOATS, *DECIMALS],
    "nan": [*FLOATS, *DECIMALS],
    "inf": [*FLOATS, *DECIMALS],
    "-infinity": [*FLOATS, *DECIMALS],
    "NaN": [*INTEGERS, *DECIMALS],
    "sNaN": DECIMALS,
    "True ish": [bool, Types.BOOLEAN()],
    "yes": [bool, Types.BOOLEAN()],
    "2024-01-02+02": TIMESTAMPS,
    "2024-01-02_03:04:05": TIMESTAMPS,
    "2024-01-02-03:04": TIMESTAMPS,
    "20240102x0304": TIMESTAMPS,
    "2024-W01-2x03:04": TIMESTAMPS,
    "٢٠٢٤-٠١-٠٢": [date, Types.SQL_DATE(), *TIMESTAMPS],
}
READ = [
    (" 12 ", INTEGERS, 12),
    ("+12", INTEGERS, 12),
    ("-012", INTEGERS, -12),
    (" 1.5e1 ", FLOATS, 15.0),
    (".5", [*FLOATS, *DECIMALS], Decimal("0.5")),
    ("Infinity", FLOATS, float("inf")),
    ("TRUE", [bool, Types.BOOLEAN()], True),
    ("2024-01-02", [date, Types.SQL_DATE()], date(2024, 1, 2)),
    ("2024-01-02", TIMESTAMPS, datetime(2024, 1, 2)),
    ("2024-01-02 03:04:05", TIMESTAMPS, datetime(2024, 1, 2, 3, 4, 5)),
    ("2024-01-02T03:04:05.5", TIMESTAMPS, datetime(2024, 1, 2, 3, 4, 5, 500_000)),
    ("20240102T0304", TIMESTAMPS, datetime(2024, 1, 2, 3, 4)),
    ("2024-W01-2 03:04", TIMESTAMPS, datetime(2024, 1, 2, 3, 4)),
    ("03:04", [time, Types.SQL_TIME()], time(3, 4)),
]


def json_reader(kind):
    return JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(["x"], [kind])).build()


@pytest.mark.parametrize(("text", "kind"), [(text, kind) for text, kinds in PYTHONS.items() for kind in kinds])
def test_what_only_python_reads_is_refused(text, kind):
    """The account 12_34 would be the number 1234, and a date with a zone a time of day, in silence."""
    with pytest.raises(ValueError):
        converter(kind)(text)
    with pytest.raises(ValueError):
        column_converter(kind)([text])
    if isinstance(kind, type):
        return
    csv = CsvRowDeserializationSchema.Builder(Types.ROW_NAMED(["x"], [kind])).build()
    with pytest.raises(ValueError, match="cannot be read as CSV"):
        csv.deserialize(text.encode())
    if kind != Types.BOOLEAN():
        with pytest.raises(ValueError, match="cannot be read as JSON"):
            json_reader(kind).deserialize(f'{{"x":"{text}"}}'.encode())


@pytest.mark.parametrize(
    ("text", "kind", "value"), [(text, kind, value) for text, kinds, value in READ for kind in kinds]
)
def test_what_other_programs_write_is_read(text, kind, value):
    """Spaces, signs and zeros of other programs would end the job."""
    assert converter(kind)(text) == value
    assert list(column_converter(kind)([text, text])) == [value, value]


def test_elements_of_arrays_are_texts_too():
    """A column of lists would take what one of numbers refuses."""
    schema = CsvSchema.builder().add_array_column("x", ";", int).build()
    with pytest.raises(ValueError):
        schema.columns["x"]("1;2_3")
    assert schema.columns["x"]("1;23") == [1, 23]


def test_messages_may_begin_with_a_byte_order_mark():
    """A message of .NET would be no JSON, and the first field of a line of CSV another text."""
    marked, plain = BOM + b'{"x":1}', b'{"x":2}'
    assert JsonDeserializationSchema().deserialize(marked) == {"x": 1}
    assert JsonDeserializationSchema().deserialize_batch([plain, marked]) == [{"x": 2}, {"x": 1}]
    rows = json_reader(Types.INT()).deserialize_batch([plain, marked, None])
    assert [row and row["x"] for row in rows] == [2, 1, None]
    line = CsvRowDeserializationSchema.Builder(Types.ROW_NAMED(["x"], [Types.STRING()])).build()
    assert [row["x"] for row in line.deserialize_batch([b"a", BOM + b'"b"'])] == ["a", "b"]
    assert line.deserialize(BOM + b"b\n")["x"] == "b"
    for message in (BOM, BOM + BOM + b"1", b"\xef\xbb1"):
        with pytest.raises(ValueError):
            JsonDeserializationSchema().deserialize(message)
        with pytest.raises(ValueError):
            JsonDeserializationSchema().deserialize_batch([message])
