"""What is served about a job, its tasks and its failures."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.unit.engine.jobmaster.played_job import Job, plan
from tests.unit.service.rest.served import PlayedJob, Served, pattern_plan, report

from penstock.common.configuration import Configuration
from penstock.common.errors import UserFunctionError
from penstock.common.job_id import JobID
from penstock.engine.jobmaster.execution_graph import Execution, ExecutionGraph
from penstock.engine.jobmaster.execution_state import ExecutionState
from penstock.engine.rpc.messages import Heartbeat, OperatorReport, Register, SlotFailed, TaskReport
from penstock.engine.runtime.ids import SlotId, SubtaskId
from penstock.hosts.spark.driver.batched_run import BatchedRun
from penstock.service.rest.job_paths import vertex_state
from penstock.service.rest.vertex_paths import aggregate_of


def states(served: Served) -> list[tuple[str, dict[str, int]]]:
    vertices = served.get("/jobs/id")["vertices"]
    return [(v["status"], {state: n for state, n in v["tasks"].items() if n}) for v in vertices]


def all_register(served: Served) -> None:
    for level, index in ((0, 0), (1, 0), (1, 1)):
        served.job.played.report(level, Register(), index=index)


def test_a_job_is_shown_from_its_deployment_to_its_running(served: Served) -> None:
    """A job that waits for its workers would look like one that runs, or like none."""
    assert served.get("/v1/jobs") == {"jobs": [{"id": "id", "status": "CREATED"}]}
    assert states(served) == [("CREATED", {"DEPLOYING": 1}), ("CREATED", {"DEPLOYING": 2})]
    served.job.played.now_ms += 5_000
    served.job.played.report(1, Heartbeat([]), index=1)
    assert states(served)[1] == ("INITIALIZING", {"DEPLOYING": 1, "INITIALIZING": 1})
    served.job.played.now_ms += 1_000
    all_register(served)
    served.job.played.waits(100)
    job = served.get("/jobs/overview")["jobs"][0]
    assert (job["state"], job["tasks"]["running"], job["tasks"]["total"]) == ("RUNNING", 3, 3)
    assert states(served) == [("RUNNING", {"RUNNING": 1}), ("RUNNING", {"RUNNING": 2})]
    assert served.get("/jobs/id")["timestamps"]["RUNNING"] == 7_000
    times = served.get(f"{served.vertex(1)}/subtasktimes")["subtasks"][1]["timestamps"]
    assert (times["DEPLOYING"], times["INITIALIZING"], times["RUNNING"]) == (1_000, 6_000, 7_100)


def test_a_path_names_a_job_by_its_name(served: Served) -> None:
    """A script would have to look up the id first, and do it again after each start."""
    name = served.get("/jobs/id")["name"]
    assert served.get(f"/jobs/{quote(name)}/checkpoints") == served.get("/jobs/id/checkpoints")
    assert served.send("PATCH", f"/jobs/{quote(name)}", status=202) == {}
    assert served.job.is_cancelled
    assert served.send("GET", "/jobs/another", status=400)["errors"][0].endswith("or a job's name, are expected")


def test_a_job_starts_once_however_often_it_is_restarted(tmp_path: Path) -> None:
    """It would seem to run since its latest failure, come first of all jobs, and its duration begin again."""
    served = Served(tmp_path, PlayedJob())
    played = served.job.played
    all_register(served)
    for _ in range(2):
        played.waits(5_000)
        played.fails(RuntimeError("away"))
        played.restarts()
        all_register(served)
        played.waits(100)
    (job,), shown = served.get("/jobs/overview")["jobs"], served.get("/jobs/id")
    assert (job["start-time"], shown["start-time"], shown["timestamps"]["INITIALIZING"]) == (1_000, 1_000, 1_000)
    assert shown["duration"] == shown["now"] - 1_000 and shown["timestamps"]["RUNNING"] > 10_000
    assert served.get("/applications/overview")["applications"][0]["start-time"] == 1_000
    served.endpoint.close()


@pytest.mark.parametrize(
    ("of_subtasks", "of_vertex"),
    [
        ("RUNNING RUNNING RUNNING DEPLOYING", "RUNNING"),
        ("RUNNING SCHEDULED", "RUNNING"),
        ("RUNNING INITIALIZING", "INITIALIZING"),
        ("DEPLOYING SCHEDULED", "CREATED"),
        ("FINISHED DEPLOYING", "RUNNING"),
        ("FINISHED RUNNING", "RUNNING"),
        ("FINISHED FINISHED", "FINISHED"),
        ("RUNNING CANCELED", "CANCELED"),
        ("CANCELED CANCELING", "CANCELING"),
        ("CANCELING FAILED", "FAILED"),
    ],
)
def test_the_state_of_a_vertex_is_that_which_flink_makes_of_its_subtasks(of_subtasks: str, of_vertex: str) -> None:
    """A batched job with more subtasks than cores would seem to be deployed until its last one begins."""
    executions = [
        Execution(SubtaskId(0, index), SlotId(0, index), 0, ExecutionState[name], {})
        for index, name in enumerate(of_subtasks.split())
    ]
    assert vertex_state(executions).name == of_vertex


def test_the_plan_names_vertices_and_what_they_read(served: Served) -> None:
    """Clients could not draw the graph, or would ask for vertices that do not exist."""
    source, sink = served.get("/jobs/id/plan")["plan"]["nodes"]
    assert "inputs" not in source and [edge["id"] for edge in sink["inputs"]] == [source["id"]]
    assert sink["inputs"][0]["ship_strategy"] == "HASH" and sink["parallelism"] == 2
    assert [vertex["id"] for vertex in served.get("/jobs/id")["vertices"]] == [source["id"], sink["id"]]
    assert served.get(served.vertex(1))["id"] == sink["id"]


def test_a_vertex_has_what_its_operators_say_of_themselves(tmp_path: Path) -> None:
    """The picture of a pattern would be seen by nobody who has not written the program."""
    served = Served(tmp_path, PlayedJob(pattern_plan()))
    found, sink = served.get(served.vertex(1))["operators"]
    assert found["name"].startswith("Pattern a .. b")
    assert found["description"].splitlines() == [
        "a: kind == 1",
        "  ↓ followed by",
        "b: kind < 0",
        "within 5 s from first to last event",
    ]
    assert sink["description"] is None and found["metrics"] == {}
    own: dict[str, int | float] = {"numPartialMatches": 7, "maxPartialMatchesOfKey": 2}
    served.job.metrics.update([TaskReport(1, 0, *[0] * 10, [OperatorReport(found["name"], 9, 0, 0, 0, own)])])
    found, sink = served.get(served.vertex(1))["operators"]
    assert found["metrics"] == own and sink["metrics"] == {}
    served.endpoint.close()


def test_a_failure_is_listed_with_the_task_and_the_users_traceback_first(served: Served) -> None:
    """A user would look for his own line below those of the engine."""
    all_register(served)
    text = "operator 'm', subtask 2 of 2, in map\n  Traceback\n  ValueError: 3"
    served.job.played.report(1, SlotFailed("UserFunctionError", text), index=1)
    served.job.played.waits(5_000)
    history = served.get("/jobs/id/exceptions")["exceptionHistory"]
    (entry,) = history["entries"]
    assert entry["exceptionName"] == f"penstock.{UserFunctionError.__name__}"
    assert entry["stacktrace"].startswith("operator 'm'") and entry["taskManagerId"] == "level-1-slot-1"
    assert "(2/2) - execution #0" in entry["taskName"] and not history["truncated"]
    assert served.get("/jobs/id/exceptions?maxExceptions=0")["exceptionHistory"]["truncated"]


def test_only_the_newest_failures_are_kept_and_said_to_be_so(tmp_path: Path) -> None:
    """A job that fails all night would fill the memory of its driver, or seem to have failed a few times only."""
    served = Served(tmp_path, PlayedJob(attempts=100))
    for number in range(20):
        served.job.played.fails(RuntimeError(f"failure {number}"))
        served.job.played.restarts()
    history = served.get("/jobs/id/exceptions?maxExceptions=100")["exceptionHistory"]
    assert history["truncated"] and len(history["entries"]) < 20
    assert history["entries"][0]["stacktrace"] == "failure 19"
    served.endpoint.close()


def test_what_does_not_exist_is_404_and_what_is_no_id_or_number_400(served: Served) -> None:
    """A client with a job of yesterday would wait for ever, or read another job's figures; one that cuts ids, too."""
    other = "0" * 31 + "a"
    assert served.get(f"/jobs/{other}", 404)["errors"] == [f"Job {other} not found"]
    assert served.get(f"/jobs/id/vertices/{other}", 404)["errors"] == [f"JobVertex {other} not found in job id"]
    in_capitals = served.vertex(1).rpartition("/")[2].upper()
    assert served.get(f"/jobs/id/vertices/{in_capitals}"), "Flink reads digits in any case"
    assert '(jobid) from value "other"' in served.get("/jobs/other", 400)["errors"][0]
    assert '(vertexid) from value "abc"' in served.get("/jobs/id/vertices/abc", 400)["errors"][0]
    assert '(applicationid) from value "x"' in served.get("/applications/x", 400)["errors"][0]
    served.get(f"/applications/{other}", 404)
    assert "Not found: /nothing" in served.get("/nothing", 404)["errors"][0]
    served.get(f"{served.vertex(1)}/subtasks/2", 404)
    served.get(f"{served.vertex(0)}/subtasks/x", 400)
    served.get("/jobs/id/exceptions?maxExceptions=-1", 400)
    served.send("DELETE", "/jobs/id", status=405)


