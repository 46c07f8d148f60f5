"""Programs in BATCH mode of which DataFrames of Spark compute a part, or all: see `engine/plan/frame_parts.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from penstock.common.configuration import Configuration, options
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.datastream.program_frames import ProgramFrames
from penstock.engine.plan.frame_parts import frame_parts
from penstock.engine.plan.plan import Change
from penstock.engine.plan.relations import relation_of
from penstock.engine.plan.stream_graph import NOTHING_REPLACED, in_order
from penstock.engine.plan.transformations import OperatorTransformation, SourceTransformation, Transformation
from penstock.engine.runtime.operators.last_timestamp import LastTimestampOperator

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.hosts.spark.frames.lowering import Lowering
    from penstock.hosts.spark.frames.part_frame import PartFrame


class ReadParts(NamedTuple):
    """The streams of what DataFrames compute, by the ids of the streams that they replace."""

    streams: Mapping[int, Transformation] = NOTHING_REPLACED
    changes: Sequence[Change] = ()
    """What `penstock explain` says about them."""


def parts_read(
    ends: Sequence[Transformation],
    configuration: Configuration,
    session: SparkSession | None,
    next_id: Callable[[], int],
) -> ReadParts:
    """Return the streams to read in place of the parts of a program in BATCH mode that run as DataFrames.

    `session`: the one that the program has given.
    """
    if not _has_relations(ends, configuration):
        return ReadParts()
    frames = ProgramFrames(ends, configuration, session)
    parts = frame_parts(ends, frames)
    if not parts.ends:
        return ReadParts(changes=parts.changes)
    lowering = frames.lowering(parts)
    streams: dict[int, Transformation] = {}
    for end in parts.ends:
        source = _source_of(end, lowering, id=next_id(), directory=frames.directory)
        streams[end.id] = _at_the_end(source, next_id()) if end.id in parts.timed else source
    return ReadParts(streams, parts.changes)


def whole_frame(
    end: Transformation, configuration: Configuration, session: SparkSession | None = None
) -> PartFrame | None:
    """Return the DataFrame of a stream whose program in BATCH mode is all relations; None if operators have to run."""
    if not _has_relations([end], configuration):
        return None
    frames = ProgramFrames([end], configuration, session)
    parts = frame_parts([end], frames, is_result=True)
    return frames.lowering(parts).part_of(end) if [one.id for one in parts.ends] == [end.id] else None


def _has_relations(ends: Sequence[Transformation], configuration: Configuration) -> bool:
    return configuration.get(options.BATCH_DATA_FRAMES) and any(one.relation is not None for one in in_order(ends))


def _source_of(end: Transformation, lowering: Lowering, *, id: int, directory: str | None) -> SourceTransformation:
    """Return the source of what a part computes."""
    from penstock.hosts.spark.frames.source import PartitionsSource, PartSource

    relation = relation_of(end)
    assert relation is not None, f"{end.name} is not a relation"
    kind = PartitionsSource if relation.has_partitions else PartSource
    source = SourceTransformation(
        id=id,
        name=f"{end.name} (DataFrame)",
        source=kind(lowering.part_of(end), directory, end.name),
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
