"""PyFlink's start condition of batch tasks."""

from __future__ import annotations

import enum


class InputDependencyConstraint(enum.Enum):
    """Which inputs must be available before a task starts. It has no effect, because Spark decides."""

    ANY = 0
    ALL = 1
