"""The user's functions inside a DataFrame: consecutive ones are one `mapInArrow`, whose workers run their operators.

The functions of groups come first in such a chain: Spark brings the rows of a key together and sorts them, and a run
of equal keys is a group. An `applyInArrow` per group would cost 0.2 ms for each.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy
import pyarrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.constants import MAX_TIMESTAMP
from penstock.common.errors import JobError
from penstock.common.time.wall_clock import now_ms
from penstock.common.types import RowKind
from penstock.engine.plan import program_pickler
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.task.detached_chain import DetachedChain, DetachedOperator, Place
from penstock.hosts.spark.frames.worker_function import WorkerFunction, as_types
from penstock.hosts.spark.payload import Payload


class FunctionCalls(WorkerFunction):
    """A chain of operators, from the columns `received` to the columns `given`.

    `timed`: whether rows have the last possible timestamp, and not none. `parallelism`: that of the program, for
    errors.
    """

    def __init__(
        self,
        payload: Payload,
        chain: Sequence[DetachedOperator],
        *,
        received: RecordColumns,
        given: RecordColumns,
        timed: bool,
        parallelism: int,
    ) -> None:
        super().__init__(payload, given.schema)
        self._chain = program_pickler.dumps(list(chain))
        self._received = received.schema
        self._timed = timed
        self._parallelism = parallelism

    def batches(self, received: Iterator[pyarrow.RecordBatch], subtask: int) -> Iterator[pyarrow.RecordBatch]:
        operators = program_pickler.loads(self._chain, "a function of columns")
        place = Place(subtask, max(self._parallelism, subtask + 1), now_ms, time.monotonic_ns)
        for chunk in DetachedChain(operators, place).results(self._chunks(received)):
            if chunk.kinds is not None and (chunk.kinds != RowKind.INSERT.value).any():
                raise JobError(
                    "a function has returned a Row that deletes or updates another one: a DataFrame can't have it"
                )
            yield chunk.batch

    def _chunks(self, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[Columns]:
        for batch in batches:
            if batch.num_rows:
                times: Any = numpy.full(batch.num_rows, MAX_TIMESTAMP) if self._timed else None
                yield Columns(as_types(batch, self._received), times)
