"""Chains of files: what the next snapshot has to hold, so that all of them together hold the state."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace

import pytest

from penstock.engine.runtime.checkpoint_options import CheckpointOptions
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.operators.sink import SinkOperator
from penstock.engine.runtime.task.context import SubtaskInfo
from penstock.engine.runtime.task.restore import KeyedChain, restore_operator
from penstock.engine.runtime.task.snapshot import OperatorSnapshot, Snapshots, TaskSnapshot
from penstock.engine.state.backends.hashmap.backend import HashMapKeyedStateBackend
from penstock.engine.state.handles import KeyedFile, RestoredOperator, SubtaskState
from penstock.engine.state.key_groups import KeyGroups
from penstock.hosts.simulator.storage import MemoryStorage
from penstock.state_processor.new_tables import finished

GROUPS = KeyGroups(4)


class Counts(Operator):
    """An operator with one table."""

    def __init__(self) -> None:
        super().__init__("counts")
        self.backend = HashMapKeyedStateBackend()
        self.table = self.backend.layered("t")

    def keyed_tables(self):
        return self.backend.tables

    def lists(self):
        return []

    def restore_lists(self, lists):
        assert not lists

    def restored_table(self, name, schema):
        return self.backend.restored_table(name, schema)


class OtherBackend(HashMapKeyedStateBackend):
    """A backend of a new kind: all that others know of it is what it states."""

    has_store = True

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def needs_full_snapshot(self) -> bool:
        return True

    def freeze_store(self, checkpoint_id: int = 0) -> None:
        self.calls.append("freeze")

    def restore_store(self, storage, stores, groups) -> list[KeyedFile]:
        self.calls.append(f"restore {len(stores)} stores, {groups}")
        return []


class OtherCounts(Counts):
    """The same with such a backend."""

    def __init__(self) -> None:
        super().__init__()
        self.backend = OtherBackend()
        self.table = self.backend.layered("t")

    def keyed_backend(self) -> OtherBackend:
        return self.backend


class Chain:
    """Snapshots of one operator, numbered as they are taken."""

    def __init__(self) -> None:
        self.storage = MemoryStorage(Random(0), 0)
        self.operator = Counts()
        self.chain = KeyedChain()
        self.chain.growth_max = 1_000
        self.number = 0

    def freeze(self, savepoint: str = "") -> tuple[OperatorSnapshot, TaskSnapshot]:
        self.number += 1
        frozen = OperatorSnapshot("uid", self.operator, self.chain, options=CheckpointOptions(savepoint=savepoint))
        return frozen, TaskSnapshot(
            self.number, f"{self.number}-0-0-0", [frozen], key_groups=GROUPS, savepoint=savepoint
        )

    def take(self, savepoint: str = "") -> bool:
        """Take one whole. Whether it was a full one."""
        frozen, snapshot = self.freeze(savepoint)
        assert self.is_written(snapshot)
        return frozen.full

    def is_written(self, snapshot: TaskSnapshot) -> bool:
        """Write a frozen one. False: what it builds on is missing."""
        storage = self.storage.savepoint(snapshot.savepoint) if snapshot.savepoint else self.storage
        return snapshot.written(finished(snapshot.write(storage))) is not None

    def restored(self) -> dict:
        operator = Counts()
        given = RestoredOperator([self.chain.files])
        restore_operator(
            operator, given, KeyedChain(), groups=range(4), max_parallelism=4, storage=self.storage, in_flight=[]
        )
        return operator.table.as_mapping()


@pytest.mark.parametrize("what", ["savepoint", "failure"])
def test_changes_that_are_in_no_file_of_the_chain_come_with_the_next(what: str) -> None:
    """What changed before a savepoint, or before an upload that failed, would be missing after a restart."""
    chain = Chain()
    put = chain.operator.table.put
    put("a", 1)
    assert chain.take(), "there is nothing yet that it could go on from"
    put("b", 2)
    assert not chain.take()
    put("c", 3)
    if what == "savepoint":
        assert chain.take("/savepoint")
    else:
        _, snapshot = chain.freeze()
        snapshot.failed()
    put("d", 4)
    assert chain.take()
    assert chain.restored() == {"a": 1, "b": 2, "c": 3, "d": 4}
    put("e", 5)
    assert not chain.take(), "from here on, changes are enough"
    assert chain.restored() == {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}


def test_a_backend_is_asked_what_it_states_that_it_can_do() -> None:
    """A backend of a new kind would lose its store in checkpoints, or would have to be named wherever state is."""
    chain = Chain()
    chain.operator = OtherCounts()
    chain.operator.table.put("a", 1)
    assert chain.take()
    assert chain.take(), "it needs full ones"
    chain.take("/savepoint")
    assert chain.operator.backend.calls == ["freeze", "freeze"], "a savepoint is made of its tables"
    other = OtherCounts()
    restore_operator(
        other,
        RestoredOperator([chain.chain.files]),
        KeyedChain(),
        groups=range(4),
        max_parallelism=4,
        storage=chain.storage,
        in_flight=[],
    )
    assert other.backend.calls == ["restore 0 stores, range(0, 4)"]
    assert other.table.as_mapping() == {"a": 1}


def test_a_snapshot_that_is_still_written_when_a_savepoint_is_taken() -> None:
    """The chain would go on from a file whose successor is missing."""
    chain = Chain()
    chain.operator.table.put("a", 1)
    chain.take()
    chain.operator.table.put("b", 2)
    _, slow = chain.freeze()
    chain.operator.table.put("c", 3)
    assert chain.take("/savepoint")
    chain.operator.table.put("d", 4)
    assert chain.is_written(slow)
    assert chain.take()
    assert chain.restored() == {"a": 1, "b": 2, "c": 3, "d": 4}


def test_a_snapshot_that_fails_takes_those_with_it_that_were_frozen_after_it() -> None:
    """They hold what has changed since it: what had changed before would be missing after a restart."""
    chain = Chain()
    chain.operator.table.put("a", 1)
    chain.take()
    chain.operator.table.put("b", 2)
    _, failing = chain.freeze()
    chain.operator.table.put("c", 3)
    _, after = chain.freeze()
    failing.failed()
    assert not chain.is_written(after)
    chain.operator.table.put("d", 4)
    assert chain.take()
    assert chain.restored() == {"a": 1, "b": 2, "c": 3, "d": 4}


class Prepares(SinkOperator):
    """A sink with something to commit at each barrier."""

    def __init__(self) -> None:
        Operator.__init__(self, "sink")
        self.sink_id = 9
        self.context = SimpleNamespace(functions=[])

    def prepare_snapshot(self, checkpoint_id, savepoint=False):
        return [f"of {checkpoint_id}"]

    def lists(self):
        return []

    def restore_lists(self, lists):
        assert not lists


def test_what_was_prepared_goes_with_the_next_that_is_written() -> None:
    """A checkpoint that could not be written, while the last one was frozen already, would take its rows with it."""
    sink = Prepares()
    chain = SimpleNamespace(operators=[sink], nodes=[SimpleNamespace(state_id="sink", operator=sink)], paused=False)
    info = SubtaskInfo("job", 0, "sink", 0, 1, 4)
    snapshots = Snapshots(chain, info, GROUPS)
    for number in (1, 2, 3):
        snapshots.prepare(number, False)
        snapshots.freeze(number, 0, CheckpointOptions())
    snapshots.failed(1)
    _, commits = snapshots.written(2, SubtaskState(), 0)
    assert commits == [(9, ["of 1"]), (9, ["of 2"])]
    snapshots.failed(3)
    snapshots.prepare(4, False)
    snapshots.freeze(4, 0, CheckpointOptions())
    _, commits = snapshots.written(4, SubtaskState(), 0)
    assert commits == [(9, ["of 3"]), (9, ["of 4"])]


class PausesBehind:
    """A chain whose first operator emits what makes the second one pause."""

    waiting = False

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.paused = False
        self.operators = [SimpleNamespace(prepare_snapshot=self._emit), SimpleNamespace(prepare_snapshot=self._second)]

    def _emit(self, checkpoint_id: int, savepoint: bool) -> None:
        self.calls.append("emits")
        self.paused = True

    def _second(self, checkpoint_id: int, savepoint: bool) -> None:
        assert not self.paused
        self.calls.append("prepares")

    def resume(self) -> bool:
        self.calls.append("resumes")
        self.paused = False
        return True


def test_an_operator_prepares_when_it_has_processed_what_those_before_it_have_emitted() -> None:
    """A snapshot would not have the rest of a chunk that a paused operator holds."""
    chain = PausesBehind()
    Snapshots(chain, SubtaskInfo("job", 0, "window", 0, 1, 4), GROUPS).prepare(1, False)
    assert chain.calls == ["emits", "resumes", "prepares"]
