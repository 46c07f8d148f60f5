"""What is served about checkpoints and savepoints."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.engine.jobmaster.played_job import plan
from tests.unit.service.rest.served import PlayedJob, Served

from penstock.common.configuration.choices import ExternalizedCheckpointRetention
from penstock.engine.checkpoint.manifest import Manifest
from penstock.engine.checkpoint.schedule import CheckpointSettings
from penstock.engine.jobmaster.events import RescaleRequested, SavepointRequested
from penstock.engine.jobmaster.settings import JobSettings
from penstock.engine.rpc.messages import Register
from penstock.engine.runtime.checkpoint_options import CheckpointOptions, DeclineReason
from penstock.engine.runtime.task.events import Acknowledge, Decline, Finished
from penstock.engine.state.handles import SnapshotFigures, SubtaskState


@pytest.fixture
def served(tmp_path: Path):
    """A job that runs, with one subtask for each vertex."""
    one = Served(tmp_path, PlayedJob(plan()), {"execution.checkpointing.interval": "5 s"})
    one.job.played.runs()
    yield one
    one.endpoint.close()


def test_checkpoints_are_counted_and_listed_newest_first(served: Served) -> None:
    """A job whose checkpoints fail would look like one whose checkpoints are merely slow."""
    job = served.job.played
    job.takes_checkpoint()
    failed = job.begins_checkpoint()
    job.report(1, Decline(1, 0, failed, DeclineReason.STATE, "the disk is full"))
    under_way = job.begins_checkpoint()
    job.waits(1_000)
    shown = served.get("/jobs/id/checkpoints")
    assert shown["counts"] == {"restored": 0, "total": 3, "in_progress": 1, "completed": 1, "failed": 1}
    assert [(one["id"], one["status"]) for one in shown["history"]] == [
        (under_way, "IN_PROGRESS"), (failed, "FAILED"), (1, "COMPLETED"),
    ]  # fmt: skip
    assert "the disk is full" in shown["latest"]["failed"]["failure_message"]
    assert shown["latest"]["completed"]["external_path"] == "/checkpoints/chk-1"
    assert not shown["latest"]["completed"]["discarded"] and shown["latest"]["savepoint"] is None


def test_the_newest_of_each_kind_is_shown_after_a_hundred_failures(served: Served) -> None:
    """An alert on the last checkpoint that completed would fall back to "never" while a job's disk is full."""
    job = served.job.played
    job.takes_checkpoint()
    for _ in range(120):
        failed = job.begins_checkpoint()
        job.report(1, Decline(1, 0, failed, DeclineReason.NEWER, ""))
    job.waits(1_000)
    shown = served.get("/jobs/id/checkpoints")
    assert shown["counts"]["failed"] == 120
    assert (shown["latest"]["completed"]["id"], shown["latest"]["failed"]["id"]) == (1, failed)
    assert shown["summary"]["checkpointed_size"]["p50"] == shown["latest"]["completed"]["checkpointed_size"]
    asked = "lastCompletedCheckpointId,lastCheckpointDuration"
    found = {one["id"]: one["value"] for one in served.get(f"/jobs/id/metrics?get={asked}")}
    assert found == {"lastCompletedCheckpointId": "1", "lastCheckpointDuration": "0"}
    assert served.get("/jobs/id/checkpoints/details/1")["status"] == "COMPLETED"
    served.get("/jobs/id/checkpoints/details/2", 404)


def test_a_checkpoint_is_shown_by_task_and_subtask(served: Served) -> None:
    """Nobody would find the subtask that makes checkpoints slow."""
    served.job.played.takes_checkpoint()
    served.job.played.waits(1_000)
    details = served.get("/jobs/id/checkpoints/details/1")
    assert len(details["tasks"]) == 2 and details["num_acknowledged_subtasks"] == 2
    vertex = served.vertex(1).rpartition("/")[2]
    task = served.get(f"/jobs/id/checkpoints/details/1/subtasks/{vertex}")
    assert task["num_subtasks"] == 1 and [one["index"] for one in task["subtasks"]] == [0]
    served.get("/jobs/id/checkpoints/details/7", 404)
    served.get("/jobs/id/checkpoints/details/x", 400)


