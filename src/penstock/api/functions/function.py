"""The base class of user functions: their life cycle."""

from __future__ import annotations

from abc import ABC

from penstock.api.runtime_context import RuntimeContext


class Function(ABC):  # noqa: B024 - its methods are optional, and it is not instantiated directly
    """Base class of all functions. A copy is pickled to each subtask, and `open` is called there."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Obtain states and metrics, open resources that can't be pickled. Called once, before the first record."""

    def close(self) -> None:
        """Release resources. Called once, after the last record, or when the job fails or is canceled."""
