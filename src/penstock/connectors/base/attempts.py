"""Attempts of a sink's subtasks: which came first, and whose remains a restored subtask ends."""

from __future__ import annotations

import re
from collections.abc import Iterable

from penstock.api.sink import SinkContext

_ATTEMPT = re.compile(r"-(\d+)-(\d+)-[^-]*$")


def order_of(attempt: str) -> tuple[int, int]:
    """Of two attempts (`SinkContext.attempt`) of one job, the later one has the greater order."""
    # Job, epoch and number; then comes what is of this subtask's process.
    found = _ATTEMPT.search(attempt)
    return (int(found[1]), int(found[2])) if found else (0, 0)


class Heritage:
    """Of which subtasks of former attempts a subtask ends the remains: each has one heir, also after rescaling.

    A restored subtask inherits from those whose state it has, and from those that are congruent to them: a former
    attempt may have had more. Without a snapshot each inherits from those congruent to itself.
    """

    def __init__(self, context: SinkContext, restored: Iterable[tuple[int, int]]) -> None:
        """`restored`: (subtask, parallelism) of the writers whose state this one has."""
        self._owned = list(restored)
        if not self._owned and not context.is_restored:
            self._owned = [(context.subtask, context.parallelism)]
        if not context.checkpointing:
            self._owned = []

    def __contains__(self, subtask: int) -> bool:
        return any(subtask % of == own for own, of in self._owned)

    def __bool__(self) -> bool:
        return bool(self._owned)
