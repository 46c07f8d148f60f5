"""A loop of a head and a keyed function in which a fixed number of records goes round for ever. Item 28.

The rate counts passes, the age is that of one pass: from the function, by the way back, to the function again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from benchmarks.measurement import measure, options, tell
from benchmarks.process_tree import usage
from penstock.common import Types, WatermarkStrategy
from penstock.datastream import (
    DataStream,
    KeyedProcessFunction,
    OutputTag,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from penstock.datastream.connectors.number_seq import NumberSequenceSource

AGAIN: OutputTag[Any] = OutputTag("again")
_REPORTED_EACH = 100


class GoRound(KeyedProcessFunction[int, Any, Any]):
    """Sends each record round, and reports one in a hundred passes."""

    def process_element(self, value: tuple[int, int], ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        number, passes = value
        if passes == _REPORTED_EACH:
            yield _REPORTED_EACH, 0
            yield AGAIN, (number, 1)
        else:
            yield AGAIN, (number, passes + 1)


class GoRoundStamped(KeyedProcessFunction[int, Any, Any]):
    """Sends each record round with the time, and reports each pass."""

    def process_element(self, value: tuple[int, int], ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        number, stamp = value
        if stamp > _REPORTED_EACH:
            yield 1, stamp
        yield AGAIN, (number, time.time_ns())


def main() -> None:
    """Measure, by the options."""
    parser = options(__doc__)
    parser.add_argument("--records", type=int, default=50_000, help="how many go round")
    parser.add_argument("--stamped", action="store_true", help="measure the time of a pass")
    parser.set_defaults(buffer_timeout_ms=1)
    arguments = parser.parse_args()

    def program(env: StreamExecutionEnvironment) -> DataStream[Any]:
        env.set_runtime_mode(RuntimeExecutionMode.STREAMING)
        numbers = env.from_source(
            NumberSequenceSource(0, arguments.records - 1), WatermarkStrategy.no_watermarks(), "numbers"
        )
        head = numbers.map(lambda number: (number, number % _REPORTED_EACH)).iterate()
        function = GoRoundStamped() if arguments.stamped else GoRound()
        turned = head.key_by(lambda value: value[0], key_type=Types.LONG()).process(function)
        head.close_with(turned.get_side_output(AGAIN))
        return turned

    most = [0]

    def note() -> None:
        most[0] = max(most[0], usage().python_bytes)

    stamp = 1 if arguments.stamped else None
    measured = measure(
        arguments, program, warm_up_records=arguments.records, begun=note, ended=note, weight=0, stamp=stamp
    )
    figures = measured.latency() if arguments.stamped else {"records_per_s": measured.arrivals.records_per_s}
    tell({**figures, "python_mb": most[0] / 1e6})


if __name__ == "__main__":
    main()
