"""How a checkpoint is to be taken: travels with the request, the trigger, in band with the barrier, to the storage.

Source: Flink's CheckpointOptions and SavepointType.
"""

from __future__ import annotations

import enum
from typing import Any

import msgspec

from penstock.common.stored import stored_as


@stored_as("checkpoint-options")
class CheckpointOptions(msgspec.Struct, frozen=True, gc=False):
    """The default is a periodic checkpoint: incremental where the backend can, and the job goes on."""

    full: bool = False
    """Write all state, not only what has changed."""
    savepoint: str = ""
    """The directory of a savepoint; empty for a checkpoint."""
    stop: bool = False
    """The job stops with this savepoint: after the barrier no source emits and no timer fires."""
    drain: bool = False
    """Sources end before a stop, so that all windows and timers fire."""
    update: int = 0
    """The update that is made at this barrier: records behind it meet the new functions. 0: none."""

    @property
    def is_aligned(self) -> bool:
        """Whether its barriers are aligned, whatever is configured: what was before one is never behind it."""
        return bool(self.savepoint) or bool(self.update)

    def __post_init__(self) -> None:
        assert self.stop or not self.drain, "a drain ends with a stop"


# Why a task can't take part in a checkpoint.


class DeclineReason(enum.Enum):
    """Why a task declines. `engine/checkpoint/failure.py` knows of each whether it counts as a failure."""

    STATE = "state"
    """Its state could not be written."""
    ALIGNMENT_LIMIT = "alignment limit"
    """It would have to set aside more than it may while it waits for barriers."""
    NEWER = "newer"
    """A barrier of a newer checkpoint came first."""


# What the sinks of a task have prepared for a checkpoint.

Commits = list[tuple[int, list[Any]]]
"""By sink: what is to be committed when the checkpoint is complete. It travels to the coordinator, pickled."""
