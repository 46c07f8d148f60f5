"""The user's functions inside a DataFrame: consecutive ones are one `mapInArrow`, whose workers run their operators.

The functions of groups come first in such a chain: Spark brings the rows of a key together and sorts them, and a run
of equal keys is a group. An `applyInArrow` per group would cost 0.2 ms for each.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy
import pyarrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.constants import MAX_TIMESTAMP
from penstock.common.errors import JobError
from penstock.common.functions.user_calls import RAISED
from penstock.common.time.wall_clock import now_ms
from penstock.common.types import RowKind
from penstock.engine.plan import program_pickler
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.task.detached_chain import DetachedChain, DetachedOperator, Place
from penstock.hosts.spark.failures import to_stage_failure
from penstock.hosts.spark.frames.column_types import schema_in_spark, type_in_spark
from penstock.hosts.spark.payload import Payload, set_up
from penstock.hosts.spark.worker.randomness import reseed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class FunctionCalls:
    """A chain of operators as a function for `mapInArrow`, from the columns `received` to the columns `given`.

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
        self._payload = payload
        self._chain = program_pickler.dumps(list(chain))
        self._received = received.schema
        self._timed = timed
        self._parallelism = parallelism
        names = [f"c{position}" for position in range(len(given.names))]
        self._given = pyarrow.schema(zip(names, map(type_in_spark, given.schema.types), strict=True))

    def of(self, frame: DataFrame) -> DataFrame:
        """Return the frame of the results, with columns c0, c1 and so on."""
        return frame.mapInArrow(self.results, schema_in_spark(self._given))

    def results(self, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        """Yield the results of a partition."""
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        subtask = task.partitionId()
        try:
            reseed()
            set_up(self._payload)
            operators = program_pickler.loads(self._chain, "a function of columns")
            place = Place(subtask, max(self._parallelism, subtask + 1), now_ms, time.monotonic_ns)
            for chunk in DetachedChain(operators, place).results(self._chunks(batches)):
                yield self._in_spark(chunk)
        except GeneratorExit:
            # PySpark has stopped reading.
            raise
        except RAISED as error:
            # Drop the chain of exceptions, which Spark would add as a long text: the failure has all information.
            raise to_stage_failure(error) from None

    def _chunks(self, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[Columns]:
        for batch in batches:
            if batch.num_rows:
                times: Any = numpy.full(batch.num_rows, MAX_TIMESTAMP) if self._timed else None
                yield Columns(_cast(batch, self._received), times)

    def _in_spark(self, chunk: Columns) -> pyarrow.RecordBatch:
        if chunk.kinds is not None and (chunk.kinds != RowKind.INSERT.value).any():
            raise JobError("a function has returned a Row that deletes or updates another one: a DataFrame has none")
        return _cast(chunk.batch, self._given)


def _cast(batch: pyarrow.RecordBatch, schema: pyarrow.Schema) -> pyarrow.RecordBatch:
    columns = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pyarrow.RecordBatch.from_arrays(columns, schema=schema)
