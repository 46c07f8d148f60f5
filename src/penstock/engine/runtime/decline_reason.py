"""Why a task can't take part in a checkpoint."""

from __future__ import annotations

import enum


class DeclineReason(enum.Enum):
    """It travels to the coordinator, which knows of each whether it counts as a failure (checkpoint/failure.py)."""

    STATE = "state"
    """Its state could not be written."""
    ALIGNMENT_LIMIT = "alignment limit"
    """It would have to set aside more than it may while it waits for barriers."""
    NEWER = "newer"
    """A barrier of a newer checkpoint came first."""
