"""Numbers, times and bytes in JSON and CSV are those of the message, or the message is refused, as in Flink."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any

import pytest

from penstock.common import Instant, Row, Types
from penstock.common.typeinfo import LocalTimeTypeInfo, TypeInformation
from penstock.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema
from penstock.datastream.formats.json import (
    JsonDeserializationSchema,
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
    JsonSerializationSchema,
)

LOCAL = LocalTimeTypeInfo.TimeType
BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
BOUNDED = [(Types.BYTE(), 8), (Types.SHORT(), 16), (Types.INT(), 32), (Types.LONG(), 64)]


def of(kind: TypeInformation) -> TypeInformation:
    return Types.ROW_NAMED(["v"], [kind])


def from_json(kind: TypeInformation, *texts: str) -> list[Any]:
    """The values of messages that come together."""
    schema = JsonRowDeserializationSchema.builder().type_info(of(kind)).build()
    return [row["v"] for row in schema.deserialize_batch([f'{{"v":{text}}}'.encode() for text in texts])]


def to_json(kind: TypeInformation, value: Any) -> str:
    return JsonRowSerializationSchema.builder().with_type_info(of(kind)).build().serialize((value,)).decode()[5:-1]


def from_csv(kind: TypeInformation, text: str) -> Any:
    return CsvRowDeserializationSchema.Builder(of(kind)).build().deserialize(text.encode())["v"]


@pytest.mark.parametrize("text", ["12345678901234567890.123456789012345678", "0.10000000000000000001", "1E+400", "7"])
def test_decimals_have_all_their_digits(text: str) -> None:
    """Amounts would silently change in their last digits."""
    for written in (text, f'"{text}"'):
        # Alone, and together with a message of a similar type.
        assert from_json(Types.BIG_DEC(), written, '"1"') == [Decimal(text), 1]
        assert from_json(Types.LIST(Types.BIG_DEC()), f"[{written}]") == [[Decimal(text)]]
    both = Types.ROW_NAMED(["v", "n"], [Types.BIG_DEC(), Types.INT()])
    schema = JsonRowDeserializationSchema.builder().type_info(both).build()
    assert schema.deserialize(f'{{"v":{text},"n":"1"}}'.encode()) == Row(v=Decimal(text), n=1)
    assert from_csv(Types.BIG_DEC(), text) == Decimal(text)
    assert Decimal(to_json(Types.BIG_DEC(), Decimal(text))) == Decimal(text)


@pytest.mark.parametrize(("kind", "bits"), BOUNDED, ids=str)
def test_integers_are_in_the_bounds_of_their_type(kind: TypeInformation, bits: int) -> None:
    """An integer that is too large would be cut to another one where its column has the type's width."""
    least, most = -(1 << bits - 1), (1 << bits - 1) - 1
    assert from_json(kind, str(least), str(most)) == from_json(kind, f'"{least}"', f'"{most}"') == [least, most]
    assert [from_csv(kind, str(value)) for value in (least, most)] == [least, most]
    for beyond in (least - 1, most + 1, 10**30):
        for text in (str(beyond), f'"{beyond}"'):
            with pytest.raises(ValueError, match=r"is not of type \w+ \(from"):
                from_json(kind, text)
        with pytest.raises(ValueError, match=r"is not of type \w+ \(from"):
            from_csv(kind, str(beyond))
    assert from_json(Types.BIG_INT(), str(10**30)) == [10**30] == [from_csv(Types.BIG_INT(), str(10**30))]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Types.INT(), "true"),
        (Types.INT(), '"1_0"'),
        (Types.INT(), "1e999999999"),
        (Types.INT(), "{}"),
        (Types.BYTE(), "1.5"),
        (Types.BIG_INT(), "1.5"),
        (Types.BIG_INT(), "1e999999999"),
        (Types.DOUBLE(), "true"),
        (Types.DOUBLE(), "NaN"),
        (Types.DOUBLE(), '"inf"'),
        (Types.DOUBLE(), '"1_0"'),
        (Types.BIG_DEC(), '"NaN"'),
        (Types.BIG_DEC(), "true"),
        (Types.BIG_DEC(), '"1_0"'),
        (Types.LIST(Types.STRING()), '"abc"'),
        (Types.LIST(Types.STRING()), '{"k":1}'),
        (Types.OBJECT_ARRAY(Types.STRING()), '"abc"'),
        (Types.MAP(Types.STRING(), Types.INT()), "[1]"),
        (Types.MAP(Types.INT(), Types.INT()), '{"x":1}'),
        (BYTES, '"a!b@c#d$"'),
        (BYTES, '"YWI"'),
        (BYTES, '"-_8="'),
        (BYTES, "5"),
        (Types.SQL_TIMESTAMP(), "5"),
    ],
    ids=str,
)
def test_what_a_type_does_not_have_is_refused(kind: TypeInformation, text: str) -> None:
    """Letters of a text would be the items of a list, and bytes those of another text."""
    with pytest.raises(ValueError, match="cannot be read as JSON"):
        from_json(kind, text)
    schema = JsonRowDeserializationSchema.builder().type_info(of(kind)).ignore_parse_errors().build()
    assert schema.deserialize(f'{{"v":{text}}}'.encode()) is None


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Types.INT(), "1_0"),
        (Types.DOUBLE(), "1_0"),
        (Types.DOUBLE(), "inf"),
        (Types.BIG_DEC(), "NaN"),
        (BYTES, "a!b@"),
    ],
    ids=str,
)
def test_csv_refuses_the_same(kind: TypeInformation, text: str) -> None:
    """A field would be another one in CSV than in JSON."""
    with pytest.raises(ValueError, match="cannot be read as CSV"):
        from_csv(kind, text)


