"""Counts by key into a table of any kind: what test_table_kills.py starts, kills and reads.

With `--fatal` a process of the job ends itself, once, at a point of its commits.
"""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from penstock.api.sink import Committer, Sink, SinkContext, SinkWriter
from penstock.common import Types, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import RateLimiterStrategy
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.datastream.connectors.datagen import DataGeneratorSource
from penstock.datastream.connectors.delta import DeltaSink
from penstock.datastream.connectors.iceberg import IcebergSink
from penstock.datastream.connectors.postgres import PostgresSink
from penstock.datastream.connectors.sql import SqlSink

KEYS = 100
TABLE = "counts"
COLUMNS = ("key", "count")
ROW_TYPE = Types.ROW_NAMED(list(COLUMNS), [Types.LONG(), Types.LONG()])
BEHIND_SNAPSHOT, BEFORE_COMMIT, BEHIND_COMMIT = "behind-snapshot", "before-commit", "behind-commit"


def catalog(folder: str, bucket: str) -> dict[str, str]:
    """Of Iceberg. `bucket`: where the files are, if not in the folder."""
    store = {"s3.endpoint": os.environ["AWS_ENDPOINT_URL"]} if bucket else {}
    warehouse = f"{bucket or f'file://{folder}'}/lake"
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": warehouse, **store}


def sqlalchemy_url(url: str) -> str:
    """Of a PostgreSQL server."""
    return url.replace("postgresql://", "postgresql+psycopg://")


def sink_of(target: str, place: str, bucket: str) -> Sink[Any]:
    """`place`: a folder, or the url of a PostgreSQL server."""
    if target == "delta":
        return DeltaSink(table=f"{bucket or place}/{TABLE}", record_type=ROW_TYPE)
    if target == "iceberg":
        properties = catalog(place, bucket)
        return IcebergSink(catalog="lake", catalog_properties=properties, table=f"air.{TABLE}", record_type=ROW_TYPE)
    if target == "sql":
        url = sqlalchemy_url(place)
        return SqlSink(url=url, table=TABLE, columns=COLUMNS, key_columns=COLUMNS, batch_size=500)
    return PostgresSink(
        url=place,
        table=TABLE,
        columns=COLUMNS,
        batch_size=500,
        delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE,
        write_ahead_log=True,
    )


class Death:
    """Ends the process that comes to the point first."""

    def __init__(self, point: str, mark: Path) -> None:
        self.point = point
        self.mark = mark

    def at(self, point: str) -> None:
        """Here is a point."""
        if point != self.point:
            return
        try:
            self.mark.touch(exist_ok=False)
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)


class FatalSink(Sink[Any]):
    """Another sink, with a death at a commit, which the driver makes or the writers make."""

    def __init__(self, sink: Sink[Any], death: Death, *, by_writers: bool) -> None:
        self._sink = sink
        self._death = death
        self._by_writers = by_writers

    def validate(self) -> None:
        self._sink.validate()

    def validate_without_checkpoints(self) -> None:
        self._sink.validate_without_checkpoints()

    def create_writer(self, context: SinkContext) -> SinkWriter[Any]:
        return self._fatal(self._sink.create_writer(context))

    def restore_writer(self, context: SinkContext, state: list[Any]) -> SinkWriter[Any]:
        return self._fatal(self._sink.restore_writer(context, state))

    def create_committer(self) -> Committer | None:
        committer = self._sink.create_committer()
        return None if committer is None else _FatalCommitter(committer, self._death)

    def _fatal(self, writer: SinkWriter[Any]) -> SinkWriter[Any]:
        return _FatalWriter(writer, self._death, commits=self._by_writers)


class _FatalWriter(SinkWriter[Any]):
    def __init__(self, writer: SinkWriter[Any], death: Death, *, commits: bool) -> None:
        self._writer = writer
        self._death = death
        self._commits = commits
        self._prepared = 0
        for name in ("wake_at_ms", "on_wake", "flush", "prepare_savepoint", "prepare_commit", "close"):
            setattr(self, name, getattr(writer, name))

    def write(self, value: Any, timestamp: int | None) -> None:
        self.write_chunk([value], None if timestamp is None else [timestamp])

    def write_chunk(self, values: list[Any], timestamps: list[int] | None) -> None:
        if self._prepared > 2:
            # The barrier is gone, and the checkpoint is on its way.
            self._death.at(BEHIND_SNAPSHOT)
        self._writer.write_chunk(values, timestamps)

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        self._prepared += 1
        return self._writer.snapshot_state(checkpoint_id)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._around(lambda: self._writer.notify_checkpoint_complete(checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._writer.notify_checkpoint_aborted(checkpoint_id)

    def _around(self, commit: Callable[[], None]) -> None:
        if self._commits and self._prepared > 2:
            self._death.at(BEFORE_COMMIT)
        commit()
        if self._commits and self._prepared > 2:
            self._death.at(BEHIND_COMMIT)


class _FatalCommitter(Committer):
    def __init__(self, committer: Committer, death: Death) -> None:
        self._committer = committer
        self._death = death
        self._commits = 0

    def commit(self, committables: Sequence[Any]) -> None:
        self._commits += bool(committables)
        if self._commits > 2:
            self._death.at(BEFORE_COMMIT)
        self._committer.commit(committables)
        if self._commits > 2:
            self._death.at(BEHIND_COMMIT)

    def commit_again(self, committables: Sequence[Any]) -> None:
        self._committer.commit_again(committables)

    def abort(self, committables: Sequence[Any]) -> None:
        self._committer.abort(committables)


def main() -> None:
    """Run it, by the options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("place")
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--records-per-s", type=float, required=True)
    parser.add_argument("--target", choices=["delta", "iceberg", "sql", "log"], required=True)
    parser.add_argument("--bucket", default="", help="of an object store, where the files of a lake are")
    parser.add_argument("--fatal", choices=[BEHIND_SNAPSHOT, BEFORE_COMMIT, BEHIND_COMMIT])
    parser.add_argument("--mark", type=Path, default=Path("died"))
    arguments = parser.parse_args()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    rate = RateLimiterStrategy.per_second(arguments.records_per_s)
    numbers = DataGeneratorSource(lambda number: (number % KEYS, 1), arguments.records, rate)
    death = Death(arguments.fatal, arguments.mark)
    sink = sink_of(arguments.target, arguments.place, arguments.bucket)
    fatal = FatalSink(sink, death, by_writers=arguments.target in ("sql", "log"))
    (
        env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers")
        .uid("numbers")
        .key_by(lambda pair: pair[0])
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
        .uid("counts")
        .sink_to(fatal)
        .uid("table")
    )
    env.execute(f"counts to {arguments.target}")


if __name__ == "__main__":
    main()
