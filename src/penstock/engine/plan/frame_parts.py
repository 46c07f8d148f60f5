"""Which parts of a program in BATCH mode run as DataFrames of Spark: the rule, without Spark.

A stream runs as a DataFrame if it reads a DataFrame, or is a relation (`relations.py`) of streams that run as
DataFrames. A *part* is as large as it can be: it ends at the stream whose rows an operator or a sink reads. Of streams
that nothing relational reads, such as a source that only an operator reads, nothing is gained, so they stay as they
are.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from penstock.engine.plan.plan import Change
from penstock.engine.plan.relations import relation_of
from penstock.engine.plan.stream_graph import in_order
from penstock.engine.plan.transformations import (
    PartitionTransformation,
    Relation,
    SourceTransformation,
    Transformation,
)
from penstock.engine.plan.upstream import upstream
from penstock.engine.runtime.network.partitioners import (
    ForwardPartitioner,
    HashPartitioner,
    RebalancePartitioner,
    RescalePartitioner,
    ShufflePartitioner,
)

PASS = "data frames"
"""What `penstock explain` calls these changes."""
_ANY_ORDER = (ForwardPartitioner, HashPartitioner, RebalancePartitioner, RescalePartitioner, ShufflePartitioner)
"""Partitioners that only decide which subtask gets a record."""


class FrameParts(NamedTuple):
    """The parts of a program that run as DataFrames."""

    ends: Sequence[Transformation]
    """The last stream of each part, whose rows operators read."""
    changes: Sequence[Change]
    """What `penstock explain` says about them."""
    timed: frozenset[int]
    """The ids of streams whose records have the last possible timestamp."""
    calling: frozenset[int]
    """The ids of streams for which functions are called."""


class SourceKind(enum.Enum):
    """Where a source has its records."""

    FRAME = "a DataFrame"
    FILES = "files, which Spark's workers read"
    MEMORY = "a table in memory, which is sent to Spark"
    """Worth no DataFrame by itself."""


class Frames(Protocol):
    """The questions about DataFrames that a program answers."""

    def reason_to_copy(self, source: SourceTransformation) -> str | None:
        """Return why operators have to read a source; None if it is a DataFrame that other ones can read."""

    def kind_of(self, source: SourceTransformation) -> SourceKind:
        """Return where a source has its records."""

    def is_ordered(self, source: SourceTransformation) -> bool:
        """Return whether the records of a source have an order."""

    def reason_for_tasks(self) -> str | None:
        """Return why functions have to run in tasks of a job; None if Spark's own workers can call them."""


def frame_parts(ends: Sequence[Transformation], frames: Frames, *, is_result: bool = False) -> FrameParts:
    """Return the parts of a program that ends in these streams.

    `is_result`: the ends are to be DataFrames anyway, so that those are worth it that only select columns, too.
    """
    sides = _Sides(ends, frames, is_result)
    last = sides.last_of_parts(ends)
    return FrameParts(last, sides.changes(last), frozenset(sides.timed), frozenset(sides.calling))


def before_partitioning(stream: Transformation) -> Transformation:
    """Return the stream before partitionings that only decide which subtask gets a record."""
    while isinstance(stream, PartitionTransformation) and type(stream.partitioner) in _ANY_ORDER:
        stream = stream.inputs[0]
    return stream


