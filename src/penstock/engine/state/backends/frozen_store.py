"""The store of a backend at one moment, for a full checkpoint."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Protocol

from penstock.engine.state.handles import KeyedFile
from penstock.engine.state.snapshot.storage import SnapshotStorage
from penstock.engine.state.tables import FrozenTable


class FrozenStore(Protocol):
    """A frozen store. `above`: the entries in memory, by table, which the store does not hold."""

    above: dict[str, FrozenTable]

    def link(self) -> object:
        """Keep the content of that moment. The store accepts writes after the first call."""

    def write(
        self, storage: SnapshotStorage, name: str, copied: Mapping[str, KeyedFile]
    ) -> Generator[None, None, list[KeyedFile]]:
        """Write the store's files, except those that earlier snapshots have `copied`, by their names in the store.

        The generator returns the handles of all files. Raises OSError if one cannot be written.
        """

    def release(self) -> None:
        """Release that moment: the snapshot is written, or was aborted."""
