"""What an attempt starts from: its own newest checkpoint, the one of an earlier job, or nothing."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest
from tests.unit.engine.jobmaster.played_job import SETTINGS, Job, plan, savepoint_requested
from tests.unit.engine.jobmaster.test_enumerators import Listing, plan_of

from penstock.api.source import EnumeratorContext, SplitEnumerator
from penstock.common.errors import CheckpointError, DamagedCheckpointError, TaskLostError
from penstock.common.job_status import JobStatus
from penstock.engine.checkpoint.effects import Commit, RetainOnly, StoreManifest
from penstock.engine.checkpoint.manifest import Manifest, OperatorPart, SubtaskPart, packed
from penstock.engine.checkpoint.plan import CheckpointVertex
from penstock.engine.checkpoint.schedule import CheckpointSettings
from penstock.engine.jobmaster.checkpoint_vertices import checkpoint_vertices, source_state_ids, vertex_of_sinks
from penstock.engine.jobmaster.effects import Deploy
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.runtime.task.events import Acknowledge, Opaque
from penstock.engine.state.handles import KeyedFile, OperatorState, SubtaskState

GRAPH = plan()
SOURCE_ID = source_state_ids(GRAPH)[0]
(SINK,) = vertex_of_sinks(GRAPH)


def vertex_of_count(graph: JobGraph) -> CheckpointVertex:
    return checkpoint_vertices(graph)[vertex_of_sinks(graph)[SINK]]


COUNT_ID = vertex_of_count(GRAPH).operators[0][0]
SINK_ID = vertex_of_count(GRAPH).sinks[SINK]


def manifest(job_id: str, number: int = 7, **fields: Any) -> Manifest:
    """A checkpoint in which the counting operator has one file."""
    vertex = vertex_of_count(GRAPH)
    state = OperatorState([KeyedFile(f"shared/{job_id}-{number}", 1, [], [])])
    part = OperatorPart(COUNT_ID, "count", 1, vertex.max_parallelism, [SubtaskPart(0, state)])
    empty = Manifest(job_id, "a job", number, 0, 0, 0, [part], [])
    return msgspec.structs.replace(empty, **fields)


def files_of(job: Job) -> tuple[list[str], bool]:
    """The files that the newest attempt restores, and whether its next checkpoint may build on them."""
    deploy = next(effect for effect in reversed(job.effects) if isinstance(effect, Deploy))
    found = [operators[COUNT_ID] for operators in deploy.restored.values() if COUNT_ID in operators]
    return [file.path for one in found for chain in one.chains for file in chain], any(
        one.extends_files for one in found
    )


def test_a_job_without_an_origin_starts_from_nothing() -> None:
    """A new job would count where another one has stopped."""
    assert files_of(Job()) == ([], False)


def test_a_job_starts_from_the_checkpoint_of_another_one_and_does_not_build_on_it() -> None:
    """The other job may delete its files, and this one could not be restored from any of its checkpoints."""
    job = Job(origin=manifest("another"))
    assert files_of(job) == (["shared/another-7"], False)
    assert job.completed == [], "a checkpoint of another job is not subsumed, and not deleted, by this one"


def test_a_job_that_goes_on_from_its_own_checkpoint_retains_it() -> None:
    """The first sweep would delete what the job has been restored from, and may have to be restored from once more."""
    job = Job(origin=manifest("id"))
    assert files_of(job)[0] == ["shared/id-7"]
    assert job.completed == [7]
    assert job.runs().begins_checkpoint() == 8, "numbers go on: a directory is not written twice"


def test_a_savepoint_of_the_job_itself_is_not_one_of_its_checkpoints() -> None:
    """A savepoint belongs to its user: with the first checkpoint it would be deleted."""
    job = Job(origin=manifest("id", savepoint=True))
    assert job.completed == [] and files_of(job) == (["shared/id-7"], False)
    assert job.runs().begins_checkpoint() == 8


def test_until_there_is_a_checkpoint_of_its_own_each_attempt_starts_from_the_origin() -> None:
    """A job that fails in its first minute would start from nothing, and forget all of its state."""
    job = Job(origin=manifest("another")).runs()
    job.fails(TaskLostError("a worker"))
    job.restarts().runs()
    assert files_of(job)[0] == ["shared/another-7"]
    job.takes_checkpoint()
    job.fails(TaskLostError("a worker"))
    job.restarts()
    assert files_of(job) == ([], False), "its own checkpoint counts, which holds no file here"


WITHOUT_INTERVAL = dataclasses.replace(SETTINGS, checkpoints=CheckpointSettings(interval_ms=None, retained=3))


def takes(job: Job, file: str, committed: str, savepoint: str = "") -> None:
    """A checkpoint or savepoint in which the counting operator has one file."""
    if savepoint:
        job.handle(savepoint_requested(1, savepoint))
        number = job.master.coordinator.under_way[-1]
    else:
        number = job.begins_checkpoint()
    count = SubtaskState({COUNT_ID: OperatorState([KeyedFile(file, 1, [], [])])})
    counting = vertex_of_sinks(GRAPH)[SINK]

    def acknowledge(vertex: int) -> Acknowledge:
        if vertex != counting:
            return Acknowledge(vertex, 0, number)
        return Acknowledge(vertex, 0, number, count, Opaque([(SINK, [committed])]))

    job.of_tasks(acknowledge)


def committed(job: Job) -> list[Any]:
    return [(effect.committables, effect.again) for effect in job.effects if isinstance(effect, Commit)]


def test_without_an_interval_a_job_goes_on_from_the_savepoint_that_it_has_committed() -> None:
    """All that was committed with the savepoint would be written a second time."""
    job = Job(WITHOUT_INTERVAL, origin=manifest("another")).runs()
    takes(job, "1-count", "a", savepoint="/sp")
    assert committed(job) == [(["a"], False)]
    for _ in range(2):
        job.fails(TaskLostError("a worker"))
        job.restarts().runs()
        assert files_of(job) == (["/sp/1-count"], False), "the user may delete it: no checkpoint builds on it"
    assert committed(job) == [(["a"], False), (["a"], True), (["a"], True)]
    assert job.completed == []


def test_without_an_interval_the_newest_counts_be_it_a_checkpoint_or_a_savepoint() -> None:
    """What was committed with the other one would be written a second time."""
    job = Job(WITHOUT_INTERVAL).runs()
    for number, savepoint in enumerate(["", "/one", "", "/two"], 1):
        takes(job, f"shared/{number}", f"output {number}", savepoint)
        job.fails(TaskLostError("a worker"))
        job.restarts().runs()
        where = f"{savepoint}/shared/{number}" if savepoint else f"shared/{number}"
        assert files_of(job) == ([where], not savepoint)
    assert job.completed == [1, 3]


def test_a_savepoint_that_is_damaged_is_not_left_for_a_checkpoint_before_it() -> None:
    """What was committed with the savepoint would be written a second time, and a good checkpoint be deleted."""
    job = Job(WITHOUT_INTERVAL).runs()
    for number, savepoint in enumerate(["", "", "/sp"], 1):
        takes(job, f"shared/{number}", "", savepoint)
    job.fails(TaskLostError("a worker"))
    job.restarts()
    job.fails(DamagedCheckpointError("a file is missing"))
    job.restarts()
    assert files_of(job)[0] == ["/sp/shared/3"] and job.completed == [1, 2]


def test_with_an_interval_a_job_does_not_go_on_from_a_savepoint() -> None:
    """A job could not be restarted after its user has deleted a savepoint."""
    job = Job().runs()
    takes(job, "shared/1", "a")
    takes(job, "2-count", "b", savepoint="/sp")
    job.fails(TaskLostError("a worker"))
    job.restarts()
    assert files_of(job) == (["shared/1"], True)


def test_what_the_origin_names_is_committed_again() -> None:
    """Rows that an earlier run had written, and not published when it died, would be missing."""
    job = Job(origin=manifest("another", commits={SINK_ID: [packed((0, ["row"]))]}))
    (commit,) = [effect for effect in job.effects if isinstance(effect, Commit)]
    assert (commit.sink, commit.subtask, commit.committables, commit.again) == (SINK, 0, ["row"], True)


def test_state_that_the_program_does_not_have_is_an_error_before_anything_is_deployed() -> None:
    """A renamed operator would start without its state, and no one would notice."""
    gone = manifest("another", operators=[OperatorPart("gone", "an old operator", 1, 128, [])])
    with pytest.raises(CheckpointError, match="'an old operator'"):
        Job(origin=gone)
    allowed = dataclasses.replace(SETTINGS, allow_non_restored_state=True)
    assert files_of(Job(allowed, origin=gone)) == ([], False)


def test_an_enumerator_goes_on_where_the_origin_left_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that an earlier run has read would be read a second time."""
    states: list[Any] = []

    def restore(self: Listing, context: EnumeratorContext, state: Any) -> SplitEnumerator:
        states.append(state)
        return self.create_enumerator(context)

    monkeypatch.setattr(Listing, "restore_enumerator", restore)
    graph = plan_of(lambda: ["new"])
    (source_id,) = source_state_ids(graph).values()
    of_other_source = Manifest("another", "a job", 7, 0, 0, 0, [], [], {"other": packed(["of another source"])})
    Job(graph=graph, origin=of_other_source)
    assert states == [], "what another source has left is not its affair"
    Job(graph=graph, origin=msgspec.structs.replace(of_other_source, enumerators={source_id: packed(["left"])}))
    assert states == [["left"]]


