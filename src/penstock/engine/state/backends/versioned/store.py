"""What the backends with an external store need of it: a map of bytes to bytes that knows its older versions.

Each entry is written with a version, and is read as of one: the newest that is not above it counts. So a snapshot is a
number. The host provides the store: `engine/stores/postgres.py`. Source: Carbone et al., "State Management in Apache
Flink" (VLDB 2017), section 4.1, external state backends with multi-version concurrency control.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

import msgspec

from penstock.engine.state.backends.rocksdb.store import EmbeddedStore


class StoreOwner(msgspec.Struct, frozen=True):
    """The subtask of an operator to which a store belongs: its key groups from `first` to before `after`.

    `run`: of two owners of one key group the one with the larger number is the successor. The store fences the other.
    """

    job: str
    operator: str
    first: int
    after: int
    run: int = 0


class LoggedEntry(msgspec.Struct, frozen=True, array_like=True):
    """A change in a write-ahead log: the value of a key, None if it was removed."""

    table: str
    group: int
    key: bytes
    value: bytes | None


class StoreVersion(msgspec.Struct, frozen=True):
    """What a snapshot holds of a store: whose it was, and up to which version it is valid. It is stored as JSON."""

    job: str
    operator: str
    first: int
    after: int
    version: int
    numbers: dict[str, int] = {}
    """By the table of a list state, the number of its next segment."""
    kind: str = "postgres"
    """Of the store: the value of `state.backend.type`."""
    applied: int = 0
    """Such a store has all up to this version, and nothing above `version`."""
    log: list[LoggedEntry] = []
    """What the store may not have yet: of one without versions of its own (logged.py)."""


def run_number(epoch: int, attempt: int) -> int:
    """The number of an attempt of a run of a job, among all of its runs."""
    return (epoch << 32) + attempt


class VersionedStore(EmbeddedStore, Protocol):
    """A store outside the worker, shared by all subtasks of all jobs. Its owner sees its own key groups only."""

    def name_table(self, prefix: bytes, name: str) -> None:
        """Entries whose keys start with `prefix` are of the table of that name, whatever its prefix was before."""

    def some(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Some entries whose keys begin with the prefix of a table, with their keys; none only if there is none."""

    def begin_with(self, versions: Sequence[StoreVersion]) -> None:
        """Begin with what these hold of its key groups: all that is newer is removed, or was another job's.

        Without this call it begins empty. What predecessors write from now on fails.
        """

    def seal(self) -> StoreVersion:
        """What is written from now on is newer than this version."""

    def write_at(self, version: StoreVersion, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Write entries that belong to a version that was sealed. May be called in another thread, and may take long.

        Until it returns nothing else may write.
        """

    def all_written(self, version: StoreVersion) -> StoreVersion:
        """All that belongs to a version is written: what the snapshot holds of it. In the thread of `write_at`."""

    def completed(self, version: int) -> None:
        """A checkpoint with this version is complete: what no retained checkpoint needs any more may be removed."""


class VersionedStores(msgspec.Struct, frozen=True):
    """Opens the stores of a host's tasks. `cached_entries`: how many changed entries of a state are held in memory."""

    open: Callable[[StoreOwner], VersionedStore]
    cached_entries: int
    kind: str = "postgres"
    """The value of `state.backend.type`."""

    @property
    def holds_timers(self) -> bool:
        """Whether timers are in the store. They are not: the next ones of all key groups are asked for all the time."""
        return False
