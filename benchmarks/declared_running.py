"""Running aggregates of rows with declared fields, on rows and on columns: by records of a chunk. Part of item 5.

In one process: the chunk is pickled or converted, sent to one channel, read again, aggregated, and its results are Rows
again. python -m benchmarks.declared_running [RECORDS]
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

import msgspec

from benchmarks.declared_rows import EDGE, READING, Results
from penstock.common.types import Row
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.runtime.chunks import ChunkKind, EncodedColumns, Rows
from penstock.engine.runtime.columns.codec import decoder
from penstock.engine.runtime.columns.conversions import ToRowsOperator
from penstock.engine.runtime.columns.exact_fields import ExactFields
from penstock.engine.runtime.network.buffer import CODECS
from penstock.engine.runtime.network.worth import IN_ROWS
from penstock.engine.runtime.task.budget import Budget
from penstock.engine.runtime.task.context import OperatorContext, SubtaskInfo, TaskContext
from penstock.engine.runtime.task.metrics import OperatorCounters
from penstock.engine.state.key_groups import KeyGroups

AGGREGATES: dict[str, dict[str, Any]] = {
    "count": {"count": "count"},
    "sum and count": {"total": ("n", "sum"), "count": "count"},
    "six": {
        "total": ("n", "sum"), "count": "count", "mean": ("n", "avg"), "least": ("n", "min"), "most": ("n", "max"),
        "last": ("at", "last"),
    },
}  # fmt: skip


class Job:
    """One form of the aggregates."""

    def __init__(self, aggregates: dict[str, Any], on_columns: bool) -> None:
        stream = StreamExecutionEnvironment().from_collection([Row(key="", at=0, n=0)], READING)
        records: Any = stream.as_columns() if on_columns else stream
        self._operator: Any = records.key_by("key").aggregate(aggregates)._transformation.operator
        budget = Budget(time.perf_counter_ns, step_ns=1 << 60)
        task = TaskContext(SubtaskInfo("job", 0, "task", 0, 1, 128), lambda: 0, budget, KeyGroups(128))
        context = OperatorContext(task, "running", uid="", counters=OperatorCounters("running"))
        budget.begin_step()
        output: Any = Results()
        self._on_columns = on_columns
        if on_columns:
            to_rows = ToRowsOperator(self._operator.columns_given)
            to_rows.setup(context, output)
            to_rows.open()
            output = _Next(to_rows)
            columns = self._operator.columns_received.only(self._operator.columns_read())
            self._exact = ExactFields(columns)
            self._decode = decoder(msgspec.structs.replace(EDGE, schema=columns.schema.serialize().to_pybytes()))
        self._operator.setup(context, output)
        self._operator.open()

    def run(self, rows: Rows) -> None:
        """Send and process a chunk."""
        sent: Any = self._exact.columns_of(rows) if self._on_columns else rows
        codec = CODECS[ChunkKind.COLUMNS if self._on_columns else ChunkKind.ROWS]
        for item in codec.decode(memoryview(codec.encode([sent], IN_ROWS))):
            self._operator.process(self._decode(item) if isinstance(item, EncodedColumns) else item)


class _Next(Results):
    def __init__(self, operator: Any) -> None:
        super().__init__()
        self._operator = operator

    def emit(self, chunk: Any) -> bool:
        self._operator.process(chunk)
        return True


def ns_a_record(job: Job, chunk: int, records: int, keys: int) -> float:
    """Return what a record costs (ns of CPU time)."""
    chunks = []
    for first in range(0, records, chunk):
        numbers = range(first, first + chunk)
        rows = [Row(key=f"key {n * 2654435761 % keys}", at=n, n=n) for n in numbers]
        chunks.append(Rows(rows, list(numbers)))
    job.run(chunks[0])
    began = time.process_time_ns()
    for rows_of_chunk in chunks:
        job.run(rows_of_chunk)
    return (time.process_time_ns() - began) / (len(chunks) * chunk)


def main(records: int) -> None:
    """Print a line for each size of chunks."""
    print("aggregates       chunk   keys  rows ns  columns ns  ratio")
    for name, aggregates in AGGREGATES.items():
        for keys in (1000, 100_000):
            for chunk in (16, 64, 128, 256, 1024, 4096):
                # By turns: what else runs on the machine meets both.
                pairs = [
                    [ns_a_record(Job(aggregates, on_columns), chunk, records, keys) for on_columns in (False, True)]
                    for _ in range(3)
                ]
                rows, columns = map(statistics.median, zip(*pairs, strict=True))
                print(f"{name:15} {chunk:6} {keys:6} {rows:8.0f} {columns:11.0f} {rows / columns:6.2f}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50_000)