def test_tasks_tell_how_busy_they_are(served: Served) -> None:
    """Nobody would see which task holds up the job."""
    all_register(served)
    for seconds, records in ((1.0, 100), (3.0, 900)):
        served.job.metrics.update([report(1, 0, seconds, records), report(1, 1, seconds, 0)])
        served.entry.meter.sample(seconds)
    shown: dict[str, Any] = served.get(f"{served.vertex(1)}/backpressure")
    assert shown["backpressureLevel"] == "low" and round(shown["subtasks"][0]["ratio"], 3) == 0.167
    assert round(shown["subtasks"][0]["idleRatio"], 3) == 0.5
    subtasks = served.get(served.vertex(1))["subtasks"]
    assert [each["metrics"]["write-records"] for each in subtasks] == [1_800, 0]
    job = served.get("/jobs/id")["vertices"]
    assert job[1]["metrics"]["write-records"] == 1_800 and job[1]["metrics"]["write-records-complete"]
    assert not job[0]["metrics"]["write-records-complete"], "it has not reported"


def test_attempts_of_a_task_are_shown_by_their_numbers(served: Served) -> None:
    """Flink's pages ask for a task by its attempt, and would show an error for each."""
    path = f"{served.vertex(1)}/subtasks/1"
    shown = served.get(f"{path}/attempts/0")
    assert (shown["subtask"], shown["attempt"], shown["status"]) == (1, 0, "DEPLOYING")
    all_register(served)
    served.job.played.fails(RuntimeError("away"))
    served.job.played.restarts()
    assert served.get(f"{path}/attempts/1")["attempt"] == 1
    before = served.get(f"{path}/attempts/0")
    assert (before["attempt"], before["status"]) == (0, "CANCELED")
    assert before["end-time"] >= before["start-time"] > 0 and not before["metrics"]["read-records-complete"]
    assert "attempt 2: expected 0 to 1" in served.get(f"{path}/attempts/2", 404)["errors"][0]
    served.get(f"{path}/attempts/x", 400)
    served.get(f"{served.vertex(1)}/subtasks/2/attempts/1", 404)


