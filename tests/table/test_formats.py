"""Formats of tables: rows to messages and back, on generated values, and what Flink converts and refuses."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from penstock.table.connectors.formats.message_format import (
    MessageFormat,
    UnreadableMessageError,
    format_class,
    format_names,
)

SEEDS = range(5)
SINGLE: dict[str, tuple[pa.DataType, Callable[[Random], Any]]] = {
    "flag": (pa.bool_(), lambda random: random.random() < 0.5),
    "tiny": (pa.int8(), lambda random: random.randint(-128, 127)),
    "number": (pa.int32(), lambda random: random.randint(-(2**31), 2**31 - 1)),
    "long": (pa.int64(), lambda random: random.randint(-(2**63), 2**63 - 1)),
    "float": (pa.float32(), lambda random: random.choice([0.5, -0.0, 1.5e10])),
    "double": (pa.float64(), lambda random: random.choice([0.1, 1e300, -2.5e-7, 3.0])),
    "text": (pa.string(), lambda random: random.choice(["", "a", 'q"uote', "new\nline", "comma,", "é€", "#", "\\"])),
    "price": (pa.decimal128(10, 2), lambda random: Decimal(random.randint(-999, 999)) / 100),
    "tiny_price": (pa.decimal128(20, 12), lambda random: Decimal(random.randint(-999, 999)).scaleb(-12)),
    "day": (pa.date32(), lambda random: date(1969, 12, 30) + timedelta(days=random.randint(0, 20_000))),
    "clock": (pa.time32("ms"), lambda random: time(random.randint(0, 23), random.randint(0, 59), 7)),
    "moment": (pa.timestamp("ms"), lambda random: datetime(2024, 2, 29, 1, 0, 0, random.choice([0, 10_000, 123_000]))),
    "instant": (pa.timestamp("us", "UTC"), lambda random: datetime(2024, 1, 1, 0, 0, 9, random.choice([0, 5]), UTC)),
    "blob": (pa.binary(), lambda random: random.randbytes(random.randint(0, 5))),
}
"""Columns of single values: their type, and how a value is drawn."""
NESTED: dict[str, tuple[pa.DataType, Callable[[Random], Any]]] = {
    "items": (pa.list_(pa.int32()), lambda random: [random.choice([None, 1, 2]) for _ in range(random.randint(0, 3))]),
    "row": (
        pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))]),
        lambda random: {"a": random.randint(0, 9), "b": random.choice([None, [], ["x", None]])},
    ),
    "map": (pa.map_(pa.string(), pa.float64()), lambda random: [("k", 0.5), ('q"', None)][: random.randint(0, 2)]),
}


def format_of(name: str, **options: Any) -> MessageFormat:
    """Return a format. `options`: by their keys, with _ for - and dots."""
    found = format_class(name)
    assert found is not None
    keys = {one.key.replace("-", "_").replace(".", "_"): one for one in found.options}
    assert options.keys() <= keys.keys()
    return found({one.key: options.get(name, one.default) for name, one in keys.items()})


def drawn(random: Random, columns: dict[str, Any], rows: int, null_rate: float = 0.2) -> pa.RecordBatch:
    """Return rows of these columns, some of whose values are NULL."""
    schema = pa.schema([(name, kind) for name, (kind, _) in columns.items()])
    values = [
        {name: None if random.random() < null_rate else draw(random) for name, (_, draw) in columns.items()}
        for _ in range(rows)
    ]
    return pa.RecordBatch.from_pylist(values, schema=schema)


CASES = {
    "json": ({}, {**SINGLE, **NESTED}),
    "csv": ({"null_literal": "NULL"}, SINGLE),
    "avro": ({"timestamp_mapping_legacy": False}, {**SINGLE, **NESTED}),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", SEEDS)
def test_rows_come_back_from_their_messages(name: str, seed: int) -> None:
    """Whole columns and single values are decoded by different code, which must agree."""
    options, columns = CASES[name]
    batch = drawn(Random(seed), columns, 40)
    form = pickle.loads(pickle.dumps(format_of(name, **options)))
    messages = list(form.encoder(batch.schema)(batch))
    decoder = form.decoder(batch.schema)
    found = decoder.decode(messages, lambda: pytest.fail("a message was skipped"))
    assert found.places is None
    assert found.batch.to_pylist() == batch.to_pylist()
    single = pa.RecordBatch.from_pylist([decoder.single(message) for message in messages], schema=batch.schema)
    assert single.to_pylist() == batch.to_pylist()


@pytest.mark.parametrize("seed", SEEDS)
def test_usual_messages_are_decoded_as_a_whole(seed: int) -> None:
    """The path for whole columns must not be left for values that most tables have."""
    random = Random(seed)
    columns = {name: one for name, one in {**SINGLE, **NESTED}.items() if name != "text"}
    batch = drawn(random, columns, 30)
    json_decoder = format_of("json").decoder(batch.schema)
    assert json_decoder.usual(list(format_of("json").encoder(batch.schema)(batch))).equals(batch)
    flat = drawn(random, {name: one for name, one in SINGLE.items() if name not in ("text", "blob", "price")}, 30, 0)
    flat = flat.drop_columns(["tiny_price"])
    csv = format_of("csv")
    assert csv.decoder(flat.schema).usual(list(csv.encoder(flat.schema)(flat))).equals(flat)


@pytest.mark.parametrize("null_rate", [0.05, 0.5, 0.95, 1.0])
def test_rows_in_rows_that_are_mostly_there_or_mostly_missing(null_rate: float) -> None:
    """Rows that are missing would have values of others, or NULLs instead of themselves."""
    inner = pa.struct([("a", pa.int64()), ("b", pa.string()), ("c", pa.struct([("d", pa.timestamp("ms"))]))])
    value = {"a": 1, "b": "x", "c": {"d": datetime(2024, 1, 1)}}
    random = Random(7)
    columns = {"number": (pa.int32(), lambda random: random.randint(0, 99)), "row": (inner, lambda _: value)}
    batch = drawn(random, columns, 200, null_rate)
    messages = list(format_of("json").encoder(batch.schema)(batch))
    assert format_of("json").decoder(batch.schema).usual(messages).to_pylist() == batch.to_pylist()


@pytest.mark.parametrize(
    "kind", [pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC")]
)
@pytest.mark.parametrize(("standard", "separator"), [("SQL", " "), ("ISO-8601", "T")])
def test_texts_that_are_almost_times(kind: pa.TimestampType, standard: str, separator: str) -> None:
    """A whole column would take texts that Flink refuses, or read them as another time than one by one."""
    random = Random(11)
    schema = pa.schema([("t", kind)])
    decoder = format_of("json", timestamp_format_standard=standard).decoder(schema)
    zone, usual, count = "" if kind.tz is None else "Z", b"{}", 0
    for _ in range(300):
        text = f"2024-02-{random.choice([28, 29, 29, 30])}{random.choice(f'{3 * separator} T')}"
        text += random.choice(["22", "23", "24"])
        text += random.choice([":59", *[f":59:{random.randint(57, 60)}"] * 9])
        text += random.choice(["", "", ".", "." + "1234567891"[: random.randint(1, 10)]])
        text += random.choice([zone, zone, zone, "", "Z", "+01:00"])
        if random.random() < 0.3:
            place = random.randrange(len(text))
            text = text[:place] + random.choice(["", *"0:-. TZé"]) + text[place + random.randint(0, 1) :]
        messages = [b"{}", usual, json.dumps({"t": text}).encode()]
        try:
            found = decoder.usual(messages)
        except ValueError:
            continue
        count, usual = count + 1, messages[-1]
        single = [decoder.single(message) for message in messages]
        assert found.equals(pa.RecordBatch.from_pylist(single, schema=schema)), text
    assert count >= 5


JSON_VALUES: list[tuple[pa.DataType, Any, Any]] = [
    (pa.int32(), " 7 ", 7),
    (pa.int32(), 1.9, 1),
    (pa.int8(), "12", 12),
    (pa.int64(), True, ValueError),
    (pa.int8(), 128, ValueError),
    (pa.int32(), "x", ValueError),
    (pa.string(), 5, "5"),
    (pa.string(), 1.5, "1.5"),
    (pa.string(), True, "true"),
    (pa.string(), {"a": [1]}, '{"a":[1]}'),
    (pa.bool_(), "TRUE", True),
    (pa.bool_(), 1, False),
    (pa.float64(), "1e3", 1000.0),
    (pa.float64(), 3, 3.0),
    (pa.decimal128(5, 2), 1.005, Decimal("1.01")),
    (pa.decimal128(3, 2), 12345, None),
    (pa.timestamp("ms"), "2024-01-01 00:00:00.1239", datetime(2024, 1, 1, 0, 0, 0, 123_000)),
    (pa.timestamp("ms"), "2024-01-01T00:00:00", ValueError),
    (pa.timestamp("ms", "UTC"), "2024-01-01 00:00:00", ValueError),
    (pa.date32(), "2024-02-30", ValueError),
    (pa.list_(pa.int32()), 5, TypeError),
    (pa.struct([("a", pa.int32())]), [], TypeError),
]


@pytest.mark.parametrize(("kind", "given", "expected"), JSON_VALUES, ids=lambda one: str(one)[:40])
def test_values_of_json_become_those_of_sql_as_in_flink(kind: pa.DataType, given: Any, expected: Any) -> None:
    """A producer that writes numbers as texts works with Flink, and would fail here."""
    schema = pa.schema([("f", kind)])
    message = json.dumps({"f": given}).encode()
    lenient = format_of("json", ignore_parse_errors=True).decoder(schema)
    decoder = format_of("json").decoder(schema)
    if isinstance(expected, type):
        with pytest.raises(UnreadableMessageError, match="'f'"):
            decoder.decode([message], lambda: None)
        expected = None
    else:
        assert decoder.decode([message], lambda: None).batch.to_pylist() == [{"f": expected}]
    # A field that cannot be converted is NULL, its row remains.
    assert lenient.decode([message], lambda: None).batch.to_pylist() == [{"f": expected}]


def numbers(name: str, messages: Sequence[bytes], **options: Any) -> tuple[list[Any], list[int] | None, int]:
    """Return the values of the column n, the places of their messages, and how many were skipped."""
    skipped: list[int] = []
    schema = pa.schema([("n", pa.int64()), ("s", pa.string())])
    found = format_of(name, **options).decoder(schema).decode(list(messages), lambda: skipped.append(1))
    places = None if found.places is None else found.places.tolist()
    return found.batch.column("n").to_pylist(), places, len(skipped)


@pytest.mark.parametrize(("name", "bad"), [("json", b"{"), ("json", b"5"), ("csv", b'"x'), ("csv", b"1,2,3,4")])
def test_a_poison_message_is_skipped_or_named(name: str, bad: bytes) -> None:
    """The messages around it must keep their places, which tell offsets and keys."""
    good = [b'{"n":%d,"s":"x"}' % n if name == "json" else b"%d,x" % n for n in range(100)]
    messages = [*good[:60], bad, *good[60:]]
    found, places, skipped = numbers(name, messages, ignore_parse_errors=True)
    assert (found, skipped) == (list(range(100)), 1)
    assert places == [place for place in range(101) if place != 60]
    with pytest.raises(UnreadableMessageError) as raised:
        numbers(name, messages)
    assert raised.value.position == 60


def test_columns_that_are_not_read_are_not_converted() -> None:
    """A query would fail because of a column that it does not need: Flink converts all of them."""
    message = b'{"a": 1, "b": "not a number"}'
    found = format_of("json").decoder(pa.schema([("a", pa.int32())])).decode([message], lambda: None)
    assert found.batch.to_pylist() == [{"a": 1}]
    with pytest.raises(UnreadableMessageError):
        both = pa.schema([("a", pa.int32()), ("b", pa.int32())])
        format_of("json").decoder(both).decode([message], lambda: None)


def test_messages_without_a_row_are_left_out() -> None:
    """They would become rows of NULL."""
    assert numbers("json", [b"null", b'{"n":1}']) == ([1], [1], 0)
    assert numbers("csv", [b"", b"1,x", b"# note"], allow_comments=True) == ([1], [1], 0)


def test_missing_fields() -> None:
    """A message of another version would fail the job, or pass unseen, against the options."""
    assert numbers("json", [b'{"s":"x"}'])[0] == [None]
    with pytest.raises(UnreadableMessageError, match="no field 'n'"):
        numbers("json", [b'{"s":"x"}'], fail_on_missing_field=True)
    with pytest.raises(UnreadableMessageError, match="expected 2 fields, got 1"):
        numbers("csv", [b"1"])
    assert numbers("csv", [b"1"], ignore_parse_errors=True)[0] == [1]


@pytest.mark.parametrize(
    ("standard", "text", "words"),
    [
        ("SQL", "2024-01-31T23:59:59", "timestamp-format.standard = ISO-8601: set this option"),
        ("ISO-8601", "2024-01-31 23:59:59", "timestamp-format.standard = SQL: set this option"),
        ("SQL", "31.01.2024", "expected a timestamp such as 2024-01-31 23:59:59.999, got '31.01.2024'"),
    ],
)
def test_timestamps_of_the_other_standard_name_the_option(standard: str, text: str, words: str) -> None:
    """The error would miss a time of day in a text that has one."""
    schema = pa.schema([("at", pa.timestamp("ms"))])
    decoder = format_of("json", timestamp_format_standard=standard).decoder(schema)
    with pytest.raises(UnreadableMessageError, match=words):
        decoder.decode([json.dumps({"at": text}).encode()], lambda: None)


@pytest.mark.parametrize("text", ["x", "1.5", "", str(1 << 63), "-" + str((1 << 63) + 1)])
def test_a_field_of_csv_that_cannot_be_converted(text: str) -> None:
    """Its row would be lost with it, where Flink keeps the other fields."""
    message = f"{text},s".encode()
    assert numbers("csv", [message], ignore_parse_errors=True) == ([None], None, 0)
    with pytest.raises(UnreadableMessageError, match="field 'n'"):
        numbers("csv", [message])


def test_how_json_is_written() -> None:
    """Readers that know what Flink writes would fail."""
    schema = pa.schema(
        [("s", pa.string()), ("p", pa.decimal128(20, 10)), ("t", pa.timestamp("ms")), ("d", pa.float64())]
    )
    row = {"s": None, "p": Decimal("0.0000000270"), "t": datetime(2024, 1, 1, 0, 0, 10), "d": float("nan")}
    batch = pa.RecordBatch.from_pylist([row], schema=schema)
    assert format_of("json").encoder(schema)(batch) == [b'{"s":null,"p":2.70E-8,"t":"2024-01-01 00:00:10","d":"NaN"}']
    other = format_of(
        "json",
        encode_ignore_null_fields=True,
        encode_decimal_as_plain_number=True,
        timestamp_format_standard="ISO-8601",
    )
    assert other.encoder(schema)(batch) == [b'{"p":0.0000000270,"t":"2024-01-01T00:00:10","d":"NaN"}']


def test_keys_of_maps_that_come_twice() -> None:
    """A key that comes twice would make an object that parsers read differently."""
    schema = pa.schema([("m", pa.map_(pa.string(), pa.int32()))])
    batch = pa.RecordBatch.from_pylist([{"m": [("b", 1), ("b", 2)]}], schema=schema)
    assert format_of("json").encoder(schema)(batch) == [b'{"m":{"b":2}}']


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (pa.string(), "é", "é".encode()),
        (pa.int32(), 258, b"\x00\x00\x01\x02"),
        (pa.float64(), 1.0, b"?\xf0" + bytes(6)),
        (pa.bool_(), True, b"\x01"),
        (pa.binary(), b"\xff", b"\xff"),
    ],
)
def test_raw_messages(kind: pa.DataType, value: Any, message: bytes) -> None:
    """Other programs would read other numbers."""
    schema = pa.schema([("v", kind)])
    form = format_of("raw")
    batch = pa.RecordBatch.from_pylist([{"v": value}], schema=schema)
    assert list(form.encoder(schema)(batch)) == [message]
    assert form.decoder(schema).decode([message], lambda: None).batch.equals(batch)
    if kind in (pa.int32(), pa.float64()):
        with pytest.raises(UnreadableMessageError, match="bytes"):
            form.decoder(schema).decode([b"\x00"], lambda: None)


@pytest.mark.parametrize(
    ("charset", "text", "message", "other"),
    [
        ("ISO-8859-1", "é€", b"\xe9?", "é?"),
        ("windows-1252", "é€", b"\xe9\x80", "é€"),
        ("UTF-16", "é", b"\xfe\xff\x00\xe9", "é"),
        ("UTF-16", "", b"", ""),
        ("UTF-16LE", "é", b"\xe9\x00", "é"),
        ("UTF-32", "é", b"\x00\x00\x00\xe9", "é"),
        ("US-ASCII", "é", b"?", "?"),
    ],
)
def test_raw_texts_in_other_charsets(charset: str, text: str, message: bytes, other: str) -> None:
    """A text that the charset does not have would fail the job, and Java's programs would read other texts."""
    schema = pa.schema([("v", pa.string())])
    form = format_of("raw", charset=charset)
    assert list(form.encoder(schema)(pa.RecordBatch.from_pylist([{"v": text}], schema=schema))) == [message]
    assert form.decoder(schema).decode([message], lambda: None).batch.to_pylist() == [{"v": other}]