@pytest.mark.parametrize("fails", [False, True])
def test_what_has_come_of_a_checkpoint_is_shown_while_it_is_collected_and_when_it_has_failed(
    tmp_path: Path, fails: bool
) -> None:
    """Nobody would see which of a hundred subtasks a checkpoint waits for, or has waited for when it expired."""
    served = Served(tmp_path)
    job = served.job.played
    for level, index in ((0, 0), (1, 0), (1, 1)):
        job.report(level, Register(), index=index)
    number = job.begins_checkpoint()
    job.waits(1_000)
    shown = served.get(f"/jobs/id/checkpoints/details/{number}")
    assert (shown["latest_ack_timestamp"], shown["end_to_end_duration"]) == (-1, -1)
    figures = SnapshotFigures(start_delay_ms=100, async_ms=300, written=10, total=50)
    job.report(1, Acknowledge(1, 1, number, SubtaskState(figures=figures)), index=1)
    if fails:
        job.report(1, Decline(1, 0, number, DeclineReason.STATE, "the disk is full"))
    job.waits(1_000)
    shown = served.get(f"/jobs/id/checkpoints/details/{number}")
    status, began_ms = "FAILED" if fails else "IN_PROGRESS", shown["trigger_timestamp"]
    assert (shown["status"], shown["latest_ack_timestamp"]) == (status, began_ms + 400)
    assert (shown["checkpointed_size"], shown["state_size"]) == (10, 50)
    source, sink = (served.vertex(index).rpartition("/")[2] for index in (0, 1))
    tasks = shown["tasks"]
    assert (tasks[source]["num_acknowledged_subtasks"], tasks[source]["latest_ack_timestamp"]) == (0, -1)
    assert (tasks[sink]["num_acknowledged_subtasks"], tasks[sink]["num_subtasks"]) == (1, 2)
    assert tasks[sink]["status"] == status
    task = served.get(f"/jobs/id/checkpoints/details/{number}/subtasks/{sink}")
    assert task["subtasks"][0] == {"className": "pending", "index": 0, "status": "pending_or_failed"}
    assert (task["subtasks"][1]["index"], task["subtasks"][1]["end_to_end_duration"]) == (1, 400)
    assert task["summary"]["state_size"]["max"] == 50
    served.endpoint.close()


def test_a_checkpoint_from_before_a_rescaling_has_the_subtasks_of_that_time(served: Served) -> None:
    """It would seem to lack the parts of subtasks that did not exist then."""
    job = served.job.played
    job.handle(RescaleRequested(1, {1: 3}, free_slots=10))
    job.acknowledges(1)
    for vertex in (0, 1):
        job.report(vertex, Finished(vertex, 0))
    job.waits(1_000)
    assert [vertex["parallelism"] for vertex in served.get("/jobs/id")["vertices"]] == [1, 3]
    sink = served.vertex(1).rpartition("/")[2]
    task = served.get(f"/jobs/id/checkpoints/details/1/subtasks/{sink}")
    assert (task["num_subtasks"], len(task["subtasks"])) == (1, 1)
    assert served.get("/jobs/id/checkpoints/details/1")["tasks"][sink]["num_subtasks"] == 1


def test_savepoints_are_part_of_the_history(served: Served) -> None:
    """A user would not find where the savepoint is that a colleague has taken."""
    job = served.job.played
    job.handle(SavepointRequested(1, CheckpointOptions(savepoint="/savepoints/one")))
    number = job.master.coordinator.under_way[-1]
    job.waits(1_000)
    assert served.get("/jobs/id/checkpoints")["history"][0]["is_savepoint"]
    job.acknowledges(number)
    job.waits(1_000)
    latest = served.get("/jobs/id/checkpoints")["latest"]
    assert latest["savepoint"]["external_path"] == "/savepoints/one" and latest["completed"] is None
    assert list(job.master.coordinator.history) == [], "checkpoints alone"


def test_a_restart_names_what_it_was_restored_from(served: Served) -> None:
    """After a failure at night it could not be told how much was read again."""
    job = served.job.played
    job.takes_checkpoint()
    job.fails(RuntimeError("away"))
    job.restarts()
    job.waits(1_000)
    shown = served.get("/jobs/id/checkpoints")
    assert shown["counts"]["restored"] == 1
    assert shown["latest"]["restored"]["id"] == 1
    assert shown["latest"]["restored"]["external_path"] == "/checkpoints/chk-1"
    assert served.get("/jobs/id/checkpoints/config")["interval"] == 5_000


