"""Counts by key of the rows of a streaming DataFrame into files: for test_streaming_frame_kills.py."""

from __future__ import annotations

import argparse
from pathlib import Path

from penstock.common import Encoder, Types
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy

KEYS = 100


def main() -> None:
    """Run it, by the options; without an end."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    arguments, _ = parser.parse_known_args()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    reader = env.get_spark_session().readStream.schema("id BIGINT").option("maxFilesPerTrigger", 4)
    numbers = reader.json(str(arguments.folder / "in")).selectExpr("id", f"id % {KEYS} AS key")
    files = FileSink.for_row_format(str(arguments.folder / "out"), Encoder.simple_string_encoder())
    (
        env.from_data_frame(numbers, source_name="numbers")
        .map(lambda row: (row.key, row.id, 1))
        .key_by(lambda one: one[0])
        .reduce(lambda a, b: (a[0], b[1], a[2] + b[2]))
        .uid("counts")
        .map(lambda one: f"{one[0]} {one[1]} {one[2]}", Types.STRING())
        .sink_to(files.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build())
        .uid("files")
    )
    env.execute("a streaming frame to files")


if __name__ == "__main__":
    main()