def test_files_of_workers_that_were_killed_are_deleted_before_the_next_attempt() -> None:
    """They would fill the store; or a manifest that is retained would lose its files with them."""
    job = Job().runs()
    for _ in range(2):
        job.takes_checkpoint()
    effects = job.fails(TaskLostError("a worker"))
    (kept,) = [effect.retained for effect in effects if isinstance(effect, RetainOnly)]
    assert [one.checkpoint_id for one in kept] == job.completed == [1, 2]
    assert job.master.status is JobStatus.RESTARTING


def test_the_numbers_of_checkpoints_never_come_twice() -> None:
    """The directory of a checkpoint would be written by two attempts at once."""
    job = Job(origin=manifest("id")).runs()
    for _ in range(3):
        job.begins_checkpoint()
        job.takes_checkpoint()
        job.fails(TaskLostError("a worker"))
        job.restarts().runs()
    numbers = [effect.manifest.checkpoint_id for effect in job.effects if isinstance(effect, StoreManifest)]
    assert numbers == [9, 11, 13]


# A graph as the coordinator sees it.


@pytest.mark.parametrize("parallelism", [1, 3])
def test_vertices_carry_what_names_their_state(parallelism: int) -> None:
    """State would be stored under a name by which the next run does not find it."""
    graph = plan(parallelism)
    for vertex, seen in zip(graph.vertices, checkpoint_vertices(graph), strict=True):
        assert (seen.id, seen.name, seen.parallelism) == (vertex.id, vertex.name, vertex.parallelism)
        assert seen.operators == [(node.uid, node.name) for node in vertex.nodes]
        assert seen.is_source == vertex.is_source
        assert set(seen.sinks.values()) <= {state_id for state_id, _ in seen.operators}
    assert source_state_ids(graph) == {v.id: v.nodes[0].uid for v in graph.vertices if v.is_source}
    sinks = {sink: vertex.id for vertex in checkpoint_vertices(graph) for sink in vertex.sinks}
    assert sinks == vertex_of_sinks(graph) and len(sinks) == 1


def test_state_ids_do_not_depend_on_the_parallelism() -> None:
    """A job that is rescaled would find none of its state."""
    one, three = (checkpoint_vertices(plan(parallelism)) for parallelism in (1, 3))
    assert [vertex.operators for vertex in one] == [vertex.operators for vertex in three]
    assert [list(vertex.sinks.values()) for vertex in one] == [list(vertex.sinks.values()) for vertex in three]
