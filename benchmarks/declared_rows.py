"""Windows of rows with declared fields, on rows and on columns: by records of a chunk and of a window. Part of item 5.

In one process: the chunk is pickled or converted, or aggregated as well, sent to one channel, read again, and added to
windows that fire.
python -m benchmarks.declared_rows [RECORDS] [--rocksdb]
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import tempfile
import time
from functools import partial
from typing import Any

import msgspec

from penstock.common import Time, Types
from penstock.common.types import Row
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.engine.runtime.chunks import ChunkKind, EncodedColumns, Rows
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.codec import decoder
from penstock.engine.runtime.columns.exact_conversion import COLUMNS_FROM
from penstock.engine.runtime.columns.exact_fields import ExactFields
from penstock.engine.runtime.network.buffer import CODECS
from penstock.engine.runtime.network.edge import EdgeInfo
from penstock.engine.runtime.network.worth import IN_ROWS
from penstock.engine.runtime.task.budget import Budget
from penstock.engine.runtime.task.context import OperatorContext, SubtaskInfo, TaskContext
from penstock.engine.runtime.task.metrics import OperatorCounters
from penstock.engine.state.backends.rocksdb.backend import Stores
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.stores.rocksdb import RocksStore

READING = Types.ROW_NAMED(["key", "at", "n"], [Types.STRING(), Types.LONG(), Types.LONG()])
AGGREGATES = {"total": ("n", "sum"), "count": "count"}
EDGE = EdgeInfo(0, 0, 1, 1, source_level=0, target_level=1, widths=(1, 1))


class Results:
    """An output that counts."""

    def __init__(self) -> None:
        self.records = 0

    def emit(self, chunk: Any) -> bool:
        """Count the records."""
        self.records += len(chunk)
        return True

    def watermark(self, timestamp: int) -> bool:
        """Do nothing."""
        return True


class Job:
    """The windows. `form`: "rows"; "columns" from `COLUMNS_FROM` records of a chunk on; or "local", too.

    `directory`: of the state, if that is in RocksDB.
    """

    def __init__(self, form: str, directory: str | None) -> None:
        stream = StreamExecutionEnvironment().from_collection([Row(key="", at=0, n=0)], READING)
        windows = stream.key_by("key").window(TumblingEventTimeWindows.of(Time.milliseconds(1)))
        transformation: Any = windows.aggregate(AGGREGATES)._transformation
        operator = transformation.operator
        if form != "rows":
            operator = transformation.on_columns.operator("windows")
            self._exact = ExactFields(operator.columns_received)
        before = None
        if form == "local":
            before, operator = operator.local_and_global()
        stores = None if directory is None else Stores(partial(RocksStore, directory, 64 << 20), cached_entries=10_000)
        budget = Budget(time.perf_counter_ns, step_ns=1 << 60)
        info = SubtaskInfo("job", 0, "task", 0, 1, 128)
        task = TaskContext(info, lambda: 0, budget, KeyGroups(128), stores)
        context = OperatorContext(task, "windows", uid="", counters=OperatorCounters("windows"))
        budget.begin_step()
        budget.chunk_records = 4096
        self.results: Any = Results()
        operator.setup(context, self.results)
        operator.open()
        self._operator: Any = operator
        self._form = form
        if form != "rows":
            schema = self._operator.columns_received.schema.serialize().to_pybytes()
            self._decode = decoder(msgspec.structs.replace(EDGE, schema=schema))
        if before is not None:
            before.setup(context, self)
        self._before: Any = before

    def run(self, rows: Rows, watermark: int) -> None:
        """Send and process a chunk."""
        sent: Rows | Columns | None = rows
        if self._form != "rows" and len(rows) >= COLUMNS_FROM:
            sent = self._exact.columns_of(rows)
        assert sent is not None
        if self._before is None:
            self.emit(sent)
            self.watermark(watermark)
        else:
            self._before.process(sent)
            self._before.watermark(watermark)

    def emit(self, sent: Rows | Columns) -> bool:
        """Send a chunk over the exchange, and process it."""
        codec = CODECS[ChunkKind.ROWS if isinstance(sent, Rows) else ChunkKind.COLUMNS]
        for item in codec.decode(memoryview(codec.encode([sent], IN_ROWS))):
            self._operator.process(self._decode(item) if isinstance(item, EncodedColumns) else item)
        return True

    def watermark(self, timestamp: int) -> bool:
        """Let event time go on behind the exchange."""
        self._operator.watermark(timestamp)
        return True


def ns_a_record(job: Job, chunk: int, window: int, records: int, keys: int) -> float:
    """Return what a record costs (ns)."""
    chunks = []
    for first in range(0, records, chunk):
        numbers = range(first, first + chunk)
        rows = [Row(key=f"key {n * 2654435761 % keys}", at=n, n=n) for n in numbers]
        chunks.append((Rows(rows, [n // window + 1 for n in numbers]), numbers[-1] // window))
    began = time.process_time_ns()
    for rows_of_chunk, watermark in chunks:
        job.run(rows_of_chunk, watermark)
    job.run(chunks[-1][0], 1 << 60)
    return (time.process_time_ns() - began) / (len(chunks) * chunk)


def main(records: int, is_stored: bool) -> None:
    """Print a line for each size of chunks and windows."""

    def measured(form: str, chunk: int, window: int, keys: int) -> float:
        found = []
        for _ in range(3):
            with tempfile.TemporaryDirectory() if is_stored else contextlib.nullcontext() as directory:
                found.append(ns_a_record(Job(form, directory), chunk, window, records, keys))
        return statistics.median(found)

    print("chunk  window   keys  rows ns  columns ns  ratio  local ns  ratio")
    for chunk in (16, COLUMNS_FROM // 2, COLUMNS_FROM, 256, 4096):
        for window, keys in ((1, 1000), (16, 1000), (64, 1000), (1024, 1000), (1 << 16, 1000), (1 << 30, 100_000)):
            rows, columns, local = (measured(form, chunk, window, keys) for form in ("rows", "columns", "local"))
            print(
                f"{chunk:5} {window:7} {keys:6} {rows:8.0f} {columns:11.0f} {rows / columns:6.2f} "
                f"{local:9.0f} {rows / local:6.2f}",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("records", type=int, nargs="?", default=100_000)
    parser.add_argument("--rocksdb", action="store_true", help="state in RocksDB")
    arguments = parser.parse_args()
    main(arguments.records, arguments.rocksdb)