def test_accumulators_are_asked_for_by_all_of_flinks_paths(served: Served) -> None:
    """A page or a client of Flink's would fail for what it shows beside the figures that are there."""
    vertex = served.vertex(1)
    assert served.get("/jobs/id/accumulators") == {
        "job-accumulators": [], "user-task-accumulators": [], "serialized-user-task-accumulators": {},
    }  # fmt: skip
    assert served.get(f"{vertex}/accumulators")["user-accumulators"] == []
    assert len(served.get(f"{vertex}/subtasks/accumulators")["subtasks"]) == 2
    shown = served.get(f"{vertex}/subtasks/1/attempts/0/accumulators")
    assert (shown["subtask"], shown["attempt"], shown["user-accumulators"]) == (1, 0, [])
    served.get(f"/jobs/{'0' * 32}/accumulators", 404)
    served.get(f"{vertex}/subtasks/1/attempts/7/accumulators", 404)


def test_figures_of_all_subtasks_have_flinks_form(served: Served) -> None:
    """Flink's pages read a median and a sum of them, and its client refuses a number with a point."""
    served.job.metrics.update([report(1, 0, 1.0, 100), report(1, 1, 1.0, 3)])
    aggregated = served.get(served.vertex(1))["aggregated"]
    assert aggregated["metrics"]["write-records"] == {
        "min": 6, "max": 200, "avg": 103, "sum": 206, "median": 103, "p25": 6, "p75": 200, "p95": 200,
    }  # fmt: skip
    assert aggregated["status-duration"]["RUNNING"]["sum"] == -2, "they have not run yet"
    numbers = [n for of_kind in aggregated.values() for one in of_kind.values() for n in one.values()]
    assert all(type(number) is int for number in numbers)
    (first, _) = served.get(f"{served.vertex(1)}/taskmanagers")["taskmanagers"]
    assert first["aggregated"]["metrics"]["write-records"]["median"] == 200


