"""CachedDataStream: a stream whose records are kept between jobs. Created by `DataStream.cache`.

Source: Flink docs, "Operators", Cache; FLIP-205.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from penstock.common.errors import ProgramError
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.connectors.base.kept_records import KeptRecordsSource
from penstock.datastream.data_stream import DataStream
from penstock.engine.jobmaster.results.result_sinks import ResultSink
from penstock.engine.plan.transformations import CacheTransformation, OperatorTransformation, SourceTransformation
from penstock.engine.runtime.operators.sink import CacheOperator

T = TypeVar("T")


class CachedDataStream(DataStream[T]):
    """A stream that is computed once: the first job of the environment that needs it keeps its records for later ones.

    Only in BATCH mode, as in Flink: a job in STREAMING mode may read what a job in BATCH mode has kept. The records are
    kept with their timestamps in the program's own process, and go to the workers with each job that reads them, so
    cache what fits into its memory. A job that fails keeps nothing.
    """

    def __init__(self, stream: DataStream[T]) -> None:
        environment = stream.environment
        self._cache = CacheTransformation(environment.next_id(), stream._transformation)
        super().__init__(environment, self._cache)

    def invalidate(self) -> None:
        """Drop the records. The next job that needs them computes them again."""
        self._cache.invalidate()


def filling(
    cache: CacheTransformation, next_id: Callable[[], int], batched: bool
) -> tuple[OperatorTransformation, ResultSink]:
    """The sink that fills a cache, and what receives its records in the program. Raises ProgramError in STREAMING."""
    if not batched:
        raise ProgramError(
            f"cache() keeps the result of '{cache.inputs[0].name}' only in BATCH mode: run the job that computes it "
            "with execution.runtime-mode: BATCH, or leave cache() out"
        )
    id = next_id()
    sink = OperatorTransformation(id, "Cache", [cache], CacheOperator("Cache", id), is_sink=True)
    sink.parallelism = cache.inputs[0].parallelism
    sink.is_nameless = True
    return sink, _FillingResults(cache, next_id)


class _FillingResults(ResultSink):
    """Keeps records until the job has succeeded."""

    exactly_once = True

    def __init__(self, cache: CacheTransformation, next_id: Callable[[], int]) -> None:
        self._cache = cache
        self._next_id = next_id
        self._parts: dict[int, list[tuple[Any, int | None]]] = {}

    def take(self, subtask: int, values: list[Any]) -> None:
        self._parts.setdefault(subtask, []).extend(values)

    def restarted(self) -> None:
        self._parts.clear()

    def succeeded(self) -> None:
        parts = [self._parts[subtask] for subtask in sorted(self._parts)]
        source = SourceTransformation(
            self._next_id(),
            "Cached Source",
            KeptRecordsSource(parts),
            WatermarkStrategy.no_watermarks(),
            self._cache.output_type,
            self._cache.inputs[0].parallelism,
        )
        source.is_nameless = True
        self._cache.fill(source)
