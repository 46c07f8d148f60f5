"""What all users' functions have in common: their life cycle."""

from __future__ import annotations

from abc import ABC

from penstock.api.runtime_context import RuntimeContext


class Function(ABC):  # noqa: B024 - its methods do nothing unless overridden, and it is not to be made by itself
    """Base of all functions. It is pickled to the workers, once for each subtask, before `open` is called there."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Called once, before the first record: get states and metrics, open what can't be pickled."""

    def close(self) -> None:
        """Called once after the last record, and also when the job failed or was cancelled."""