def test_percentiles_lie_between_two_tasks_as_flinks_do() -> None:
    """A page of Flink's would show another median of the same figures."""
    found = aggregate_of([40, 10, 30, 20])
    assert (found["p25"], found["median"], found["p75"], found["p95"], found["avg"]) == (12, 25, 37, 40, 25)
    assert aggregate_of([-1, 0])["avg"] == 0 and set(aggregate_of([]).values()) == {0}


def test_a_batched_job_is_shown_as_one(tmp_path: Path) -> None:
    """A job of an hour would be seen by nobody; or its page would fail, as it has no checkpoints."""
    run = BatchedRun(plan(batched=True), {}, Configuration(), JobID.generate(), is_served=True)
    served = Served(tmp_path, run)
    (shown,) = served.get("/jobs/overview")["jobs"]
    assert (shown["state"], shown["jobType"], shown["tasks"]["created"]) == ("CREATED", "BATCH", 2)
    assert served.get("/jobs/id/plan")["plan"]["type"] == "BATCH"
    assert served.get("/jobs/id/plan")["plan"]["nodes"][1]["inputs"][0]["exchange"] == "blocking"
    assert served.get("/jobs/id/checkpoints")["counts"]["total"] == 0
    trigger = served.send("POST", "/jobs/id/savepoints", {"target-directory": "/d"}, 202)["request-id"]
    cause = served.get(f"/jobs/id/savepoints/{trigger}")["operation"]["failure-cause"]
    assert "no savepoints" in cause["stack-trace"]
    served.endpoint.close()


class _ShrinkingJob(PlayedJob):
    """Rescaled from two subtasks to one at each second look at it."""

    def __init__(self) -> None:
        super().__init__()
        self.smaller = Job(graph=plan(parallelism=1)).recorder.published
        self.looks = 0
        self.changes = False

    @property
    def execution_graph(self) -> ExecutionGraph:
        self.looks += 1
        return self.smaller if self.changes and self.looks % 2 == 0 else self.played.recorder.published


@pytest.mark.parametrize("part", ["", "/subtasks/1", "/subtasks/1/attempts/0", "/subtasktimes", "/backpressure"])
def test_an_answer_is_of_one_moment(tmp_path: Path, part: str) -> None:
    """A look at a subtask while its job is scaled down would be an error of the server's."""
    job = _ShrinkingJob()
    served = Served(tmp_path, job)
    path = f"{served.vertex(1)}{part}"
    before = served.get(path)
    job.changes, job.looks = True, 0
    after = served.get(path)
    served.endpoint.close()
    assert after.keys() == before.keys() and len(after.get("subtasks", [])) == len(before.get("subtasks", []))
