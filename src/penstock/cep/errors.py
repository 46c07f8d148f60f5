"""Errors of patterns: what is refused at the call, and what a skip strategy may meet while a job runs."""

from __future__ import annotations

from penstock.common.errors import JobError, ProgramError


class MalformedPatternError(ProgramError):
    """A pattern, a condition or an expression that penstock refuses. Raised by the call that receives it."""


class SkipTargetError(JobError):
    """A match without the event to which its skip strategy is to skip, or with that event as its first one."""
