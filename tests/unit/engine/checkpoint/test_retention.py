"""Retention: needed files stay, and unneeded files are deleted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.engine.checkpoint.manifests import manifest_of

from penstock.engine.checkpoint.completed_checkpoints import FallBack, Retention
from penstock.engine.checkpoint.manifest import Manifest
from penstock.engine.runtime.ids import SubtaskId

TASKS = [SubtaskId(0, subtask) for subtask in range(2)]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["extend", "compact"]), st.integers(0, 1)),
        st.tuples(st.sampled_from(["complete", "fail", "drop latest", "restart"]), st.just(0)),
    ),
    min_size=10,
    max_size=50,
)


class Played:
    """Two tasks with incremental snapshots, and a store that deletes what it is asked to delete."""

    def __init__(self, retained_max: int) -> None:
        self.retention = Retention(retained_max)
        self.stored: set[str] = set()
        self.chains: dict[SubtaskId, list[str]] = {task: [] for task in TASKS}
        self.numbers = iter(range(1, 10**6))

    def snapshot(self, task: SubtaskId, extends: bool) -> None:
        """A task writes a file: it extends its chain, or replaces it."""
        file = f"shared/{next(self.numbers)}"
        self.stored.add(file)
        self.chains[task] = [*self.chains[task], file] if extends else [file]
        self.retention.acknowledged(task, set(self.chains[task]))

    def complete(self) -> list[Manifest]:
        """Complete a checkpoint of the current chains."""
        files = [file for chain in self.chains.values() for file in chain]
        return self.retention.add(manifest_of(next(self.numbers), files))

    def collect(self) -> None:
        """Delete the current garbage."""
        garbage = self.retention.garbage([])
        assert set(garbage) <= self.stored, "what is deleted is not deleted a second time"
        assert garbage == sorted(garbage)
        self.stored.difference_update(garbage)

    @property
    def needed(self) -> set[str]:
        """Return the files that retained checkpoints and the chains of tasks name."""
        of_checkpoints = (file for manifest in self.retention.completed for file in manifest.files())
        return {*of_checkpoints, *(file for chain in self.chains.values() for file in chain)}


@given(st.integers(1, 3), STEPS)
def test_the_store_holds_what_is_needed_and_nothing_else(retained_max: int, steps: list[tuple[str, int]]) -> None:
    """A job could not be restored from its newest checkpoint; or its store would grow from day to day."""
    played = Played(retained_max)
    for step, subtask in steps:
        if step in ("extend", "compact"):
            played.snapshot(TASKS[subtask], step == "extend")
            continue
        if step == "complete":
            played.complete()
        elif step == "drop latest":
            if played.retention.fall_back is not None:
                played.retention.drop_latest()
        elif step == "restart":
            # The sweep deletes unknown files: here the files of chains that ended with their attempt.
            played.chains = {task: [] for task in TASKS}
            played.retention.tasks_ended({task.vertex for task in TASKS})
            played.retention.swept()
            played.stored &= played.needed
        assert len(played.retention.completed) <= retained_max
        if step != "drop latest":
            played.collect()
            assert played.stored == played.needed
        assert played.needed <= played.stored


@given(st.integers(1, 5), st.integers(1, 12))
def test_the_newest_are_retained(retained_max: int, count: int) -> None:
    """A job would be restored from an older checkpoint than necessary."""
    retention = Retention(retained_max)
    subsumed = [one.checkpoint_id for number in range(1, count + 1) for one in retention.add(manifest_of(number))]
    retained = [one.checkpoint_id for one in retention.completed]
    assert subsumed + retained == list(range(1, count + 1)), "each is retained or subsumed, the oldest first"
    assert len(retained) == min(count, retained_max)
    assert retention.latest is not None and retention.latest.checkpoint_id == count


def test_files_of_a_pending_checkpoint_are_no_garbage() -> None:
    """A slow checkpoint would complete and name files that were deleted with an older one."""
    retention = Retention(1)
    task = TASKS[0]
    retention.acknowledged(task, {"a"})
    retention.acknowledged(task, {"b"})
    retention.add(manifest_of(1, ["b"]))
    assert retention.garbage([{"a"}]) == []
    assert retention.garbage([set()]) == ["a"]
    assert retention.garbage([set()]) == [], "a file is deleted once"


def test_files_of_other_jobs_are_no_garbage() -> None:
    """A job would delete what it was started from: another job's checkpoint, or a user's savepoint."""
    retention = Retention(1)
    retention.add(manifest_of(1, ["own"]))
    retention.acknowledged(TASKS[0], {"own-2"})
    retention.add(manifest_of(2, ["own-2"]))
    assert retention.garbage([]) == [], "what no task has reported is not known, and left to the sweep"


def test_a_checkpoint_that_is_adopted_is_subsumed_like_any_other() -> None:
    """The checkpoint that a job was restored from would stay forever."""
    retention = Retention(1)
    retention.adopt(before := manifest_of(3, ["old"]))
    assert retention.latest == before and retention.garbage([]) == []
    assert retention.add(manifest_of(4, ["new"])) == [before]
    assert retention.garbage([]) == ["old"]


@pytest.mark.parametrize(("count", "falls_back"), [(0, False), (1, False), (2, True), (3, True)])
def test_there_is_no_falling_back_from_the_last_one(count: int, falls_back: bool) -> None:
    """A job whose only checkpoint can't be read would start from nothing, without an error."""
    retention = Retention(3)
    for number in range(1, count + 1):
        retention.add(manifest_of(number))
    assert retention.fall_back == (FallBack(count, count - 1, []) if falls_back else None)
    if falls_back:
        assert retention.drop_latest().checkpoint_id == count - 1
        assert [one.checkpoint_id for one in retention.completed] == list(range(1, count))


def test_when_nothing_is_retained_all_is_garbage() -> None:
    """A canceled job would leave its files in the store."""
    retention = Retention(2)
    retention.acknowledged(TASKS[0], {"a", "b"})
    retention.add(manifest_of(1, ["a", "b"]))
    retention.drop_all()
    assert retention.latest is None and retention.garbage([]) == [], "a task still builds on them"
    retention.acknowledged(TASKS[0], set())
    assert retention.garbage([]) == ["a", "b"]


class CountedPath(str):
    """A path that counts how often it is looked up."""

    looked_up = 0

    def __hash__(self) -> int:
        CountedPath.looked_up += 1
        return super().__hash__()

    __eq__ = str.__eq__


@pytest.mark.parametrize("retained_max", [5, 500])
def test_a_checkpoint_costs_the_same_however_many_are_retained(retained_max: int) -> None:
    """With a thousand retained checkpoints the driver would look at all their files each time one completes."""
    retention = Retention(retained_max)

    def complete(number: int) -> list[str]:
        files = [CountedPath(f"shared/{one}") for one in range(number, number + 4)]
        retention.acknowledged(TASKS[0], set(files))
        retention.add(manifest_of(number, files))
        return retention.garbage([])

    for number in range(retained_max + 1):
        complete(number)
    CountedPath.looked_up = 0
    assert complete(retained_max + 1) == ["shared/1"]
    assert CountedPath.looked_up < 60
    numbers = retention.numbers
    assert numbers == set(range(2, retained_max + 2)) and retention.numbers is numbers
