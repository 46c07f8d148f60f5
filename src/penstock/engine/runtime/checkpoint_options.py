"""Options of a checkpoint: they travel with the request, the trigger and the barrier, and reach the storage.

Source: Flink's CheckpointOptions and SavepointType.
"""

from __future__ import annotations

import enum
from typing import Any

import msgspec

from penstock.common.stored import stored_as


@stored_as("checkpoint-options")
class CheckpointOptions(msgspec.Struct, frozen=True, gc=False):
    """The default is a periodic checkpoint: incremental if the state backend supports it, and the job continues."""

    full: bool = False
    """Write all state, not only what has changed."""
    savepoint: str = ""
    """The directory of a savepoint; empty for a checkpoint."""
    stop: bool = False
    """The job stops with this savepoint: after the barrier no source emits and no timer fires."""
    drain: bool = False
    """Sources end before a stop, so that all windows and timers fire."""
    update: int = 0
    """The update that tasks apply at this barrier: new functions process the records behind it. 0: no update."""

    @property
    def is_aligned(self) -> bool:
        """Whether barriers are aligned even if unaligned checkpoints are configured."""
        return bool(self.savepoint) or bool(self.update)

    def __post_init__(self) -> None:
        assert self.stop or not self.drain, "a drain ends with a stop"


class DeclineReason(enum.Enum):
    """Why a task declines a checkpoint. `engine/checkpoint/failure.py` says which reasons count as failures."""

    STATE = "state"
    """Its state could not be written."""
    ALIGNMENT_LIMIT = "alignment limit"
    """While the task waited for barriers, it would have had to set aside more than its limit."""
    NEWER = "newer"
    """A barrier of a newer checkpoint came first."""
    ITERATION = "iteration"
    """A structured iteration still reads its initial input."""


Commits = list[tuple[int, list[Any]]]
"""Committables by sink id, to commit when the checkpoint is complete. They travel to the coordinator, pickled."""
