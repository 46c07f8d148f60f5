"""Throughput by size and kind of record: source → key_by → sink. Items 11 and a part of 14.

With `--emitted` a function makes the records: source → map → map → key_by → sink. What a function emits is copied if
it can be changed, unless `--conf pipeline.object-reuse=true`: the second map, which keeps nothing, stands between the
first one and the exchange, so that the setting has its effect there.

Every record is a new object with distinct text: an object that occurs twice in a buffer is pickled once, which would
distort the result.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from benchmarks.chunk_source import ChunkSource
from benchmarks.measurement import measure, options, tell
from penstock.common import Row, WatermarkStrategy
from penstock.datastream import DataStream, StreamExecutionEnvironment
from penstock.datastream.functions import MapFunction

_KEYS = 1000
_NUMBER_DIGITS = 12
# Approximate size of the fields besides the text.
_OTHER_FIELDS_BYTES = 30


@dataclasses.dataclass
class Order:
    """A record as a class."""

    key: int
    number: int
    price: float
    text: str


def rows(text: str, numbers: range) -> list[Row]:
    """Rows with field names."""
    return [Row(key=i % _KEYS, number=i, price=0.5 * i, text=f"{i:012d}{text}") for i in numbers]


def dicts(text: str, numbers: range) -> list[dict[str, Any]]:
    """Dicts."""
    return [{"key": i % _KEYS, "number": i, "price": 0.5 * i, "text": f"{i:012d}{text}"} for i in numbers]


def dataclass_objects(text: str, numbers: range) -> list[Order]:
    """Objects of a dataclass."""
    return [Order(i % _KEYS, i, 0.5 * i, f"{i:012d}{text}") for i in numbers]


def wide_dicts(text: str, numbers: range) -> list[dict[str, Any]]:
    """Dicts of ten fields."""
    return [
        {
            "key": i % _KEYS, "number": i, "price": 0.5 * i, "text": f"{i:012d}{text}", "currency": "EUR",
            "quantity": i % 7, "discount": 0.25, "paid": i % 2 == 0, "country": "NL", "version": 3,
        }
        for i in numbers
    ]  # fmt: skip


def tuples(text: str, numbers: range) -> list[tuple[Any, ...]]:
    """Tuples of four."""
    return [(i % _KEYS, i, 0.5 * i, f"{i:012d}{text}") for i in numbers]


def strings(text: str, numbers: range) -> list[str]:
    """Text alone."""
    return [f"{i:012d}{text}" for i in numbers]


_KINDS: dict[str, tuple[Callable[[str, range], list[Any]], Callable[[Any], Any], int]] = {
    "row": (rows, lambda row: row.key, _OTHER_FIELDS_BYTES),
    "dict": (dicts, lambda record: record["key"], _OTHER_FIELDS_BYTES),
    "dataclass": (dataclass_objects, lambda order: order.key, _OTHER_FIELDS_BYTES),
    "wide": (wide_dicts, lambda record: record["key"], 3 * _OTHER_FIELDS_BYTES),
    "tuple": (tuples, lambda record: record[0], _OTHER_FIELDS_BYTES),
    "str": (strings, lambda text: text[_NUMBER_DIGITS - 3 : _NUMBER_DIGITS], 0),
}


class Made(MapFunction[int, Any]):
    """Makes a record of each number, and might keep it, as far as is known of a class."""

    def __init__(self, make: Callable[[range], list[Any]]) -> None:
        self.make = make

    def map(self, value: int) -> Any:
        """Return the record of that number."""
        return self.make(range(value, value + 1))[0]


def main() -> None:
    """Measure, by the options."""
    parser = options(__doc__)
    parser.add_argument("--kind", choices=list(_KINDS), default="dict")
    parser.add_argument("--bytes", type=int, default=1000, help="of a record")
    parser.add_argument("--emitted", action="store_true", help="records are made by a function, not by the source")
    arguments = parser.parse_args()
    make, key, others_bytes = _KINDS[arguments.kind]
    text = "x" * max(0, arguments.bytes - _NUMBER_DIGITS - others_bytes)

    def build(env: StreamExecutionEnvironment) -> DataStream[Any]:
        made = functools.partial(make, text)
        source: ChunkSource = ChunkSource(list if arguments.emitted else made)
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "records")
        if arguments.emitted:
            stream = stream.map(Made(made)).map(lambda record: record)
        # The map is a vertex of its own with almost no work.
        return stream.key_by(key).map(lambda record: record)

    measured = measure(arguments, build)
    rate = measured.arrivals.records_per_s
    tell(
        {
            "records_per_s": rate,
            "mb_per_s": rate * arguments.bytes / 1e6,
            "bytes_per_record": measured.bytes_per_record,
            "python_ns_per_record": measured.cpu_ns(measured.arrivals.counts.total())["python_ns_per_record"],
        }
    )


if __name__ == "__main__":
    main()
