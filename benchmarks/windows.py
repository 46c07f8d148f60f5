"""Event-time windows: source → timestamps → key_by → window → aggregate → sink, 1,000 keys. Item 5.

Event time advances by a second every 100,000 records, so a window of a second has 100 records per key. A result
contains its number of records; in sliding windows of ten panes each record is in ten results.
"""

from __future__ import annotations

from typing import Any

from benchmarks.chunk_source import ChunkSource
from benchmarks.measurement import measure, options, tell
from penstock.common import Time, Types, WatermarkStrategy
from penstock.datastream import AggregateFunction, DataStream, StreamExecutionEnvironment
from penstock.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows

_RECORDS_PER_MS = 100
_PANES = 10

Reading = tuple[int, int, int]


class Total(AggregateFunction[Reading, Reading, Reading]):
    """Aggregates key, sum and number of a window's records."""

    shares_slices = True

    def create_accumulator(self) -> Reading:
        return 0, 0, 0

    def add(self, value: Reading, accumulator: Reading) -> Reading:
        return value[0], accumulator[1] + value[1], accumulator[2] + 1

    def get_result(self, accumulator: Reading) -> Reading:
        return accumulator

    def merge(self, a: Reading, b: Reading) -> Reading:
        return a[0] or b[0], a[1] + b[1], a[2] + b[2]


def readings(numbers: range) -> list[Reading]:
    """(key, number, time in ms)."""
    return [(i * 2654435761 % 1000, i, i // _RECORDS_PER_MS) for i in numbers]


def main() -> None:
    """Measure, by the options."""
    parser = options(__doc__)
    parser.add_argument("--windows", choices=["tumbling", "sliding"], default="tumbling")
    arguments = parser.parse_args()
    sliding = arguments.windows == "sliding"
    assigner: Any = TumblingEventTimeWindows.of(Time.seconds(1))
    if sliding:
        assigner = SlidingEventTimeWindows.of(Time.seconds(_PANES), Time.seconds(1))
    in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda reading, _: reading[2])

    def build(env: StreamExecutionEnvironment) -> DataStream[Any]:
        stream = env.from_source(ChunkSource(readings), in_order, "readings")
        return stream.key_by(lambda reading: reading[0], key_type=Types.LONG()).window(assigner).aggregate(Total())

    measured = measure(arguments, build, weight=2)
    window = measured.vertices[1].operators[0]
    results_of_a_record = _PANES if sliding else 1
    tell(
        {
            "records_per_s": measured.arrivals.records_per_s / results_of_a_record,
            **measured.cpu_ns(measured.arrivals.counts.total() / results_of_a_record),
            "late_records": window.late_records_dropped,
        }
    )


if __name__ == "__main__":
    main()
