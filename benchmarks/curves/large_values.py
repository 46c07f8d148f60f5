"""Memory of Spark's JVM after one large value has passed an exchange.

python -m benchmarks.curves.large_values --mb 120
python -m benchmarks.curves.large_values --mb 600 --conf penstock.network.max-record-size=1gb
python -m benchmarks.curves.large_values --conf "spark.driver.extraJavaOptions=-XX:+UseParallelGC"
"""

from __future__ import annotations

import time

from benchmarks.measurement import environment, options, tell, wait_until
from benchmarks.process_tree import usage

_SAMPLE_S = 1.0


def main() -> None:
    """Measure, by the options."""
    parser = options(__doc__, steady=False)
    parser.add_argument("--mb", type=int, default=120, help="size of the value")
    parser.add_argument("--seconds", type=int, default=60, help="until the last measurement")
    arguments = parser.parse_args()
    env = environment(arguments)
    size = arguments.mb * 1_000_000
    # The first record is small: what the JVM takes before the large one is measured behind it.
    sizes = env.from_sequence(0, 1_000_000_000).map(lambda number: number)
    values = sizes.map(lambda number: (number, b"x" * size if number == 100_000 else b""))
    values.rebalance().filter(lambda value: len(value[1]) > 0).map(lambda value: len(value[1])).name("large").print()
    client = env.execute_async("large values")

    def arrived() -> bool:
        return int(client.get_metrics().get("large", {}).get("numRecordsOut", 0)) > 0

    most = 0.0
    wait_until(client, arrived, "the large value has not arrived")
    ends = time.monotonic() + arguments.seconds
    while time.monotonic() < ends:
        most = max(most, usage().jvm_bytes / 1e6)
        time.sleep(_SAMPLE_S)
    tell({"most_jvm_mb": most, "jvm_mb_at_the_end": usage().jvm_bytes / 1e6})
    client.cancel().result()


if __name__ == "__main__":
    main()