class _Sides:
    """For each stream of a program the reason why it does not run as a DataFrame."""

    def __init__(self, ends: Sequence[Transformation], frames: Frames, is_result: bool) -> None:
        self._wanted = {end.id for end in ends} if is_result else set()
        self._small: set[int] = set()
        """Frames of small sources only."""
        self._streams = in_order(ends)
        self._readers = Counter(
            before_partitioning(one).id
            for stream in self._streams
            if not isinstance(stream, PartitionTransformation)
            for one in stream.inputs
        )
        self._uses = _uses(ends)
        self._frames = frames
        self._reasons: dict[int, str | None] = {}
        self._works: set[int] = set()
        """Frames that do more than to select columns."""
        self.calling: set[int] = set()
        """Frames for which functions are called."""
        self._varying: set[int] = set()
        """Frames that may have other rows when they are computed again."""
        self._ordered: set[int] = set()
        """Frames whose rows are in an order that the program has set."""
        self.timed: set[int] = set()
        for stream in self._streams:
            self._reasons[stream.id] = self._reason_of(stream)

    def last_of_parts(self, ends: Sequence[Transformation]) -> list[Transformation]:
        """Return the last streams of all parts."""
        last = {stream.id for stream in upstream(ends, self._before_part) if self._is_part(stream)}
        return [stream for stream in self._streams if stream.id in last]

    def changes(self, last: Sequence[Transformation]) -> list[Change]:
        """Return what to say about the parts, and about relations that run as operators in a program of DataFrames."""
        changes = [
            Change(PASS, f"{_listed(self._relations_before(stream))} as a DataFrame, whose rows operators read")
            for stream in last
        ]
        changes += [
            Change(PASS, f"'{source.name}' has {kind.value}")
            for source in self._sources_before(last)
            if (kind := self._frames.kind_of(source)) is not SourceKind.FRAME
        ]
        if any(reason is None for reason in self._reasons.values()):
            changes += [
                Change(PASS, f"'{stream.name}' runs as operators: {self._reasons[stream.id]}")
                for stream in self._streams
                if stream.relation is not None and self._reasons[stream.id] is not None
            ]
        return changes

    def _before_part(self, stream: Transformation) -> Iterable[Transformation]:
        """Return what a stream reads; nothing if it is the end of a part, within which no other part ends."""
        return () if self._is_part(stream) else stream.inputs

    def _is_part(self, stream: Transformation) -> bool:
        is_worth = stream.id in self._works or stream.id in self._wanted
        return is_worth and self._reasons[stream.id] is None and relation_of(stream) is not None

    def _reason_of(self, stream: Transformation) -> str | None:
        if isinstance(stream, SourceTransformation):
            if self._frames.is_ordered(stream):
                self._ordered.add(stream.id)
            if self._frames.kind_of(stream) is SourceKind.MEMORY:
                self._small.add(stream.id)
            return self._frames.reason_to_copy(stream)
        if isinstance(stream, PartitionTransformation):
            before = before_partitioning(stream)
            return f"'{stream.name}' is before it" if before is stream else self._reasons[before.id]
        relation = relation_of(stream)
        if relation is None:
            return f"'{stream.name}' is not a DataFrame"
        inputs = [before_partitioning(one) for one in relation.inputs]
        for one in inputs:
            if (reason := self._reasons[one.id]) is not None:
                return reason if one.relation is None else f"'{one.name}' is not a DataFrame"
        return self._reason_of_relation(stream, relation, inputs)

    def _reason_of_relation(
        self, stream: Transformation, relation: Relation, inputs: Sequence[Transformation]
    ) -> str | None:
        """Return why a relation of DataFrames is not one, and note what it is if it is one."""
        if (reason := relation.reason_for_operators()) is not None:
            return reason
        if relation.calls and (reason := self._frames.reason_for_tasks()) is not None:
            return reason
        for one in inputs:
            if one.id in self.calling and self._readers[one.id] > 1:
                return f"'{one.name}' is read several times, and its functions would be called as often"
            if one.id in self._varying and self._uses[one.id] > 1:
                return f"'{one.name}' is read several times, and may have other rows each time"
            if one.id in self._ordered and relation.depends_on_order:
                return f"it depends on the order of '{one.name}'"
        are_timed = [one.id in self.timed for one in inputs]
        if stream.relation is None and any(is_timed is not are_timed[0] for is_timed in are_timed):
            return "some of its streams have timestamps"
        if relation.is_timed(are_timed):
            self.timed.add(stream.id)
        if all(one.id in self._small for one in inputs):
            self._small.add(stream.id)
        elif relation.is_work or any(one.id in self._works for one in inputs):
            self._works.add(stream.id)
        if relation.calls or any(one.id in self.calling for one in inputs):
            self.calling.add(stream.id)
        if relation.varies or any(one.id in self._varying for one in inputs):
            self._varying.add(stream.id)
        if relation.sets_order or (relation.keeps_order and any(one.id in self._ordered for one in inputs)):
            self._ordered.add(stream.id)
        return None

    def _relations_before(self, end: Transformation) -> list[str]:
        return [stream.name for stream in upstream([end], _inputs_of_relation) if relation_of(stream) is not None][::-1]

    def _sources_before(self, ends: Sequence[Transformation]) -> list[SourceTransformation]:
        return [stream for stream in upstream(ends, _inputs_of_relation) if isinstance(stream, SourceTransformation)]


def _uses(ends: Sequence[Transformation]) -> Counter[int]:
    """Count what reads each stream: an operator, or a relation, which may have several operators."""
    return Counter(one.id for stream in upstream(ends, _read_by) for one in _read_by(stream))


def _read_by(stream: Transformation) -> list[Transformation]:
    """Return the streams that a relation is of, or that an operator reads, one as often as it is read."""
    inputs = stream.inputs if relation_of(stream) is None else _inputs_of_relation(stream)
    return [before_partitioning(one) for one in inputs]


def _inputs_of_relation(stream: Transformation) -> list[Transformation]:
    """Return the streams that a relation is of; none if it is not a relation."""
    relation = relation_of(stream)
    return [] if relation is None else [before_partitioning(one) for one in relation.inputs]


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(f'{name!r}' for name in names)} {'runs' if len(names) == 1 else 'run'}"
