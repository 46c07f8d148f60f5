"""Throughput by size and kind of record: source → key_by → sink. Items 11 and a part of 14.

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


def strings(text: str, numbers: range) -> list[str]:
    """Text alone."""
    return [f"{i:012d}{text}" for i in numbers]


_KINDS: dict[str, tuple[Callable[[str, range], list[Any]], Callable[[Any], Any], int]] = {
    "row": (rows, lambda row: row.key, _OTHER_FIELDS_BYTES),
    "dict": (dicts, lambda record: record["key"], _OTHER_FIELDS_BYTES),
    "dataclass": (dataclass_objects, lambda order: order.key, _OTHER_FIELDS_BYTES),
    "str": (strings, lambda text: text[_NUMBER_DIGITS - 3 : _NUMBER_DIGITS], 0),
}


def main() -> None:
    """Measure, by the options."""
    parser = options(__doc__)
    parser.add_argument("--kind", choices=list(_KINDS), default="dict")
    parser.add_argument("--bytes", type=int, default=1000, help="of a record")
    arguments = parser.parse_args()
    make, key, others_bytes = _KINDS[arguments.kind]
    text = "x" * max(0, arguments.bytes - _NUMBER_DIGITS - others_bytes)

    def build(env: StreamExecutionEnvironment) -> DataStream[Any]:
        source = ChunkSource(functools.partial(make, text))
        # The map is a vertex of its own with almost no work.
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "records")
        return stream.key_by(key).map(lambda record: record)

    measured = measure(arguments, build)
    rate = measured.arrivals.records_per_s
    tell(
        {
            "records_per_s": rate,
            "mb_per_s": rate * arguments.bytes / 1e6,
            "bytes_per_record": measured.bytes_per_record,
        }
    )


if __name__ == "__main__":
    main()
