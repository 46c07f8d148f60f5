"""The forms of columns on an edge: any column arrives as it was sent, and has a form only where that pays."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from typing import Any

import numpy
import pyarrow
import pytest

from penstock.engine.runtime.chunks import ChunkKind, EncodedColumns
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.codec import decoder, encoded
from penstock.engine.runtime.network.buffer import NO_KEY_GROUP, Header, decode_items, encode
from penstock.engine.runtime.network.edge import EdgeInfo
from penstock.engine.runtime.network.worth import ROW_BYTE_NS, SHARED_BYTE_NS

ALWAYS = 1e9
"""A price of bytes at which every form pays that saves any."""
ROWS = 3_000
WIDTHS = (0, 1, 8, 9, 16, 17, 32, 33, 62)


def integers(kind: pyarrow.DataType, bits: int) -> Callable[[random.Random], Any]:
    """Return a function that makes values of so many bits, at any place of the type's range."""
    least = 0 if str(kind).startswith("uint") else -(1 << (kind.bit_width - 1))
    most = least + (1 << kind.bit_width) - 1
    span = min((1 << bits) - 1, most - least)
    low = random.Random(f"{kind} {bits}").choice([least, most - span, max(least, -7), (least + most - span) // 2])
    return lambda rng: min(most, low + rng.randint(0, span))


def texts(distinct: int, length: int) -> Callable[[random.Random], Any]:
    """Return a function that makes one of so many texts, up to this length."""
    made = ["ä" * (number % (length + 1)) + str(number) for number in range(distinct)]
    return lambda rng: rng.choice(made)


COLUMNS: dict[str, tuple[pyarrow.DataType, Callable[[random.Random], Any]]] = {
    **{
        f"{kind} of {bits} bits": (kind, integers(kind, bits))
        for kind in (pyarrow.type_for_alias(f"{sign}int{width}") for sign in ("", "u") for width in (8, 16, 32, 64))
        for bits in WIDTHS
    },
    "dates": (pyarrow.date32(), lambda rng: datetime.date.fromordinal(700_000 + rng.randint(0, 300))),
    "times of a day": (pyarrow.time64("us"), lambda rng: datetime.time(3, 4, 5, rng.randint(0, 999_999))),
    "times": (pyarrow.timestamp("us", "UTC"), lambda rng: rng.randint(-1_000, 1_000) * 1_000),
    "durations": (pyarrow.duration("ns"), lambda rng: rng.randint(0, 1 << 40)),
    "few texts": (pyarrow.string(), texts(20, 9)),
    "one text": (pyarrow.string(), texts(1, 3)),
    "many texts": (pyarrow.string(), texts(100_000, 9)),
    "three hundred texts": (pyarrow.large_string(), texts(300, 12)),
    "empty texts": (pyarrow.string(), lambda rng: ""),
    "long texts": (pyarrow.string(), texts(2, 3_000)),
    "bytes": (pyarrow.binary(), lambda rng: rng.randbytes(rng.randint(0, 3))),
    "large bytes": (pyarrow.large_binary(), lambda rng: rng.randbytes(rng.randint(0, 3))),
    "floats": (pyarrow.float64(), lambda rng: rng.choice([0.0, -0.0, 1.5, float("inf")])),
    "booleans": (pyarrow.bool_(), lambda rng: rng.random() < 0.5),
    "lists": (pyarrow.list_(pyarrow.int64()), lambda rng: [1] * rng.randint(0, 2)),
    "structs": (pyarrow.struct({"a": pyarrow.int64(), "b": pyarrow.string()}), lambda rng: {"a": 1, "b": "x"}),
}  # fmt: skip


def column_of(name: str, nulls: float) -> pyarrow.Array:
    """Return generated values of a kind of column, with such a share of nulls, as a slice of more."""
    kind, make = COLUMNS[name]
    rng = random.Random(f"{name} {nulls}")
    made = [None if rng.random() < nulls else make(rng) for _ in range(ROWS + 100)]
    return pyarrow.array(made, kind)[37 : 37 + ROWS]


def arrived(sent: EncodedColumns, schema: pyarrow.Schema) -> Columns:
    """Return what a receiver decodes."""
    info = EdgeInfo(1, 0, 1, 1, source_level=0, target_level=1, widths=(1, 1), schema=schema.serialize().to_pybytes())
    return decoder(info)(sent)


def sent_bytes(batch: pyarrow.RecordBatch, byte_ns: float = ROW_BYTE_NS) -> int:
    """Return the size of the buffer of a chunk."""
    header = Header(NO_KEY_GROUP, 1, 0, sequence=0, target=0, attempt=0, kind=ChunkKind.COLUMNS)
    return len(encode(header, [encoded(Columns(batch), byte_ns)]))


@pytest.mark.parametrize("byte_ns", [ALWAYS, ROW_BYTE_NS, SHARED_BYTE_NS])
@pytest.mark.parametrize("nulls", [0, 0.3, 1])
@pytest.mark.parametrize("name", COLUMNS)
def test_any_column_arrives_as_it_was_sent(name: str, nulls: float, byte_ns: float) -> None:
    """Values, nulls or types would change on the way."""
    other = pyarrow.array(numpy.random.default_rng(1).random(ROWS))
    batch = pyarrow.record_batch({"before": other, "x": column_of(name, nulls), "after": other})
    header = Header(NO_KEY_GROUP, 1, 0, sequence=0, target=0, attempt=0, kind=ChunkKind.COLUMNS)
    (item,) = decode_items(encode(header, [encoded(Columns(batch), byte_ns)]))
    assert isinstance(item, EncodedColumns)
    received = arrived(item, batch.schema).batch
    received.validate(full=True)
    assert received.schema == batch.schema and received.equals(batch)
    assert received.column("x").null_count == batch.column("x").null_count


@pytest.mark.parametrize(
    ("name", "nulls", "most"),
    [
        ("int64 of 0 bits", 0, 0),
        ("int64 of 8 bits", 0, 1),
        ("int32 of 16 bits", 0, 2),
        ("int64 of 16 bits", 0.3, 2.2),
        ("times", 0, 4),
        ("dates", 0, 2),
        ("few texts", 0, 1.2),
        ("few texts", 0.3, 1.2),
        ("empty texts", 0, 0),
        ("many texts", 1, 0),
        ("floats", 1, 0),
        ("structs", 1, 0),
    ],
)
def test_a_row_takes_few_bytes(name: str, nulls: float, most: float) -> None:
    """An exchange would carry eight bytes for a number and all letters of a text, or a bit for each null."""
    batch = pyarrow.record_batch({"x": column_of(name, nulls)})
    assert sent_bytes(batch) <= most * ROWS + 450


def test_lengths_of_texts_take_a_byte() -> None:
    """An offset takes four."""
    column = column_of("many texts", 0)
    letters = sum(len(text.encode()) for text in column.to_pylist())
    assert sent_bytes(pyarrow.record_batch({"x": column})) <= letters + ROWS + 400


def test_nothing_is_sent_for_nulls_where_there_are_none() -> None:
    """A column that once had nulls would take a bit more for each row."""
    values = pyarrow.array(numpy.random.default_rng(1).random(ROWS))
    had_nulls = pyarrow.concat_arrays([values, pyarrow.nulls(8, values.type)])[:ROWS]
    assert had_nulls.buffers()[0] is not None
    assert sent_bytes(pyarrow.record_batch({"x": had_nulls})) == sent_bytes(pyarrow.record_batch({"x": values}))


def forms(byte_ns: float, *columns: Any) -> list[str | None]:
    """Return the names of the forms that columns get."""
    batch = pyarrow.record_batch({str(place): column for place, column in enumerate(columns)})
    found = encoded(Columns(batch), byte_ns).forms or [None] * len(columns)
    return [None if form is None else form[0] for form in found]


def test_forms_are_used_only_where_they_pay() -> None:
    """CPU would be spent on bytes that cost less, on few rows, and on dictionaries of memory that is not copied."""
    few_texts = pyarrow.array([f"a text of twenty {number % 20:03d}" for number in range(100_000)])
    numbers = pyarrow.array(range(100_000))
    assert forms(ROW_BYTE_NS, few_texts, numbers) == ["distinct", "integers"]
    assert forms(SHARED_BYTE_NS, few_texts, numbers) == [None, "integers"]
    assert forms(SHARED_BYTE_NS, few_texts[:1_000], numbers[:1_000]) == [None, None]
    assert forms(ROW_BYTE_NS, few_texts[:100], numbers[:100]) == [None, None]


def test_texts_that_are_not_repeated_get_no_dictionary() -> None:
    """Python would hash each value and send it nevertheless."""
    random_numbers = numpy.random.default_rng(1).integers(0, 60, ROWS)
    distinct = pyarrow.array([f"{number:020d}" for number in range(ROWS)])
    repeated = pyarrow.array([f"{number:020d}" for number in random_numbers])
    assert forms(ROW_BYTE_NS, distinct, repeated) == ["texts", "distinct"]


def test_a_buffer_does_not_become_many_times_larger_when_it_is_decoded() -> None:
    """Buffers are limited by their bytes: one of a few kB with a long text for each row would decode to gigabytes."""
    assert forms(ALWAYS, pyarrow.array(["x" * 10_000] * ROWS)) == ["texts"]


def test_a_buffer_names_no_class_of_ours() -> None:
    """Slots of another version could not read it."""
    batch = pyarrow.record_batch({str(place): column_of(name, 0.3) for place, name in enumerate(COLUMNS)})
    header = Header(NO_KEY_GROUP, 1, 0, sequence=0, target=0, attempt=0, kind=ChunkKind.COLUMNS)
    buffer = encode(header, [encoded(Columns(batch), ALWAYS)])
    assert b"penstock" not in buffer and b"numpy" not in buffer and len(decode_items(buffer)) == 1
