"""Errors of functions, with the words of Flink."""

from __future__ import annotations

from penstock.common.errors import PenstockError


class FunctionError(PenstockError, ValueError):
    """A function cannot compute a value: the message says which, of what, and why. A job fails with it."""


class InvalidCallError(TypeError):
    """A function does not accept the types of its arguments. Flink's planner reports it before a job starts."""


class InvalidOptionError(InvalidCallError):
    """An option of a call, such as RETURNING, is not accepted. Flink reports it without the call."""


class UnknownFunctionError(InvalidCallError):
    """No function has this name, or its name is one of Flink's that is not supported."""
