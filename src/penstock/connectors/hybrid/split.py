"""What goes from the enumerator of a hybrid source to its readers, and is stored."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.api.source import Source
from penstock.common.stored import stored_as


@stored_as("hybrid-split")
class HybridSplit(msgspec.Struct, frozen=True):
    """A split of the source at `index`. `split` None: that source has no more splits for this subtask.

    `source` is the source itself if a factory has made it, which readers could not do. `answers`: whether this is the
    answer to a request, after which the reader may send the next one. `subtask`: to which it was assigned.
    """

    index: int
    split: Any = None
    source: Source[Any] | None = None
    answers: bool = False
    subtask: int = 0

    @property
    def split_id(self) -> str:
        """`<index>-<id within the source>`."""
        return f"{self.index}-{f'end-{self.subtask}' if self.split is None else self.split.split_id}"


@stored_as("hybrid-enumerator")
class HybridState(msgspec.Struct, frozen=True):
    """Where the enumerator is: the source at `index`, itself if a factory has made it, the state of its enumerator."""

    index: int
    source: Source[Any] | None
    state: Any
