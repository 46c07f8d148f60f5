"""Metrics over REST and for Prometheus."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.unit.engine.jobmaster.played_job import plan
from tests.unit.service.rest.served import PlayedJob, Served, report

from penstock.common.job_status import JobStatus
from penstock.engine.jobmaster.events import CancelRequested
from penstock.engine.rpc.messages import OperatorReport, TaskReport
from penstock.service.rest.task_metrics import of_job

ROOT = Path(__file__).parents[4]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """Subtask 0 has worked for two seconds, subtask 1 has done nothing yet."""
    one = Served(tmp_path)
    for seconds, records in ((1.0, 100), (3.0, 900)):
        one.job.metrics.update([report(1, 0, seconds, records), report(1, 1, seconds, 0)])
        one.entry.meter.sample(seconds)
    yield one
    one.endpoint.close()


def task(*operators: OperatorReport) -> TaskReport:
    return TaskReport(1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, list(operators))


def values(served: Served, path: str) -> dict[str, float]:
    return {metric["id"]: float(metric["value"]) for metric in served.get(path)}


def test_metrics_of_a_task_have_flinks_names_and_rates(served: Served) -> None:
    """Boards and scripts made for Flink would find nothing."""
    wanted = "0.numRecordsInPerSecond,0.busyTimeMsPerSecond,0.last.numLateRecordsDropped,1.numRecordsIn"
    wanted += ",0.isBackPressured,0.numLateRecordsDropped"
    assert values(served, f"{served.vertex(1)}/metrics?get={wanted}") == {
        "0.numRecordsInPerSecond": 400.0,
        "0.busyTimeMsPerSecond": pytest.approx(333.3, abs=0.1),
        "0.last.numLateRecordsDropped": 3.0,
        "0.isBackPressured": 1.0,
        "0.numLateRecordsDropped": 3.0,
        "1.numRecordsIn": 0.0,
    }
    names = {metric["id"] for metric in served.get(f"{served.vertex(1)}/subtasks/1/metrics")}
    assert {"managedMemoryUsed", "managedMemoryLimit"} <= names
    assert {"first.mine.seen", "first.numRecordsIn", "numBytesOut", "currentInputWatermark"} <= names
    assert served.get(f"{served.vertex(1)}/watermarks")[1] == {"id": "1.currentInputWatermark", "value": "5000"}


def test_metrics_of_checkpoints_mails_and_emitted_watermarks_have_flinks_names(served: Served) -> None:
    """Alerts on a task whose barriers do not come, or that does not hear its job master, would find nothing."""
    operators = [OperatorReport("last", 0, 0, 0, 9_000, {"watermarkLag": 400}, output_watermark=8_000)]
    one = msgspec.structs.replace(
        task(*operators), start_delay_ms=3, alignment_ns=4_000, mails_waiting=2, mail_latency_mean_ms=1.5,
        mail_latency_max_ms=6.0,
    )  # fmt: skip
    for seconds, mails in ((4.0, 10), (6.0, 14)):
        served.job.metrics.update([msgspec.structs.replace(one, mails=mails)])
        served.entry.meter.sample(seconds)
    wanted = "checkpointStartDelayNanos,checkpointAlignmentTime,mailboxMailsPerSecond,mailboxQueueSize"
    wanted += ",mailboxLatencyMs_mean,mailboxLatencyMs_max,last.currentOutputWatermark,last.watermarkLag"
    assert values(served, f"{served.vertex(1)}/subtasks/0/metrics?get={wanted}") == {
        "checkpointStartDelayNanos": 3_000_000, "checkpointAlignmentTime": 4_000, "mailboxMailsPerSecond": 2,
        "mailboxQueueSize": 2, "mailboxLatencyMs_mean": 1.5, "mailboxLatencyMs_max": 6, "last.watermarkLag": 400,
        "last.currentOutputWatermark": 8_000,
    }  # fmt: skip


def test_metrics_are_aggregated_over_subtasks(served: Served) -> None:
    """Skew would be seen by nobody."""
    (shown,) = served.get(f"{served.vertex(1)}/subtasks/metrics?get=numRecordsIn")
    assert shown == {"id": "numRecordsIn", "min": 0.0, "max": 900.0, "sum": 900.0, "avg": 450.0, "skew": 100.0}
    (shown,) = served.get(f"{served.vertex(1)}/subtasks/metrics?get=numRecordsIn&agg=max&subtasks=1")
    assert shown == {"id": "numRecordsIn", "max": 0.0}
    served.get(f"{served.vertex(1)}/subtasks/metrics?get=numRecordsIn&agg=median", 400)


def test_a_restart_does_not_make_rates_negative(served: Served) -> None:
    """Alerts would go off at each restart."""
    served.job.metrics.update([report(1, 0, 0.5, 10)])
    served.entry.meter.sample(4.0)
    assert values(served, f"{served.vertex(1)}/metrics?get=0.numRecordsInPerSecond") == {"0.numRecordsInPerSecond": 0}
    served.job.metrics.update([report(1, 0, 1.5, 30)])
    served.entry.meter.sample(5.0)
    assert values(served, f"{served.vertex(1)}/metrics?get=0.numRecordsInPerSecond") == {"0.numRecordsInPerSecond": 20}


def test_an_attempt_that_was_shorter_than_the_next_does_not_make_rates_negative(served: Served) -> None:
    """A job that fails again and again would show minus 200 records a second, and an alert on its sum be silent."""
    served.job.metrics.update([report(1, 0, 0.5, 1_000)], attempt=1)
    served.entry.meter.sample(4.0)
    served.job.metrics.update([report(1, 0, 0.9, 10)], attempt=2)
    served.entry.meter.sample(5.0)
    asked = f"{served.vertex(1)}/metrics?get=0.numRecordsInPerSecond,0.first.numRecordsInPerSecond"
    assert set(values(served, asked).values()) == {0}
    served.job.metrics.update([report(1, 0, 1.9, 30)], attempt=2)
    served.entry.meter.sample(6.0)
    assert set(values(served, asked).values()) == {20}


def test_metrics_of_a_job_count_restarts_and_checkpoints(served: Served) -> None:
    """Alerts on failed checkpoints and restarts could not be written."""
    names = "numRestarts,numRescales,numberOfCompletedCheckpoints,lastCheckpointDuration"
    shown = values(served, f"/jobs/id/metrics?get={names}")
    assert shown == {
        "numRestarts": 0,
        "numRescales": 0,
        "numberOfCompletedCheckpoints": 0,
        "lastCheckpointDuration": -1,
    }


def test_prometheus_reads_all_metrics_users_own_included(served: Served) -> None:
    """A scrape would fail as a whole by one name or label that Prometheus does not take."""
    status, headers, text = served.ask("/metrics")
    assert status == 200 and headers["content-type"].startswith("text/plain")
    families = {family.name: family.samples for family in text_string_to_metric_families(text.decode())}
    busy = families["flink_taskmanager_job_task_busyTimeMsPerSecond"]
    assert [(s.labels["subtask_index"], round(s.value)) for s in busy] == [("0", 333), ("1", 333)]
    mine = families["flink_taskmanager_job_task_operator_mine_seen"]
    assert [(s.labels["operator_name"], s.value) for s in mine] == [("first", 900.0), ("first", 0.0)]
    assert families["flink_jobmanager_job_numRestarts"][0].labels == {"job_id": "id", "job_name": "job"}


def test_counters_are_those_of_the_newest_report_and_not_of_the_latest_sample(served: Served) -> None:
    """A job that has ended would show too few records for ever; `penstock top` would show others."""
    served.job.metrics.update([report(1, 0, 3.5, 1_000)])
    wanted = "0.numRecordsIn,0.first.numRecordsIn,0.numRecordsInPerSecond,0.first.numRecordsInPerSecond"
    assert values(served, f"{served.vertex(1)}/metrics?get={wanted}") == {
        "0.numRecordsIn": 1_000, "0.first.numRecordsIn": 1_000,
        "0.numRecordsInPerSecond": 400, "0.first.numRecordsInPerSecond": 400,
    }  # fmt: skip
    assert served.get(served.vertex(1))["subtasks"][0]["metrics"]["write-records"] == 2_000


def test_the_uptime_is_that_since_the_latest_start_and_ends_with_the_job(tmp_path: Path) -> None:
    """An alert on restarts by uptime would never go off; one on jobs that have ended would not either."""
    one = Served(tmp_path, PlayedJob(plan()))
    played = one.job.played
    assert values(one, "/jobs/id/metrics?get=uptime") == {"uptime": 0}
    played.runs().waits(1_000)
    assert values(one, "/jobs/id/metrics?get=uptime")["uptime"] > 0
    played.handle(CancelRequested())
    played.waits(1_000_000)
    assert values(one, "/jobs/id/metrics?get=uptime") == {"uptime": -1}
    one.endpoint.close()


def test_the_downtime_lasts_until_all_tasks_run_again(tmp_path: Path) -> None:
    """A restore of ten minutes would be no downtime, as only the delay before it counted."""
    one = Served(tmp_path, PlayedJob(plan()))
    played = one.job.played

    def downtime_ms() -> float:
        return of_job(one.entry, played.now_ms)["downtime"]

    assert downtime_ms() == 0, "it has never run"
    played.runs().waits(1_000)
    assert downtime_ms() == 0
    played.fails(RuntimeError("away"))
    played.restarts()
    played.waits(10_000)
    assert one.job.execution_graph.status is JobStatus.CREATED and downtime_ms() == 10_100
    played.fails(RuntimeError("again"))
    played.restarts()
    assert downtime_ms() == 10_200, "a second failure does not begin it anew"
    played.runs().waits(1_000)
    assert downtime_ms() == 0
    played.handle(CancelRequested())
    played.waits(1_000_000)
    assert downtime_ms() == -1
    one.endpoint.close()


def test_numbers_that_are_none_are_written_so_that_clients_read_them(served: Served) -> None:
    """One gauge that divides by zero would make all answers unreadable."""
    odd = {"nan": math.nan, "most": math.inf, "least": -math.inf}
    served.job.metrics.update([task(OperatorReport("o", 0, 0, 0, 0, odd))])
    shown = served.get(f"{served.vertex(1)}/subtasks/0/metrics?get=o.nan,o.most,o.least")
    assert [one["value"] for one in shown] == ["NaN", "Infinity", "-Infinity"]
    (shown,) = served.get(f"{served.vertex(1)}/subtasks/metrics?get=o.nan")
    assert shown["sum"] is None
    text = served.ask("/metrics")[2].decode()
    assert "o_nan" not in text and "operator_nan{" in text


@pytest.mark.parametrize(
    "name", ['<script>alert("1")</script>', "it's\\n\n\r\x00", "größe", "a{b}", "", " ", "\ud800", "x" * 5_000]
)
def test_any_name_is_written_so_that_clients_read_it(tmp_path: Path, name: str) -> None:
    """A scrape, or a page, would fail as a whole by one name."""
    one = Served(tmp_path, PlayedJob(plan()))
    one.job.played.graph.name = name
    own = {name.replace("\ud800", ""): 1, "numRecordsIn": 2}
    one.job.metrics.update([task(OperatorReport(name, 7, 0, 0, 0, own))])
    assert one.get("/jobs/overview")["jobs"][0]["name"] in (name, "\ud800")
    one.get("/jobs/id"), one.get("/jobs/id/plan"), one.get(f"{one.vertex(1)}/metrics")
    text = one.ask("/metrics")[2].decode()
    families = {family.name: family.samples for family in text_string_to_metric_families(text)}
    (seen,) = families["flink_taskmanager_job_task_operator_numRecordsIn"]
    assert seen.value == 7 and seen.labels["job_name"] == seen.labels["operator_name"]
    assert seen.labels["job_name"] == name.replace("\ud800", "?")
    one.endpoint.close()


def test_series_that_prometheus_would_take_for_one_another_are_told_apart(served: Served) -> None:
    """It refuses a scrape that has one of them twice: two operators of one name would end all monitoring."""
    own = {"a.b": 1, "a b": 2}
    served.job.metrics.update([task(OperatorReport("same", 1, 1, 0, 0, own), OperatorReport("same", 2, 2, 0, 0, own))])
    text = served.ask("/metrics")[2].decode()
    series = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
    assert len(series) == len(set(series)) and sum("operator_a_b{" in one for one in series) == 2


def test_the_table_of_flinks_names_is_true(served: Served) -> None:
    """A board would be made with what the manual promises, and stay empty."""
    table = (ROOT / "docs" / "reference" / "metrics.md").read_text().partition("## By Flink's names")[2]
    rows = [line.split("|")[1:4] for line in table.splitlines() if line.startswith("| `")]
    of_task = {metric["id"] for metric in served.get(f"{served.vertex(1)}/subtasks/0/metrics")}
    there = {
        "task": of_task,
        "operator": {name.removeprefix("first.") for name in of_task if name.startswith("first.")},
        "job": {metric["id"] for metric in served.get("/jobs/id/metrics")},
        "cluster": {metric["id"] for metric in served.get("/jobmanager/metrics")},
    }
    promised: dict[str, set[str]] = {scope: set() for scope in there}
    for names, scopes, is_here in rows:
        for scope in scopes.strip().split(", "):
            found = set(re.findall(r"`(\w+)`", names)) - {"PerSecond"}
            states = re.findall(r"`([a-z]+ing|created)`", names)
            found -= set(states)
            found |= {f"{state}{end}" for state in states for end in ("State", "Time")}
            if "`PerSecond`" in names:
                found |= {f"{name}PerSecond" for name in found}
            if is_here.strip().startswith("yes"):
                promised[scope] |= found
            else:
                assert not found & there[scope], f"{scope}: they are there"
    for scope, names in promised.items():
        assert names <= there[scope] and len(names) > 3, f"{scope}: {names - there[scope]}"
    missing = there["job"] | there["cluster"] | {name for name in there["task"] if "." not in name}
    missing -= set().union(*promised.values())
    assert missing <= {"latency_mean", "latency_max"}, f"they are not in the table: {missing}"


def test_what_a_job_is_about_is_told_by_number(tmp_path: Path) -> None:
    """An alert on a job that restarts for minutes could not be written."""
    one = Served(tmp_path, PlayedJob(plan()))
    names = "runningState,restartingState,runningTime,downtime"
    one.job.played.runs().waits(1_000)
    shown = values(one, f"/jobs/id/metrics?get={names}")
    assert (shown["runningState"], shown["restartingState"], shown["downtime"]) == (1, 0, 0)
    one.job.played.fails(RuntimeError("why"))
    one.job.played.waits(99)
    shown = values(one, f"/jobs/id/metrics?get={names}")
    assert (shown["runningState"], shown["restartingState"], shown["runningTime"]) == (0, 1, 0)
    assert shown["downtime"] > 0
    one.endpoint.close()


BOARD = ROOT / "docs" / "how-to" / "grafana-board.json"


def test_the_board_shows_metrics_that_there_are(served: Served) -> None:
    """A panel would stay empty, and nobody know whether the job or the board is to blame."""
    board = json.loads(BOARD.read_text())
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    expressions += [variable["query"] for variable in board["templating"]["list"] if variable["type"] == "query"]
    wanted = {name for expression in expressions for name in re.findall(r"flink_\w+", expression)}
    _, _, text = served.ask("/metrics")
    families = {family.name: family for family in text_string_to_metric_families(text.decode())}
    assert len(wanted) > 12 and wanted <= families.keys()
    by = {label for text in expressions for label in re.findall(r"by \(([^)]*)\)", text)}
    labels = {name: set(sample.labels) for name, family in families.items() for sample in family.samples}
    of_operator = labels["flink_taskmanager_job_task_operator_numRecordsIn"]
    assert {part for one in by for part in one.split(", ")} <= of_operator
    places = [tuple(panel["gridPos"].values()) for panel in board["panels"]]
    assert len(set(places)) == len(places) and all(x + w <= 24 for x, _, w, _ in places)
