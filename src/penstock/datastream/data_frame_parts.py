"""Programs in BATCH mode of which DataFrames of Spark compute a part, or all: see `engine/plan/frame_parts.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.common.configuration import Configuration, options
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.engine.plan.frame_parts import frame_parts
from penstock.engine.plan.plan import Change
from penstock.engine.plan.relations import relation_of
from penstock.engine.plan.stream_graph import NOTHING_REPLACED, in_order
from penstock.engine.plan.transformations import OperatorTransformation, SourceTransformation, Transformation
from penstock.engine.runtime.operators.last_timestamp import LastTimestampOperator

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.hosts.spark.frames.lowering import Lowering


class ReadParts(NamedTuple):
    """The streams of what DataFrames compute, by the ids of the streams that they replace."""

    streams: Mapping[int, Transformation] = NOTHING_REPLACED
    changes: Sequence[Change] = ()
    """What `penstock explain` says about them."""


def parts_read(ends: Sequence[Transformation], configuration: Configuration, next_id: Callable[[], int]) -> ReadParts:
    """Return the streams to read in place of the parts of a program in BATCH mode that run as DataFrames."""
    if not _has_relations(ends, configuration):
        return ReadParts()
    frames = _Frames()
    parts = frame_parts(ends, frames.reason_to_copy)
    if not parts.ends:
        return ReadParts(changes=parts.changes)
    from penstock.hosts.spark.frames.lowering import Lowering

    lowering = Lowering(configuration.get(options.PARALLELISM))
    streams: dict[int, Transformation] = {}
    for end in parts.ends:
        source = _source_of(end, lowering, id=next_id(), directory=frames.directory)
        streams[end.id] = _at_the_end(source, next_id()) if end.id in parts.timed else source
    return ReadParts(streams, parts.changes)


def whole_frame(end: Transformation, configuration: Configuration) -> DataFrame | None:
    """Return the DataFrame of a stream whose program in BATCH mode is all relations; None if operators have to run."""
    if not _has_relations([end], configuration):
        return None
    parts = frame_parts([end], _Frames().reason_to_copy)
    if [one.id for one in parts.ends] != [end.id]:
        return None
    from penstock.hosts.spark.frames.lowering import Lowering

    return Lowering(configuration.get(options.PARALLELISM)).frame_of(end)


def _has_relations(ends: Sequence[Transformation], configuration: Configuration) -> bool:
    return configuration.get(options.BATCH_DATA_FRAMES) and any(one.relation is not None for one in in_order(ends))


class _Frames:
    """The DataFrames that sources of a program read. Those of one program need one session."""

    def __init__(self) -> None:
        self._session: Any = None
        self._directory: str | None = None

    @property
    def directory(self) -> str | None:
        """A directory that all executors see; None: a temporary folder is enough."""
        from penstock.hosts.spark.driver.session import session_is_local

        return None if session_is_local(self._session) else self._directory

    def reason_to_copy(self, stream: SourceTransformation) -> str | None:
        """Return why operators have to read a source; None if it is a DataFrame that other ones can read."""
        source, strategy = stream.source, stream.operator.strategy
        # Few programs have one: the others need not import what reads it.
        if not hasattr(source, "frame"):
            return f"'{stream.name}' is not a DataFrame"
        from penstock.hosts.spark.frames.source import DataFrameSource, reason_to_copy
        from penstock.hosts.spark.internals.jvm import is_alive
        from penstock.hosts.spark.internals.query_plans import is_one_session

        if not isinstance(source, DataFrameSource) or (frame := source.frame) is None:
            return f"'{stream.name}' is not a DataFrame"
        if strategy.has_watermarks or strategy.timestamp_assigner is not None:
            return f"'{stream.name}': its records have timestamps"
        if stream.output_type != source.get_produced_type():
            return f"'{stream.name}': it is declared with another type than its DataFrame has"
        if not is_alive(frame.sparkSession):
            return f"'{stream.name}': its session was stopped"
        self._session = self._session or frame.sparkSession
        if not is_one_session(frame.sparkSession, self._session):
            return f"'{stream.name}': it is of another session"
        self._directory = self._directory or source.directory
        reason = reason_to_copy(frame)
        return None if reason is None else f"'{stream.name}': {reason}"


def _source_of(end: Transformation, lowering: Lowering, *, id: int, directory: str | None) -> SourceTransformation:
    """Return the source of what a part computes."""
    from penstock.hosts.spark.frames.source import DataFrameSource, PartitionsSource

    relation = relation_of(end)
    assert relation is not None, f"{end.name} is not a relation"
    kind = PartitionsSource if relation.has_partitions else DataFrameSource
    source = SourceTransformation(
        id=id,
        name=f"{end.name} (DataFrame)",
        source=kind(lowering.frame_of(end), directory, end.name),
        strategy=WatermarkStrategy.no_watermarks(),
        output_type=end.output_type,
        parallelism=lowering.partitions_of(end),
    )
    source.is_nameless = True
    return source


def _at_the_end(source: SourceTransformation, id: int) -> Transformation:
    """Return the stream of a source whose records have the last timestamp, as the results of a join have."""
    name = "Last Timestamp"
    stream = OperatorTransformation(
        id,
        name,
        [source],
        LastTimestampOperator(name),
        output_type=source.output_type,
        parallelism=source.parallelism,
    )
    stream.is_nameless = True
    return stream
