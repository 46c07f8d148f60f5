"""Lines of objects, counted by key, into objects, with checkpoints beside them: what the tests of S3 jobs run."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from penstock.common import Duration, Encoder, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    FileSource,
    RollingPolicy,
    StreamFormat,
)

KEYS = 10


def main() -> None:
    """Run it, by the options. A worker is killed in the midst of it, once: when it has created the file `killed`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("bucket")
    parser.add_argument("killed", type=Path)
    parser.add_argument("kill_at", type=int)
    parser.add_argument("--watch", action="store_true", help="take objects that are added, without an end")
    arguments, _ = parser.parse_known_args()
    killed, kill_at = arguments.killed, arguments.kill_at

    def parse(line: str) -> tuple[int, int]:
        number = int(line)
        if number == kill_at and not killed.exists():
            killed.touch()
            os._exit(9)
        time.sleep(0.0005)
        return number % KEYS, 1

    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), f"{arguments.bucket}/in")
    if arguments.watch:
        source.monitor_continuously(Duration.of_millis(300))
    sink = FileSink.for_row_format(f"{arguments.bucket}/out", Encoder.simple_string_encoder())
    if arguments.watch:
        # Some checkpoints come in the midst of an object, others behind it.
        sink = sink.with_rolling_policy(RollingPolicy.default_rolling_policy(rollover_interval=1_000))
    (
        env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "lines")
        .uid("lines")
        .map(parse)
        .key_by(lambda pair: pair[0])
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
        .uid("counts")
        .map(lambda pair: f"{pair[0]} {pair[1]}")
        .sink_to(sink.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).with_compression("gzip").build())
        .uid("objects")
    )
    env.execute("lines in S3")


if __name__ == "__main__":
    main()
