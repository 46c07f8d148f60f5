"""Metrics over REST and for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.unit.rest.served import Served, report


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """Subtask 0 has worked for two seconds, subtask 1 has done nothing yet."""
    one = Served(tmp_path)
    for seconds, records in ((1.0, 100), (3.0, 900)):
        one.job.metrics.update([report(1, 0, seconds, records), report(1, 1, seconds, 0)])
        one.entry.meter.sample(seconds)
    yield one
    one.endpoint.close()


def values(served: Served, path: str) -> dict[str, float]:
    return {metric["id"]: float(metric["value"]) for metric in served.get(path)}


def test_metrics_of_a_task_have_flinks_names_and_rates(served: Served) -> None:
    """Boards and scripts made for Flink would find nothing."""
    wanted = "0.numRecordsInPerSecond,0.busyTimeMsPerSecond,0.last.numLateRecordsDropped,1.numRecordsIn"
    assert values(served, f"{served.vertex(1)}/metrics?get={wanted}") == {
        "0.numRecordsInPerSecond": 400.0,
        "0.busyTimeMsPerSecond": pytest.approx(333.3, abs=0.1),
        "0.last.numLateRecordsDropped": 3.0,
        "1.numRecordsIn": 0.0,
    }
    names = {metric["id"] for metric in served.get(f"{served.vertex(1)}/subtasks/1/metrics")}
    assert {"first.mine.seen", "first.numRecordsIn", "numBytesOut", "currentInputWatermark"} <= names
    assert served.get(f"{served.vertex(1)}/watermarks")[1] == {"id": "1.currentInputWatermark", "value": "5000"}


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


def test_metrics_of_a_job_count_restarts_and_checkpoints(served: Served) -> None:
    """Alerts on failed checkpoints and restarts could not be written."""
    shown = values(served, "/jobs/id/metrics?get=numRestarts,numberOfCompletedCheckpoints,lastCheckpointDuration")
    assert shown == {"numRestarts": 0, "numberOfCompletedCheckpoints": 0, "lastCheckpointDuration": -1}


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
