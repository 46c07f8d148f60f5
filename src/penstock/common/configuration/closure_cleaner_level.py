"""Which fields of a function in Java are emptied before it is sent. Source: Flink, `ExecutionConfig`."""

from __future__ import annotations

from enum import Enum


class ClosureCleanerLevel(Enum):
    """Flink's levels: none has an effect, as functions are Python here."""

    NONE = "NONE"
    TOP_LEVEL = "TOP_LEVEL"
    RECURSIVE = "RECURSIVE"
