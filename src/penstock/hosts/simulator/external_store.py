"""A store outside all workers without older versions, like Redis, for `engine/state/backends/versioned`.

It has the rules of `engine/stores/redis.py`: the run that started last owns an operator's state, key groups are marked
with the version that is being applied to them, and a store that is ahead of a checkpoint can't start from it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from random import Random

from penstock.common.errors import CheckpointError
from penstock.engine.state.backends.versioned.backend import VersionedStores
from penstock.engine.state.backends.versioned.logged import Entry, LoggedStore
from penstock.engine.state.backends.versioned.store import LoggedEntry, StoreOwner, StoreVersion


class _Operator:
    """The stored state of an operator of a job. `run`: the fence."""

    def __init__(self) -> None:
        self.run = 0
        self.versions: dict[int, int] = {}
        """Versions by key group."""
        self.tables: defaultdict[tuple[int, str], dict[bytes, bytes]] = defaultdict(dict)
        """Tables by key group and name."""


class ExternalStore:
    """The whole store. It outlives workers, drivers and jobs. `failure_rate`: how often a write fails halfway."""

    def __init__(self, failure_rate: float, random: Random) -> None:
        self._failure_rate = failure_rate
        self._random = random
        self._operators: defaultdict[tuple[str, str], _Operator] = defaultdict(_Operator)

    def stores(self, cached_entries: int) -> VersionedStores:
        """Return the factory with which a slot opens stores."""

        def opened(owner: StoreOwner) -> LoggedStore:
            return LoggedStore(lambda: SubtaskState(self, owner), owner, "redis", cached_entries)

        return VersionedStores(opened, cached_entries, "redis")

    def operator_state(self, job: str, operator: str) -> _Operator:
        """Return the state of an operator."""
        return self._operators[job, operator]

    def maybe_fail(self) -> None:
        """Raise CheckpointError at random, as if the connection broke."""
        if self._failure_rate and self._random.random() < self._failure_rate:
            raise CheckpointError("the store does not answer")


class SubtaskState:
    """The view of the store for a subtask of a run."""

    def __init__(self, store: ExternalStore, owner: StoreOwner) -> None:
        self._store = store
        self._owner = owner
        self._stored = store.operator_state(owner.job, owner.operator)

    def get(self, table: str, group: int, key: bytes) -> bytes | None:
        """Return the value of a key, or None."""
        return self._stored.tables[group, table].get(key)

    def sample(self, table: str, groups: range) -> Iterator[tuple[int, bytes, bytes]]:
        """Return one entry of each key group: its group, key and value."""
        for group in groups:
            for key, value in list(self._stored.tables.get((group, table), {}).items())[:1]:
                yield group, key, value

    def items(self, table: str, group: int, prefix: bytes) -> Iterator[Entry]:
        """Return all entries of a key group whose keys start with `prefix`."""
        return (entry for entry in list(self._stored.tables[group, table].items()) if entry[0].startswith(prefix))

    def begin(self, versions: Sequence[StoreVersion]) -> None:
        """Start with the owner's key groups from these versions, and with all others empty."""
        if self._stored.run > self._owner.run:
            raise CheckpointError("the state belongs to a later run")
        self._stored.run = self._owner.run
        left = set(range(self._owner.first, self._owner.after))
        for version in versions:
            groups = {*range(version.first, version.after)} & left
            left -= groups
            source = self._store.operator_state(version.job, version.operator)
            self.check_versions([source.versions.get(group, 0) for group in groups], version)
            if source is not self._stored:
                self._remove(groups)
                for (group, table), entries in list(source.tables.items()):
                    if group in groups:
                        self._stored.tables[group, table] = dict(entries)
        self._remove(left)

    def apply(self, groups: range, version: int, entries: Sequence[LoggedEntry]) -> None:
        """Store values, and mark these key groups with this version. None removes a key."""
        self._check_run()
        self._stored.versions.update(dict.fromkeys(groups, version))
        for entry in entries:
            self._store.maybe_fail()
            assert entry.group in groups, "a value of another subtask's key group"
            if entry.value is None:
                self._stored.tables[entry.group, entry.table].pop(entry.key, None)
            else:
                self._stored.tables[entry.group, entry.table][entry.key] = entry.value

    def close(self) -> None:
        """Do nothing."""

    def _remove(self, groups: set[int]) -> None:
        for place in [place for place in self._stored.tables if place[0] in groups]:
            del self._stored.tables[place]
        for group in groups:
            self._stored.versions.pop(group, None)

    def check_versions(self, found: list[int], version: StoreVersion) -> None:
        """Raise CheckpointError unless a checkpoint can start from key groups with these versions."""
        if any(not version.applied <= one <= version.version for one in found):
            raise CheckpointError(f"key groups have versions {found}, the checkpoint has {version.version}")

    def _check_run(self) -> None:
        if self._stored.run != self._owner.run:
            raise CheckpointError("the state belongs to another run")
