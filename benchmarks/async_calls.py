"""Asynchronous calls of 10 ms each, 200 in flight in each subtask. Item 27.

More than capacity ÷ time of a call is not possible: 40,000 calls a second at parallelism 2.
"""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks.chunk_source import ChunkSource
from benchmarks.measurement import measure, options, tell
from penstock.common import Time, WatermarkStrategy
from penstock.datastream import AsyncDataStream, AsyncFunction, DataStream, StreamExecutionEnvironment


class Ask(AsyncFunction[int, int]):
    """Answers after some time."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    async def async_invoke(self, value: int) -> list[int]:
        await asyncio.sleep(self.seconds)
        return [value]


def main() -> None:
    """Measure, by the options."""
    parser = options(__doc__)
    parser.add_argument("--capacity", type=int, default=200)
    parser.add_argument("--call-ms", type=float, default=10)
    parser.add_argument("--ordered", action="store_true")
    arguments = parser.parse_args()
    wait = AsyncDataStream.ordered_wait if arguments.ordered else AsyncDataStream.unordered_wait

    def program(env: StreamExecutionEnvironment) -> DataStream[Any]:
        numbers = env.from_source(ChunkSource(list), WatermarkStrategy.no_watermarks(), "numbers")
        return wait(numbers, Ask(arguments.call_ms / 1000), Time.seconds(60), arguments.capacity)

    measured = measure(arguments, program)
    tell({"records_per_s": measured.arrivals.records_per_s})


if __name__ == "__main__":
    main()