def test_regions_that_start_together_are_one_restore(tmp_path: Path) -> None:
    """A job of ten unconnected parts would seem to have restarted ten times."""
    served = Served(tmp_path, PlayedJob(plan(regions=3)))
    job = served.job.played.runs()
    job.takes_checkpoint()
    for region in (0, 1):
        job.fails(RuntimeError("away"), region=region)
    job.restarts().runs().waits(1_000)
    assert served.get("/jobs/id/checkpoints")["counts"]["restored"] == 1
    for restored in (2, 3):
        job.fails(RuntimeError("away"), region=2)
        job.restarts().runs().waits(1_000)
        assert served.get("/jobs/id/checkpoints")["counts"]["restored"] == restored
    served.endpoint.close()


@pytest.mark.parametrize("is_savepoint", [True, False])
def test_what_a_job_was_started_from_is_shown_with_its_path(tmp_path: Path, is_savepoint: bool) -> None:
    """A user would look in the job's own directory for a checkpoint of another job."""
    begins = Manifest("other job", "job", 7, 0, 0, 0, [], [], savepoint=is_savepoint)
    served = Served(tmp_path, PlayedJob(plan(), origin=begins, origin_path="/elsewhere/it"))
    served.job.played.runs().waits(1_000)
    restored = served.get("/jobs/id/checkpoints")["latest"]["restored"]
    assert (restored["id"], restored["external_path"]) == (7, "/elsewhere/it")
    assert restored["is_savepoint"] is is_savepoint
    served.job.played.takes_checkpoint()
    served.job.played.fails(RuntimeError("away"))
    served.job.played.restarts().waits(1_000)
    restored = served.get("/jobs/id/checkpoints")["latest"]["restored"]
    assert (restored["id"], restored["external_path"]) == (8, "/checkpoints/chk-8")
    served.endpoint.close()


def test_a_restart_from_a_savepoint_names_where_it_is(tmp_path: Path) -> None:
    """Without an interval a job goes on from its savepoint, of which only the number would be told."""
    settings = JobSettings(CheckpointSettings(interval_ms=None), ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION)
    served = Served(tmp_path, PlayedJob(plan(), settings=settings))
    job = served.job.played.runs()
    job.handle(SavepointRequested(1, CheckpointOptions(savepoint="/savepoints/one")))
    job.acknowledges(job.master.coordinator.under_way[-1])
    job.fails(RuntimeError("away"))
    job.restarts().waits(1_000)
    restored = served.get("/jobs/id/checkpoints")["latest"]["restored"]
    assert (restored["is_savepoint"], restored["external_path"]) == (True, "/savepoints/one")
    served.endpoint.close()


@pytest.mark.parametrize("is_unaligned", [False, True])
def test_a_checkpoint_says_of_which_type_it_is(tmp_path: Path, is_unaligned: bool) -> None:
    """Pages and scripts that look for the savepoint with which a job stops go by it. Source: RestAPICheckpointType."""
    # Those that are enabled are unaligned only if they have to be.
    one = Served(tmp_path, PlayedJob(plan()), {"execution.checkpointing.unaligned.enabled": "true"})
    job = one.job.played.runs()
    number = job.begins_checkpoint()
    state = SubtaskState(figures=SnapshotFigures(in_flight=0 if is_unaligned else None))
    job.of_tasks(lambda vertex: Acknowledge(vertex, 0, number, state))
    for number, stops in enumerate((False, True), start=1):
        job.handle(SavepointRequested(number, CheckpointOptions(savepoint=f"/s{number}", stop=stops)))
        job.waits(100)
        if not stops:
            job.acknowledges(2)
    job.waits(1_000)
    types = [shown["checkpoint_type"] for shown in one.get("/jobs/id/checkpoints")["history"]]
    one.endpoint.close()
    assert types == ["SYNC_SAVEPOINT", "SAVEPOINT", "UNALIGNED_CHECKPOINT" if is_unaligned else "CHECKPOINT"]
