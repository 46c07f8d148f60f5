"""Tables and charts of the pages, from what REST answers."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from tests.unit.service.dashboard.test_job_figures import figures
from tests.unit.service.rest.served import Served

from penstock.service.dashboard.charts import PHASES, checkpoints_chart, phases_of
from penstock.service.dashboard.job_figures import SubtaskFigures, VertexFigures
from penstock.service.dashboard.tables import (
    checkpoint_subtasks_table,
    checkpoints_table,
    clusters_table,
    entries_table,
    failures_of,
    jobs_table,
    latency_table,
    subtasks_table,
)


def words(markup: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", markup))


def test_jobs_that_run_come_first(served: Served) -> None:
    """Among a hundred that have ended, the one that matters would have to be looked for."""
    (job,) = served.get("/jobs/overview")["jobs"]
    over = {**job, "jid": "over", "name": "over", "state": "FINISHED", "start-time": 99, "end-time": 100, "where": "b"}
    shown = jobs_table([over, {**job, "where": "127.0.0.1:1"}])
    assert shown.index("/job/id") < shown.index("/job/over")
    assert "&lt;b&gt;orders&lt;/b&gt;" in shown and "2 of 2" in shown and "127.0.0.1:1" in shown
    assert "penstock run" in jobs_table([]), "a beginner is told how to start one"


def test_a_job_that_runs_shows_its_rates_event_time_restarts_and_last_checkpoint(served: Served) -> None:
    """A user with twenty jobs would have to open each page to find the one that is stuck."""
    (job,) = served.get("/jobs/overview")["jobs"]
    history = served.get("/jobs/id/history?range=none")
    history["now"] |= {"watermark": history["now"]["timestamp"] - 15_000, "restarts": 2}
    history["last-checkpoint"] |= {"ended": history["now"]["timestamp"] - 3_000, "duration": 250}
    shown = jobs_table([{**job, "where": "", "history": history}])
    assert "100/s 100/s 15.0 s behind 2 3.0 s ago in 250 ms 2 of 2" in words(shown)
    assert 'class="bad"' not in shown, "nothing has failed"
    history["last-checkpoint"] |= {"failure": "<i>it took too long</i>"}
    shown = jobs_table([{**job, "where": "", "history": history}])
    assert "3 failed 3.0 s ago" in words(shown) and 'class="bad" title="&lt;i&gt;it took too long&lt;/i&gt;"' in shown
    assert 'data-head="last checkpoint"' in shown, "on a phone each cell has its head"


def test_a_cluster_says_how_many_slots_are_held_and_how_its_jobs_have_ended() -> None:
    """Whoever wonders why a job waits would have to ask the cluster in a terminal."""
    counts = {"jobs-running": 3, "jobs-finished": 1_200, "jobs-cancelled": 4, "jobs-failed": 5}
    shown = clusters_table([{"where": "127.0.0.1:8081", "slots-total": 8, "slots-available": 2, **counts}])
    assert words(shown).strip().endswith("127.0.0.1:8081 6 of 8 3 1,200 4 5") and "width: 75%" in shown
    none = {"where": "b", "slots-total": 0, "slots-available": 0, **counts}
    assert "0 of 0" in clusters_table([none]), "executors have not come yet"
    assert clusters_table([]) == ""


def test_skew_is_seen_as_the_share_of_the_highest_rate() -> None:
    """Which subtask has most to do would have to be read out of the numbers."""
    one = SubtaskFigures(0, "RUNNING", 1, "level-0-slot-0", 100.0, 0.0, 1, 2, 0.5, 0.0, 61_000.0)
    other = SubtaskFigures(1, "RUNNING", 1, "level-0-slot-1", 25.0, 0.0, 1, 2, 0.5, 1.04, None)
    shown = subtasks_table([one, other])
    assert 'bar-rate" style="width: 100%"' in shown or 'style="width: 100%" class="bar-rate"' in shown
    assert "width: 25%" in shown and "1 min 1 s" in shown and "100/s" in words(shown)
    assert "100 %" in shown and "104 %" not in shown
    assert subtasks_table([]), "a vertex of which nothing is known yet"
    ended = [replace(one, in_per_s=0.0, read=400), replace(other, in_per_s=0.0, read=100)]
    assert "width: 25%" in subtasks_table(ended), "of a job that has ended, which had most to do"


def test_checkpoints_say_where_their_time_went(served: Served) -> None:
    """Slow checkpoints could not be told apart: alignment asks for another remedy than a slow disk."""
    found = served.get("/jobs/id/checkpoints")["history"]
    shown = words(checkpoints_table(found))
    assert "/checkpoints/chk-3" in shown and "completed" in shown and "2 of 2" in shown
    vertices = served.get("/jobs/id")["vertices"]
    path = f"/jobs/id/checkpoints/details/{found[0]['id']}/subtasks"
    parts = [(one["name"], served.get(f"{path}/{one['id']}")) for one in vertices]
    assert f"{vertices[1]['name']} · 0" in checkpoint_subtasks_table(parts).replace("&gt;", ">")
    assert phases_of(found[0], [part for _, part in parts]).phases == (0, 0, 0, 0)


def test_the_chart_has_the_slowest_subtask_of_each_phase() -> None:
    """One slow subtask holds up a checkpoint, and would be lost in a mean."""

    def vertex(delay: int, alignment: int, sync: int, rest: int) -> dict[str, Any]:
        duration = {"sync": {"max": sync}, "async": {"max": rest}}
        alignments = {"duration": {"max": alignment}}
        return {"summary": {"start_delay": {"max": delay}, "alignment": alignments, "checkpoint_duration": duration}}

    checkpoint = {"id": 7, "checkpointed_size": 1_500_000, "state_size": 3_000_000}
    one = phases_of(checkpoint, [vertex(1, 20, 3, 4), vertex(10, 2, 30, 40)])
    shown = checkpoints_chart([one], 7)
    (column,) = re.findall(r'title="(checkpoint 7: start delay[^"]*)"', shown)
    assert column == "checkpoint 7: start delay 10 ms, alignment 20 ms, sync 30 ms, async 40 ms"
    assert "checkpoint 7: written 1.5 MB, reused 1.5 MB" in shown and shown.count('data-checkpoint="7"') == 2
    assert all(name in words(shown) for name in PHASES)
    assert checkpoints_chart([], 0) == "", "before the first one"


def test_a_failed_checkpoint_says_why_and_old_ones_are_counted(served: Served) -> None:
    """Forty rows of checkpoints would hide what is below them."""
    one = served.get("/jobs/id/checkpoints")["history"][0]
    failed = {**one, "status": "FAILED", "failure_message": "it took too long", "external_path": None}
    shown = words(checkpoints_table([failed] * 12))
    assert "it took too long" in shown and "2 older ones" in shown
    assert "No checkpoint yet" in checkpoints_table([])


def test_the_newest_failure_is_open_and_its_text_is_text(served: Served) -> None:
    """What has gone wrong would be behind a click; and the message of an error would be markup."""
    history = served.get("/jobs/id/exceptions")["exceptionHistory"]
    shown = failures_of({**history, "entries": history["entries"] * 2})
    assert shown.count("<details open") == 1 and shown.count("<details") == 2
    assert "&lt;i&gt;a failure&lt;/i&gt;" in shown
    assert "No exceptions" in failures_of({"entries": [], "truncated": False})


def test_latency_that_is_not_measured_says_how_to_measure_it(served: Served) -> None:
    """An empty page would look like a fault of the page."""
    assert "metrics.latency.interval" in latency_table(figures(served))
    more = {"latency_mean_ms": 2.5, "latency_max_ms": 10.0}
    shown = latency_table([VertexFigures("v", "sink", "RUNNING", 1, 128, 0, (), **more)])  # type: ignore[arg-type]
    assert "sink" in shown and "2.5 ms" in shown and "10.0 ms" in shown and "width: 25%" in shown


def test_entries_of_state_are_shown_with_their_columns() -> None:
    """Of a window's state nobody would know which window it is."""
    answer = {"entries": [{"key": "JFK", "namespace": [0, 5], "value": "<b>" * 2_000}], "is-complete": False}
    shown = entries_table(answer)
    assert "namespace" in shown and "[0, 5]" in shown and "&lt;b&gt;" in shown and "More entries" in shown
    assert len(shown) < 20_000, "a value of megabytes does not go to the browser"
    assert "No entry" in entries_table({"entries": [], "is-complete": True})