@pytest.mark.parametrize(
    ("message", "text"), [(b"\xff\xfe\xe9\x00", "é"), (b"\x00\xe9", "é"), (b"\xfe\xff\x00\xe9", "é")]
)
def test_raw_texts_that_name_their_order(message: bytes, text: str) -> None:
    """Texts of Java without a mark have the order that this machine does not have."""
    schema = pa.schema([("v", pa.string())])
    found = format_of("raw", charset="UTF-16").decoder(schema).decode([message], lambda: None)
    assert found.batch.to_pylist() == [{"v": text}]


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (pa.int8(), -2, b"\xfe"),
        (pa.int16(), 258, b"\x02\x01"),
        (pa.int64(), 1, b"\x01" + bytes(7)),
        (pa.float32(), 1.0, b"\x00\x00\x80?"),
        (pa.bool_(), False, b"\x00"),
    ],
)
def test_raw_numbers_in_the_other_order(kind: pa.DataType, value: Any, message: bytes) -> None:
    """Other programs would read other numbers, and NULL would be one."""
    schema = pa.schema([("v", kind)])
    form = format_of("raw", endianness="little-endian")
    batch = pa.RecordBatch.from_pylist([{"v": value}, {"v": None}], schema=schema)
    assert list(form.encoder(schema)(batch)) == [message, None]
    assert form.decoder(schema).decode([message, None], lambda: None).batch.equals(batch)  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("json", {"fail_on_missing_field": True, "ignore_parse_errors": True}, "can't both be true"),
        ("json", {"timestamp_format_standard": "RFC"}, "must be SQL or ISO-8601"),
        ("csv", {"field_delimiter": ",,"}, "one character"),
        ("csv", {"disable_quote_character": True, "quote_character": "'"}, "can't be set"),
        ("raw", {"endianness": "middle"}, "big-endian or little-endian"),
        ("raw", {"charset": "nope"}, "no charset"),
        ("raw", {"charset": "hex"}, "no charset"),
        ("avro", {"encoding": "json"}, "must be binary"),
    ],
)
def test_options_that_are_refused(name: str, options: dict[str, Any], reason: str) -> None:
    """Options that contradict each other would have a meaning by chance."""
    with pytest.raises(ValueError, match=reason):
        format_of(name, **options)


@pytest.mark.parametrize("name", format_names())
def test_types_that_formats_do_not_have(name: str) -> None:
    """The job would fail with its first row instead of at its start."""
    schema = pa.schema([("d", pa.duration("ms")), ("e", pa.string())])
    for make in (format_of(name).decoder, format_of(name).encoder):
        with pytest.raises(ValueError, match=r"duration|INTERVAL|one column"):
            make(schema)
