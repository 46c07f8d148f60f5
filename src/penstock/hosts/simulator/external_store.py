"""A store outside of all workers which knows no older versions, for `engine/state/backends/versioned`. Redis is one.

Its rules are those of `engine/stores/redis.py`: the run that began last owns an operator's state, key groups are
marked with the version that is being applied to them, and a store that is ahead of a checkpoint can't begin with it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from random import Random

from penstock.common.errors import CheckpointError
from penstock.engine.state.backends.versioned.logged import Entry, LoggedStore
from penstock.engine.state.backends.versioned.store import LoggedEntry, StoreOwner, StoreVersion, VersionedStores


class _Operator:
    """What the store has of an operator of a job. `run`: the fence."""

    def __init__(self) -> None:
        self.run = 0
        self.versions: dict[int, int] = {}
        """By key group."""
        self.tables: defaultdict[tuple[int, str], dict[bytes, bytes]] = defaultdict(dict)
        """By key group and name."""


class ExternalStore:
    """All that is in it. It outlives workers, drivers and jobs. `failure_rate`: how often it fails half way."""

    def __init__(self, failure_rate: float, random: Random) -> None:
        self._failure_rate = failure_rate
        self._random = random
        self._operators: defaultdict[tuple[str, str], _Operator] = defaultdict(_Operator)

    def stores(self, cached_entries: int) -> VersionedStores:
        """What a slot opens stores with."""

        def opened(owner: StoreOwner) -> LoggedStore:
            return LoggedStore(lambda: OwnState(self, owner), owner, "redis", cached_entries)

        return VersionedStores(opened, cached_entries, "redis")

    def of(self, job: str, operator: str) -> _Operator:
        """What there is of an operator."""
        return self._operators[job, operator]

    def maybe_fail(self) -> None:
        """The connection breaks now, or it does not."""
        if self._failure_rate and self._random.random() < self._failure_rate:
            raise CheckpointError("the store does not answer")


class OwnState:
    """What a subtask of a run sees of it."""

    def __init__(self, store: ExternalStore, owner: StoreOwner) -> None:
        self._store = store
        self._owner = owner
        self._own = store.of(owner.job, owner.operator)

    def get(self, table: str, group: int, key: bytes) -> bytes | None:
        """The value of a key."""
        return self._own.tables[group, table].get(key)

    def some(self, table: str, groups: range) -> Iterator[tuple[int, bytes, bytes]]:
        """One entry of each key group: its group, key and value."""
        for group in groups:
            for key, value in list(self._own.tables.get((group, table), {}).items())[:1]:
                yield group, key, value

    def items(self, table: str, group: int, prefix: bytes) -> Iterator[Entry]:
        """All entries of a key group whose keys start with `prefix`."""
        return (entry for entry in list(self._own.tables[group, table].items()) if entry[0].startswith(prefix))

    def begin(self, versions: Sequence[StoreVersion]) -> None:
        """Begin with what these have of the owner's key groups, and with nothing in others."""
        if self._own.run > self._owner.run:
            raise CheckpointError("the state belongs to a later run")
        self._own.run = self._owner.run
        left = set(range(self._owner.first, self._owner.after))
        for version in versions:
            groups = {*range(version.first, version.after)} & left
            left -= groups
            theirs = self._store.of(version.job, version.operator)
            self.check_versions([theirs.versions.get(group, 0) for group in groups], version)
            if theirs is not self._own:
                self._remove(groups)
                for (group, table), entries in list(theirs.tables.items()):
                    if group in groups:
                        self._own.tables[group, table] = dict(entries)
        self._remove(left)

    def apply(self, groups: range, version: int, entries: Sequence[LoggedEntry]) -> None:
        """Store values, None removes a key; these key groups are then as of this version."""
        self._check_run()
        self._own.versions.update(dict.fromkeys(groups, version))
        for entry in entries:
            self._store.maybe_fail()
            assert entry.group in groups, "a value of another subtask's key group"
            if entry.value is None:
                self._own.tables[entry.group, entry.table].pop(entry.key, None)
            else:
                self._own.tables[entry.group, entry.table][entry.key] = entry.value

    def close(self) -> None:
        """Do nothing."""

    def _remove(self, groups: set[int]) -> None:
        for place in [place for place in self._own.tables if place[0] in groups]:
            del self._own.tables[place]
        for group in groups:
            self._own.versions.pop(group, None)

    def check_versions(self, found: list[int], version: StoreVersion) -> None:
        """Raises CheckpointError unless key groups with these versions are what a checkpoint begins with."""
        if any(not version.applied <= one <= version.version for one in found):
            raise CheckpointError(f"key groups are as of {found}, the checkpoint as of {version.version}")

    def _check_run(self) -> None:
        if self._own.run != self._owner.run:
            raise CheckpointError("the state belongs to another run")
