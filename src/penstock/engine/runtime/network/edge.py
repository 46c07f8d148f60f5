"""An edge of the JobGraph as the runtime sees it."""

from __future__ import annotations

import enum

import msgspec

from penstock.engine.runtime.chunks import ChunkKind


class FeedbackRole(enum.Enum):
    """The purpose of an edge to the head of a structured iteration."""

    WORKSET = "workset"
    """Its records are the input of the next superstep."""
    DELTA = "delta"
    """Its records are in the next superstep, too, but do not keep the iteration going."""
    COUNT = "count"
    """Only their number travels: another head gets the records. An iteration ends when no head gets any."""
    TERMINATION = "termination"
    """Only their number travels: the iteration ends after a superstep in which there are none."""
    ENDS = "ends"
    """Only the ends of supersteps travel: another head gets the records, and decides no less without them."""

    @property
    def carries_records(self) -> bool:
        """Whether the head gets the records, and not only their number."""
        return self in (FeedbackRole.WORKSET, FeedbackRole.DELTA)


class EdgeInfo(msgspec.Struct, frozen=True):
    """An edge between two vertices. `widths`: the number of slots of each level, which relays need."""

    id: int
    target_vertex: int
    source_parallelism: int
    target_parallelism: int
    source_level: int
    target_level: int
    widths: tuple[int, ...]
    input_index: int = 0
    """The index of the input of the target's first operator."""
    feedback: bool = False
    """Whether the edge leads back to the head of an iteration, by the channel between slots."""
    in_loop: bool = False
    """Whether its sender and its receiver belong to one loop."""
    in_supersteps: bool = False
    """Whether that loop is a structured iteration."""
    role: FeedbackRole | None = None
    """Its purpose, if it leads to the head of a structured iteration."""
    target_max_parallelism: int = 128
    """The key groups of the target: its state is where the records of a key go, whatever the sender's number."""
    kind: ChunkKind = ChunkKind.ROWS
    """The kind of the chunks on it."""
    mixes_rows: bool = False
    """Whether an edge of columns carries rows as well, where these can't be columns."""
    schema: bytes | None = None
    """The schema of its columns, in Arrow's IPC format: it travels here once, and not with each buffer."""
    key_fields: tuple[str, ...] = ()
    """The fields that make the key of a keyed edge; empty if only a key selector knows it."""
    event_time_field: str | None = None
    """The column whose values are the timestamps of its records, which are not sent as well; None: they are sent."""

    def hop(self, level: int, sender: int, target: int) -> int:
        """Return the slot of `level` to write a buffer to: the target's, or a slot that relays the buffer.

        All buffers of one sender on this edge take the same route: on different routes they could overtake each other.
        Feedback has no relays, also to a head on a later level: several heads of one iteration may be on several.
        """
        return target if self.feedback or level >= self.target_level else sender % self.widths[level]
