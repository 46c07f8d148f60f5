"""Back pressure: an unbounded source before a sink limited to a fixed number of records per second. Item 9.

The age of a record on arrival is the time it was in flight. Bytes in flight follow from Little's law: arrival rate ×
mean age × bytes of a record on the wire. Growth compares the last third of the window with the first.
"""

from __future__ import annotations

import statistics

from benchmarks.latency import through_exchanges
from benchmarks.measurement import Measured, measure, options, tell
from benchmarks.process_tree import Usage, usage


def figures(measured: Measured, before: Usage, after: Usage) -> dict[str, float]:
    """Return the amount in flight, and its growth."""
    arrivals = measured.arrivals
    third = (arrivals.end - arrivals.begin) // 3
    first_ms = arrivals.mean_age_ms(arrivals.begin, arrivals.begin + third)
    last_ms = arrivals.mean_age_ms(arrivals.end - third, arrivals.end)
    mean_ms = arrivals.mean_age_ms(arrivals.begin, arrivals.end)
    in_flight_mb = arrivals.records_per_s * mean_ms / 1e3 * measured.bytes_per_record / 1e6
    return {
        **measured.latency(),
        "in_flight_s": measured.latency()["p99_ms"] / 1e3,
        "in_flight_mb": in_flight_mb,
        "longest_checkpoint_s": measured.longest_checkpoint_ms / 1e3,
        "age_first_third_ms": first_ms,
        "age_last_third_ms": last_ms,
        "age_growth": last_ms / first_ms - 1,
        "memory_growth_mb": (after.total_bytes - before.total_bytes) / 1e6,
        "slowest_second_per_s": min(arrivals.counts.values()),
        "median_second_per_s": statistics.median(arrivals.counts.values()),
    }


def main() -> None:
    """Run the measurement."""
    parser = options(__doc__)
    parser.add_argument("--exchanges", type=int, default=1)
    parser.add_argument("--sink-rate", type=float, default=100_000, help="records/s that the sink takes")
    arguments = parser.parse_args()
    used: list[Usage] = []
    measured = measure(
        arguments,
        lambda env: through_exchanges(env, 0, arguments.exchanges),
        begun=lambda: used.append(usage()),
        ended=lambda: used.append(usage()),
        stamp=2,
        records_per_s=arguments.sink_rate,
    )
    tell(figures(measured, *used))


if __name__ == "__main__":
    main()
