"""Errors of statements and of the planner."""

from __future__ import annotations

from penstock.common.errors import PenstockError, ProgramError


class SqlError(ProgramError):
    """A statement is invalid, or nothing here executes it. The message shows the place in the statement."""

    def __init__(self, message: str, *, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.line = line
        """The line of the statement, from 1; 0 if the planner does not say."""
        self.column = column
        """The column in that line, from 1; 0 if the planner does not say."""


class UnsupportedPlanError(ProgramError):
    """The planner plans the statement, but penstock has no operator, expression or type for a part of the plan."""


class PlannerError(PenstockError):
    """The planner's process does not start, does not answer in time, or has ended."""
