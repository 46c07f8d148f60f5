"""The protocol of external stores for backends: a map from bytes to bytes that knows its older versions.

Each entry is written with a version. A read as of a version returns the newest entry up to that version. So a snapshot
is a number. The host provides the store: `engine/stores/postgres.py`. Source: Carbone et al., "State Management in
Apache Flink" (VLDB 2017), section 4.1, external state backends with multi-version concurrency control.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import msgspec

from penstock.engine.state.backends.rocksdb.store import EmbeddedStore


class StoreOwner(msgspec.Struct, frozen=True):
    """The subtask of an operator that owns a store, with key groups from `first` to before `after`.

    `run`: of two owners of one key group, the one with the larger number is the later. The store fences the other.
    """

    job: str
    operator: str
    first: int
    after: int
    run: int = 0


class LoggedEntry(msgspec.Struct, frozen=True, array_like=True):
    """A change in a write-ahead log: the new value of a key, or None if it was removed."""

    table: str
    group: int
    key: bytes
    value: bytes | None


class StoreVersion(msgspec.Struct, frozen=True):
    """The content of a snapshot of a store: its owner, and the version up to which entries count. Stored as JSON."""

    job: str
    operator: str
    first: int
    after: int
    version: int
    numbers: dict[str, int] = {}
    """Table of a list state -> the number of its next segment."""
    kind: str = "postgres"
    """The kind of the store: the value of `state.backend.type`."""
    applied: int = 0
    """A store without versions (logged.py) holds everything up to this version, and nothing above `version`."""
    log: list[LoggedEntry] = []
    """Changes that a store without versions may lack."""


def run_number(epoch: int, attempt: int) -> int:
    """Return the number of an attempt of a run, which grows over all runs of the job."""
    return (epoch << 32) + attempt


class VersionedStore(EmbeddedStore, Protocol):
    """A store outside the worker, shared by all subtasks of all jobs. Its owner sees only its own key groups."""

    def name_table(self, prefix: bytes, name: str) -> None:
        """Assign entries whose keys start with `prefix` to the table `name`, whatever its prefix was before."""

    def sample(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Return some entries whose keys start with the prefix of a table; empty only if the table is."""

    def begin_with(self, versions: Sequence[StoreVersion]) -> None:
        """Begin with the content of these versions in its key groups. Newer entries are removed.

        Without this call the store begins empty. Writes of earlier owners fail from now on.
        """

    def seal(self) -> StoreVersion:
        """Return the current version and begin a new one: later writes are newer than it."""

    def write_at(self, version: StoreVersion, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Write entries with a sealed version. May be called in another thread and may take long.

        There must be no other writes until it returns.
        """

    def all_written(self, version: StoreVersion) -> StoreVersion:
        """Return the completed version for the snapshot, after all its writes. Called in the thread of `write_at`."""

    def completed(self, version: int) -> None:
        """Handle a completed checkpoint with this version: entries that no retained checkpoint needs may be removed."""
