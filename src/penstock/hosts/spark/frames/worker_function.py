"""A function of batches that Spark's own Python workers call, by `mapInArrow`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow

from penstock.common.functions.user_calls import RAISED
from penstock.hosts.spark.failures import to_stage_failure
from penstock.hosts.spark.frames.column_types import schema_in_spark, type_in_spark
from penstock.hosts.spark.payload import Payload, set_up
from penstock.hosts.spark.worker.randomness import reseed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class WorkerFunction(ABC):
    """Subclasses define `batches`, with columns of the types of `given`. Raises UserFunctionError, as a job does."""

    def __init__(self, payload: Payload, given: pyarrow.Schema) -> None:
        self._payload = payload
        self._given = exchanged(given)

    @abstractmethod
    def batches(self, received: Iterator[pyarrow.RecordBatch], subtask: int) -> Iterator[pyarrow.RecordBatch]:
        """Yield the results of the batches of a partition."""

    def of(self, frame: DataFrame) -> DataFrame:
        """Return the frame of the results, with columns c0, c1 and so on."""
        return frame.mapInArrow(self.results, schema_in_spark(self._given))

    def results(self, received: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        """Yield the results as Spark takes them."""
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        try:
            reseed()
            set_up(self._payload)
            for batch in self.batches(received, task.partitionId()):
                yield as_types(batch, self._given)
        except GeneratorExit:
            # PySpark has stopped reading.
            raise
        except RAISED as error:
            # Drop the chain of exceptions, which Spark would add as a long text: the failure has all information.
            raise to_stage_failure(error) from None


def exchanged(schema: pyarrow.Schema) -> pyarrow.Schema:
    """Return the schema, with names c0, c1 and so on, in which Spark exchanges these columns with Python."""
    return pyarrow.schema((f"c{position}", type_in_spark(kind)) for position, kind in enumerate(schema.types))


def as_types(batch: pyarrow.RecordBatch, schema: pyarrow.Schema) -> pyarrow.RecordBatch:
    """Return the columns of a batch, in their order, as those of a schema."""
    columns = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pyarrow.RecordBatch.from_arrays(columns, schema=schema)
