"""CachedDataStream: a stream whose records later jobs reuse. Created by `DataStream.cache`.

Source: Flink docs, "Operators", Cache; FLIP-205.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from penstock.common.errors import ProgramError
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.connectors.base.cached_records import CachedRecordsSource
from penstock.datastream.data_stream import DataStream
from penstock.datastream.filling_results import FillingResults, Parts
from penstock.engine.jobmaster.results.result_sinks import ResultSink
from penstock.engine.plan.transformations import CacheTransformation, OperatorTransformation, SourceTransformation
from penstock.engine.runtime.execution_mode import ExecutionMode
from penstock.engine.runtime.operators.sink import CacheOperator

T = TypeVar("T")


class CachedDataStream(DataStream[T]):
    """A stream that is computed once: the first job of the environment that needs it stores its records for later jobs.

    As in Flink, only a job in BATCH mode fills the cache; jobs in STREAMING mode may read it. The records are stored
    with their timestamps in the memory of the program's process and are sent to the workers with each job that reads
    them. A failed job stores nothing.
    """

    def __init__(self, stream: DataStream[T]) -> None:
        environment = stream.environment
        self._cache = CacheTransformation(environment.next_id(), stream._transformation)
        super().__init__(environment, self._cache)

    def invalidate(self) -> None:
        """Drop the records. The next job that needs them computes them again."""
        self._cache.invalidate()


def filling(
    cache: CacheTransformation, next_id: Callable[[], int], mode: ExecutionMode
) -> tuple[OperatorTransformation, ResultSink]:
    """Return the sink that fills a cache, and its receiver in the program. Raises ProgramError in STREAMING mode."""
    if not mode.blocking_exchanges:
        raise ProgramError(
            f"cache() stores the result of '{cache.inputs[0].name}' only in BATCH mode: run the job that computes it "
            "with execution.runtime-mode: BATCH, or remove cache()"
        )
    id = next_id()
    sink = OperatorTransformation(id, "Cache", [cache], CacheOperator("Cache", id), is_sink=True)
    sink.parallelism = cache.inputs[0].parallelism
    sink.is_nameless = True

    def fill(parts: Parts) -> None:
        source = SourceTransformation(
            id=next_id(),
            name="Cached Source",
            source=CachedRecordsSource(parts),
            strategy=WatermarkStrategy.no_watermarks(),
            output_type=cache.output_type,
            parallelism=cache.inputs[0].parallelism,
        )
        source.is_nameless = True
        cache.fill(source)

    return sink, FillingResults(fill)
