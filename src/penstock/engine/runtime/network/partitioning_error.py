"""The error for a record whose subtask a key selector or a partitioner of the user could not tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.chunks import Values
from penstock.engine.runtime.network.partitioners import Partitioner

if TYPE_CHECKING:
    from penstock.engine.runtime.task.context import OperatorContext


def partitioning_error(
    operator: OperatorContext, partitioner: Partitioner, error: BaseException, values: Values
) -> Exception:
    """Return the error for a user's key selector or partitioner that failed on one of these values."""
    method = "key selector" if partitioner.keyed else "partitioner"
    for value in values:
        # For speed, the failed loop keeps no position. Selectors have no side effects, so call them again.
        try:
            partitioner.probe(value)
        except RAISED as found:
            # A list as a key fails in the loop as "unhashable"; the error of `probe` says which types can be keys.
            _without_context(found, error)
            return operator.user_error(found, method, value)
    return operator.user_error(error, method)


def _without_context(error: BaseException, first: BaseException) -> None:
    """Remove `first` from the context of `error`, which was raised while handling it: users need the error once."""
    while error.__context__ is not None:
        if error.__context__ is first:
            error.__context__ = None
            return
        error = error.__context__
