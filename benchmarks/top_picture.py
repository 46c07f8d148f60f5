"""The picture of `penstock top` in the documentation, taken of a job that runs.

python -m benchmarks.top_picture docs/images/top.svg
"""

from __future__ import annotations

import argparse
import io
import re
import tempfile
import time
from pathlib import Path

from rich.console import Console

from penstock.cli.top import screens
from penstock.cluster.registry import JobRegistry
from penstock.common import Configuration, Duration, Time, WatermarkStrategy
from penstock.common.job_client import JobClient
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.connectors.base.data_generator import DataGeneratorSource
from penstock.connectors.base.rate_limiter import RateLimiterStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.window import TumblingEventTimeWindows

_PER_SECOND = 20_000
_CARDS = 5_000
_WIDTH = 80
_CHECKPOINTS = 3
_FONT_FROM_THE_NETWORK = re.compile(r"\s*@font-face \{.*?\}\n", re.DOTALL)


class Now(TimestampAssigner):
    """Payments happen now."""

    def extract_timestamp(self, value: object, record_timestamp: int) -> int:
        return time.time_ns() // 1_000_000


def start(directory: str) -> JobClient:
    """Start the job: what each card has spent, in windows of a second."""
    configuration = Configuration()
    configuration.set_string("execution.checkpointing.interval", "2s")
    configuration.set_string("execution.checkpointing.dir", directory)
    env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
    limit = RateLimiterStrategy.per_second(_PER_SECOND)
    source = DataGeneratorSource(lambda i: (i * 7919 % _CARDS, i % 100), 1 << 40, limit)
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(200)).with_timestamp_assigner(Now())
    payments = env.from_source(source, strategy, "payments")
    spent = (
        payments.key_by(lambda payment: payment[0])
        .window(TumblingEventTimeWindows.of(Time.seconds(1)))
        .reduce(lambda one, other: (one[0], one[1] + other[1]))
        .name("spent per card")
    )
    spent.filter(lambda payment: payment[1] > 1_000_000).name("too much").print()
    return env.execute_async("payments")


def main() -> None:
    """Run the job until it has taken checkpoints, then write the picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("picture", type=Path)
    picture = parser.parse_args().picture
    with tempfile.TemporaryDirectory() as directory:
        client = start(directory)
        while len(client.get_checkpoints()) < _CHECKPOINTS:
            time.sleep(0.5)
        console = Console(record=True, width=_WIDTH, highlight=False, file=io.StringIO())
        console.print(next(screens(JobRegistry().find(str(client.get_job_id())))))
        client.cancel().result()
    svg = console.export_svg(title="penstock top", unique_id="top")
    # The fonts that follow in the list are on each machine.
    picture.write_text(_FONT_FROM_THE_NETWORK.sub("", svg), encoding="utf-8")


if __name__ == "__main__":
    main()
