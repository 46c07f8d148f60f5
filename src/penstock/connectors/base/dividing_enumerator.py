"""Assigns splits that the server has to be asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.api.source import EnumeratorContext
from penstock.connectors.base.split_enumerator import SharedSplitEnumerator


class DividingEnumerator(SharedSplitEnumerator):
    """Asks for the splits when it starts; any subtask gets the next one. `divide` waits for the server."""

    def __init__(
        self,
        context: EnumeratorContext,
        divide: Callable[[], Sequence[Any]],
        pending: Sequence[Any] | None = None,
    ) -> None:
        super().__init__(context, more_to_come=False, restored=pending is not None)
        self._calls = context.call_async
        self._divide = divide
        self._is_divided = pending is not None
        self.add_splits(pending or ())

    def start(self) -> None:
        if not self._is_divided:
            self._calls(self._divide, self._divided)

    def snapshot_state(self) -> list[Any] | None:
        # None: nothing was divided yet.
        return self.pending() if self._is_divided else None

    def _divided(self, splits: Sequence[Any] | None, error: Exception | None) -> None:
        if splits is None:
            assert error is not None
            raise error
        self._is_divided = True
        self.add_splits(splits)
