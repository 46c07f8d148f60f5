"""The parts of a coordinator, each tested alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.unit.engine.checkpoint.manifests import manifest_of

from penstock.engine.checkpoint.completed_checkpoints import CompletedCheckpoints, RecordedEnd
from penstock.engine.checkpoint.effects import (
    DeleteFiles,
    DeleteSavepoint,
    DiscardCheckpoint,
    RetainOnly,
    StorageEffect,
    StoreManifest,
)
from penstock.engine.checkpoint.pending import PendingCheckpoint
from penstock.engine.checkpoint.plan import CheckpointPlan, CheckpointVertex
from penstock.engine.checkpoint.savepoints import Savepoints
from penstock.engine.checkpoint.schedule import CheckpointRequest, CheckpointRequests
from penstock.engine.checkpoint.storage_requests import StorageRequests
from penstock.engine.runtime.checkpoint_options import CheckpointOptions
from penstock.engine.runtime.ids import SubtaskId

SAVEPOINT = CheckpointOptions(savepoint="/sp")
STOP = CheckpointOptions(savepoint="/sp", stop=True)
VERTICES = [
    CheckpointVertex(0, "source", 2, 128, [("s", "source")], True),
    CheckpointVertex(1, "count", 1, 128, [("c", "count")], False),
]


class Stored:
    """Completed checkpoints and savepoints of a job, and the storage operations."""

    def __init__(self, retained: int = 1, periodic: bool = True) -> None:
        self.effects: list[StorageEffect] = []
        self.storage = StorageRequests(self.effects.append)
        self.completed = CompletedCheckpoints(self.storage, retained)
        self.end = RecordedEnd(self.storage, self.completed, 1)
        self.savepoints = Savepoints(self.storage, self.completed, self.end, periodic)

    def stores(self, options: CheckpointOptions, number: int = 3) -> bool:
        """Store a savepoint. Returns whether output is committed with it."""
        pending = PendingCheckpoint(number, 0, {}, CheckpointPlan(), CheckpointRequest(options=options))
        return self.savepoints.stored(pending, manifest_of(number))

    @property
    def kinds(self) -> list[type]:
        kinds = [type(effect) for effect in self.effects]
        self.effects.clear()
        return kinds


def test_manifests_are_deleted_before_their_files() -> None:
    """A driver that dies between the two would leave a checkpoint without its state."""
    job = Stored()
    for number, file in ((1, "a"), (2, "b")):
        job.completed.acknowledged(SubtaskId(0, 0), {file})
        job.completed.add(manifest_of(number, [file]))
        job.completed.delete_subsumed([])
    assert [type(effect) for effect in job.effects] == [DiscardCheckpoint, DeleteFiles]
    assert job.effects[1] == DeleteFiles(2, ["a"])
    job.completed.delete_subsumed([])
    assert len(job.effects) == 2, "nothing is deleted twice"


def test_what_a_pending_checkpoint_names_stays() -> None:
    """A checkpoint would complete without the files that it names."""
    job = Stored()
    job.completed.acknowledged(SubtaskId(0, 0), {"a"})
    job.completed.add(manifest_of(1, ["a"]))
    job.completed.acknowledged(SubtaskId(0, 0), {"b"})
    job.completed.add(manifest_of(2, ["b"]))
    job.completed.delete_subsumed([{"a"}])
    assert job.kinds == [DiscardCheckpoint]
    job.completed.delete_subsumed([])
    assert job.kinds == [DeleteFiles]


def test_nothing_is_swept_while_a_task_writes() -> None:
    """Files of regions that continue to run would be deleted as unknown."""
    job = Stored()
    job.completed.tasks_ended([0], any_left=True)
    assert not job.effects
    job.completed.tasks_ended([1], any_left=False)
    assert job.kinds == [RetainOnly]


def test_a_fenced_run_asks_for_nothing() -> None:
    """A run that was taken over would delete the checkpoints of the one that has taken its job."""
    job = Stored(retained=2)
    job.completed.add(manifest_of(1))
    job.completed.add(manifest_of(2))
    job.storage.fence()
    job.completed.fall_back()
    job.completed.tasks_ended([0], any_left=False)
    job.end.end("FAILED")
    assert not job.effects and job.storage.is_idle and job.storage.is_settled


def test_a_fall_back_is_published() -> None:
    """A run that takes the job over would start from the damaged checkpoint."""
    job = Stored(retained=2)
    job.completed.add(manifest_of(1))
    job.completed.add(manifest_of(2))
    job.completed.fall_back()
    (effect,) = job.effects
    assert isinstance(effect, StoreManifest) and effect.manifest.checkpoint_id == 1
    assert job.completed.possible_fall_back is None, "the last one stays"


@pytest.mark.parametrize(
    ("options", "periodic", "commits", "goes_on_from"),
    [(SAVEPOINT, True, False, None), (SAVEPOINT, False, True, 3), (STOP, True, True, None), (STOP, False, True, None)],
)
def test_when_output_is_committed_with_a_savepoint(
    options: CheckpointOptions, periodic: bool, commits: bool, goes_on_from: int | None
) -> None:
    """Output would be committed that the job writes again after a failure, or would wait forever."""
    job = Stored(periodic=periodic)
    assert job.stores(options) == commits
    assert job.savepoints.commits(options) == (commits and not options.stop), "what a stop commits is its end on record"
    newest = job.completed.newest
    assert (newest.checkpoint_id if newest is not None else None) == goes_on_from
    assert job.end.stopped == options.stop and job.kinds == ([RetainOnly] if options.stop else [])


def test_files_of_a_savepoint_are_in_no_chain() -> None:
    """An incremental checkpoint would name files that the user may delete with the savepoint."""
    savepoints = Stored().savepoints
    savepoints.triggered(4, CheckpointOptions())
    savepoints.triggered(5, SAVEPOINT)
    assert [savepoints.includes(number) for number in (4, 5)] == [False, True]
    savepoints.no_task_left()
    assert not savepoints.includes(5)


def test_an_aborted_savepoint_is_deleted() -> None:
    """A user would take half a savepoint for a whole one."""
    job = Stored()
    job.savepoints.aborted(PendingCheckpoint(4, 0, {}, CheckpointPlan(), CheckpointRequest(options=SAVEPOINT)))
    assert job.effects == [DeleteSavepoint(1, "/sp")]


def test_requests_are_taken_in_order_and_all_at_an_end() -> None:
    """The first request for a savepoint would wait for later ones, or forever."""
    requests = CheckpointRequests()
    first, second, third = (CheckpointRequest(options=options) for options in (SAVEPOINT, STOP, CheckpointOptions()))
    for request in (first, second, third):
        requests.add(request)
    assert requests.take_next() is first and len(requests) == 2
    requests.when_settled(lambda: pytest.fail("it was to end tasks that are gone"))
    assert requests.take_all() == [second, third] and not requests
    requests.settled()


def test_what_waits_for_the_end_of_requests_may_wait_again() -> None:
    """The end of a job that finds another request would be forgotten."""
    requests = CheckpointRequests()
    calls: list[str] = []

    def call(name: str, then: Callable[[], None] = lambda: None) -> Callable[[], None]:
        return lambda: (calls.append(name), then())[1]

    requests.when_settled(call("first", lambda: requests.when_settled(call("second"))))
    requests.settled()
    assert calls == ["first"]
    requests.settled()
    requests.settled()
    assert calls == ["first", "second"], "once each"


def test_a_plan_without_a_region_names_its_tasks_no_more() -> None:
    """The coordinator would send an abort to ended tasks, and wait for them."""
    plan = CheckpointPlan.of(3, VERTICES)
    assert plan.tasks == [SubtaskId(0, 0), SubtaskId(0, 1), SubtaskId(1, 0)]
    assert plan.sources == [SubtaskId(0, 0), SubtaskId(0, 1)]
    assert plan.name_of(SubtaskId(0, 1)) == "source (2)"
    left = plan.without(VERTICES[:1])
    assert (left.tasks, left.sources, left.attempt) == ([SubtaskId(1, 0)], [], 3)
    assert left.name_of(SubtaskId(0, 1)) == "source (2)", "a late answer of a task that is gone is still named"
