"""DataFrames of the files of a FileSource, which Spark's Python workers read as the source's tasks would."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.connectors.files.formats.format import FileFormat
from penstock.connectors.files.split import FileSplit
from penstock.engine.plan import program_pickler
from penstock.hosts.spark.frames.worker_function import WorkerFunction
from penstock.hosts.spark.payload import Payload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class FileReads(WorkerFunction):
    """Reads splits of files by a format of batches of these columns."""

    def __init__(
        self, payload: Payload, file_format: FileFormat, splits: Sequence[FileSplit], columns: RecordColumns
    ) -> None:
        super().__init__(payload, columns.schema)
        self._format = program_pickler.dumps(file_format)
        self._splits = list(splits)

    def frame(self, session: SparkSession) -> DataFrame:
        """Return the DataFrame, with a partition for each split."""
        count = len(self._splits)
        return self.of(session.range(0, count, 1, max(1, count)))

    def batches(self, received: Iterator[pyarrow.RecordBatch], subtask: int) -> Iterator[pyarrow.RecordBatch]:
        file_format = program_pickler.loads(self._format, "the format of a file")
        for numbers in received:
            for number in numbers.column(0).to_pylist():
                for chunk in file_format.read(self._splits[number], lambda count: None):
                    yield chunk.values
