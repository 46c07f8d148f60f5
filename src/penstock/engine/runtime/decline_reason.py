"""Why a task can't take part in a checkpoint."""

from __future__ import annotations

import enum


class DeclineReason(enum.Enum):
    """Why a task declines. `engine/checkpoint/failure.py` knows of each whether it counts as a failure."""

    STATE = "state"
    """Its state could not be written."""
    ALIGNMENT_LIMIT = "alignment limit"
    """It would have to set aside more than it may while it waits for barriers."""
    NEWER = "newer"
    """A barrier of a newer checkpoint came first."""
