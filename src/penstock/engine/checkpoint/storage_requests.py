"""What a job master has asked of the checkpoint storage, and what follows from the answers."""

from __future__ import annotations

from collections.abc import Callable

from penstock.engine.checkpoint.effects import DeleteFiles, StorageEffect

StorageEnded = Callable[[str, int], None]
"""Called with the error of a storage operation, empty if it succeeded, and the time in milliseconds."""


class StorageRequests:
    """Of one job. `emit` takes its effects."""

    def __init__(self, emit: Callable[[StorageEffect], None]) -> None:
        self.is_fenced = False
        """Whether another run has taken the job over, as far as is known: this one may change nothing any more."""
        self._emit = emit
        self._numbers = 0
        self._open: dict[int, StorageEnded] = {}
        """What to do when an operation has ended, by its number."""
        self._deletions: set[int] = set()
        """Those that delete files, and have not ended."""

    @property
    def is_idle(self) -> bool:
        """Whether all operations have been answered."""
        return not self._open

    @property
    def is_settled(self) -> bool:
        """Whether all operations have been answered that concern the next attempt.

        To delete many files may take minutes. Their names contain the attempt, so none is one of the next.
        """
        return len(self._open) == len(self._deletions)

    def number(self) -> int:
        """A number for the next operation, of the storage or of a sink: no two have the same."""
        self._numbers += 1
        return self._numbers

    def ask(self, effect: StorageEffect, then: StorageEnded = lambda error, now_ms: None) -> None:
        """Ask for an operation. Does nothing if the run is fenced: another run owns the store."""
        if not self.is_fenced:
            self._open[effect.operation] = then
            if isinstance(effect, DeleteFiles):
                self._deletions.add(effect.operation)
            self._emit(effect)

    def fence(self) -> None:
        """Another run has taken the job over: from now on the storage is asked nothing any more."""
        self.is_fenced = True

    def ended(self, operation: int, error: str, now_ms: int, fenced: bool) -> bool:
        """An operation has ended. `fenced`: another run holds the job. False: it had been answered before."""
        if fenced:
            self.fence()
        then = self._open.pop(operation, None)
        self._deletions.discard(operation)
        if then is not None:
            then(error, now_ms)
        return then is not None