@pytest.mark.parametrize(
    ("text", "value"), [(" true ", True), ("TRUE", True), ("1", True), ("false ", False), ("0", False)]
)
def test_csv_reads_truth_with_spaces_around(text: str, value: bool) -> None:
    """A message that other programs have aligned, and Flink reads, would fail the job."""
    assert from_csv(Types.BOOLEAN(), text) is value
    with pytest.raises(Exception, match="expected true, false, 1 or 0"):
        from_csv(Types.BOOLEAN(), "yes")


def test_what_is_near_is_read() -> None:
    """Messages that Flink reads would be refused."""
    assert from_json(Types.INT(), "1.5", "1e3", '" 12 "') == [1, 1000, 12]
    assert from_json(Types.DOUBLE(), '" 1.5 "', "1e400") == [1.5, math.inf]
    assert from_json(Types.MAP(Types.INT(), Types.INT()), '{"1":2}') == [{1: 2}]
    assert from_json(BYTES, '"YW\\nJj\\r\\n"') == [b"abc"]
    assert from_json(Types.STRING(), "1.10", '{"a":12345678901234567890.1}') == ["1.10", '{"a":12345678901234567890.1}']


@pytest.mark.parametrize(
    ("value", "text"), [(math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity")], ids=str
)
def test_floats_that_are_no_numbers(value: float, text: str) -> None:
    """They would be null in JSON, and so be lost; other programs could not read them in CSV."""
    for kind in (Types.DOUBLE(), Types.FLOAT()):
        assert to_json(kind, value) == f'"{text}"'
        assert repr(from_json(kind, f'"{text}"')) == repr([value])
        assert CsvRowSerializationSchema.Builder(of(kind)).build().serialize((value,)) == f"{text}\n".encode()
        assert repr(from_csv(kind, text)) == repr(value)
    assert to_json(Types.MAP(Types.STRING(), Types.LIST(Types.DOUBLE())), {"k": [value]}) == f'{{"k":["{text}"]}}'
    plain = JsonSerializationSchema()
    record = {"a": (value, 1.5, None), 1: Row(b=value), "d": Decimal("1.10"), "t": dt.date(2020, 1, 2)}
    expected = f'{{"a":["{text}",1.5,null],"1":{{"b":"{text}"}},"d":"1.10","t":"2020-01-02"}}'
    assert plain.serialize(record) == expected.encode()
    assert plain.serialize(value) == f'"{text}"'.encode() and plain.serialize(None) == b"null"


def test_decimals_that_are_no_numbers_are_not_written() -> None:
    """The message would be no JSON, and none of its readers could read it."""
    for kind in (Types.BIG_DEC(), Types.DOUBLE()):
        with pytest.raises(ValueError, match="is not a number"):
            to_json(kind, Decimal("NaN"))


TIMES: list[tuple[TypeInformation, Any, str]] = [
    (Types.SQL_TIMESTAMP(), dt.datetime(2020, 1, 2, 3, 4, 5), "2020-01-02T03:04:05Z"),
    (Types.SQL_TIMESTAMP(), dt.datetime(2020, 1, 2, 3, 4, 5, 123456), "2020-01-02T03:04:05.123456Z"),
    (LocalTimeTypeInfo(LOCAL.LOCAL_DATE_TIME), dt.datetime(2020, 1, 2, 3, 4, 5), "2020-01-02T03:04:05Z"),
    (Types.SQL_TIME(), dt.time(3, 4, 5), "03:04:05Z"),
    (LocalTimeTypeInfo(LOCAL.LOCAL_TIME), dt.time(3, 4, 5, 123000), "03:04:05.123000Z"),
    (Types.SQL_DATE(), dt.date(2020, 1, 2), "2020-01-02"),
    (LocalTimeTypeInfo(LOCAL.LOCAL_DATE), dt.date(2020, 1, 2), "2020-01-02"),
    (Types.INSTANT(), Instant(1_577_934_245, 123_456_789), "2020-01-02T03:04:05.123456789Z"),
    (Types.INSTANT(), Instant(-1, 0), "1969-12-31T23:59:59Z"),
    (Types.INSTANT(), Instant(-1, 500_000_000), "1969-12-31T23:59:59.500000000Z"),
]


@pytest.mark.parametrize(("kind", "value", "text"), TIMES, ids=str)
def test_times_are_utc(kind: TypeInformation, value: Any, text: str) -> None:
    """Flink would read none of them: it knows times with a Z only."""
    assert to_json(kind, value) == f'"{text}"'
    assert from_json(kind, f'"{text}"') == from_json(kind, f'"{text.removesuffix("Z")}"') == [value]
    assert to_json(Types.LIST(kind), [value, None]) == f'["{text}",null]'


def test_times_of_other_zones_are_written_in_utc() -> None:
    """Flink reads no other zone, and without one it would be another moment."""
    zone = dt.timezone(dt.timedelta(hours=2))
    assert to_json(Types.SQL_TIMESTAMP(), dt.datetime(2020, 1, 2, 3, tzinfo=zone)) == '"2020-01-02T01:00:00Z"'
    assert from_json(Types.INSTANT(), '"1970-01-01T02:00:00.000000001+02:00"') == [Instant(0, 1)]


@dataclasses.dataclass
class Price:
    amount: Decimal
    note: str = ""
    others: dict[str, list[Decimal]] = dataclasses.field(default_factory=dict)
    share: float = 0.5


PYTHONS = ["1_000", "\u0661\u0662", " 1_0", "1_0e5"]


@pytest.mark.parametrize("text", PYTHONS)
def test_a_decimal_of_a_class_is_no_literal_of_python(text: str) -> None:
    """What any other program refuses would be read as a number."""
    schema = JsonDeserializationSchema(Price)
    escaped = json.dumps(text)
    for told, written in [(r"\$\.amount", text), (r"\$\.amount", escaped[1:-1]), (r"\$\.others", text)]:
        amount, other = ("7", written) if "others" in told else (written, "7")
        message = f'{{"amount": "{amount}", "share": 0.1, "others": {{"a": ["{other}"]}}}}'.encode()
        with pytest.raises(ValueError, match=rf"Invalid decimal string - at `{told}"):
            schema.deserialize_batch([message])
        with pytest.raises(ValueError, match="decimal"):
            schema.deserialize(message)


@pytest.mark.parametrize("text", [*PYTHONS, "Zürich", "a_b", "\\u00fc"])
def test_texts_beside_decimals_are_any_texts(text: str) -> None:
    """A serial number that looks like a literal of Python would make its message a bad one."""
    message = f'{{"amount": 1.2345678901234567890123456789, "note": "{text}", "others": {{"{text}": [1e400]}}}}'
    found = JsonDeserializationSchema(Price).deserialize(message.encode())
    note = json.loads(f'"{text}"')
    assert found == Price(Decimal("1.2345678901234567890123456789"), note, {note: [Decimal("1e400")]})
