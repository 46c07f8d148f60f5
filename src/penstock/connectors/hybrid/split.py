"""Splits and state of a hybrid source."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.api.source import Source
from penstock.common.stored import stored_as


@stored_as("hybrid-split")
class HybridSplit(msgspec.Struct, frozen=True):
    """A split of the source at `index`. `split` None: that source has no more splits for this subtask.

    `source`: the source if a factory created it, which readers cannot do. `answers`: whether this answers a request, so
    that the reader may send the next one. `subtask`: the subtask to which it was assigned.
    """

    index: int
    split: Any = None
    source: Source[Any] | None = None
    answers: bool = False
    subtask: int = 0

    @property
    def split_id(self) -> str:
        """Return `<index>-<id within the source>`."""
        return f"{self.index}-{f'end-{self.subtask}' if self.split is None else self.split.split_id}"


@stored_as("hybrid-enumerator")
class HybridState(msgspec.Struct, frozen=True):
    """Position of the enumerator: index of the source, the source if a factory created it, its enumerator's state."""

    index: int
    source: Source[Any] | None
    state: Any
