"""One address for the metrics of a cluster and all its jobs, and for what is said of its paths."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from openapi_spec_validator import validate
from prometheus_client.parser import text_string_to_metric_families
from starlette.routing import Match, Route
from tests.unit.service.dispatcher.played_cluster import PlayedCluster
from tests.unit.service.rest.served import report

from penstock.common.errors import JobError
from penstock.service.dispatcher.metric_paths import merged

IDS = ["aaaaaaaa1111", "bbbbbbbb2222"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlayedCluster]:
    one = PlayedCluster(tmp_path_factory.mktemp("cluster"))
    for number, served in enumerate(one.served):
        served.job.metrics.update([report(1, 0, 1.0, 100 + number)])
    yield one
    one.close()


def test_prometheus_reads_all_jobs_of_a_cluster_at_its_address(cluster: PlayedCluster) -> None:
    """Each job has a port that nobody knows before it runs: none of them could be monitored."""
    text = cluster.client.send("GET", "/metrics").decode()
    families = {family.name: family.samples for family in text_string_to_metric_families(text)}
    assert len(re.findall("^# TYPE ", text, re.MULTILINE)) == len(families), "each family in one piece"
    read = families["flink_taskmanager_job_task_operator_numRecordsIn"]
    assert {(s.labels["job_id"], s.labels["operator_name"], s.value) for s in read} == {
        (IDS[0], "first", 100), (IDS[0], "last", 100), (IDS[1], "first", 101), (IDS[1], "last", 101),
    }  # fmt: skip
    assert [s.labels["job_id"] for s in families["flink_jobmanager_job_numRestarts"]] == IDS
    own = {name: families[f"flink_jobmanager_{name}"] for name in ("taskSlotsTotal", "taskSlotsAvailable")}
    assert {name: [sample.value for sample in samples] for name, samples in own.items()} == {
        "taskSlotsTotal": [8], "taskSlotsAvailable": [1],
    }  # fmt: skip


def test_a_cluster_counts_its_slots_and_jobs(cluster: PlayedCluster) -> None:
    """That jobs wait would be seen by nobody before their users ask."""
    names = [one["id"] for one in cluster.client.get("/jobmanager/metrics")]
    shown = cluster.client.get(f"/jobmanager/metrics?get={','.join(names)}")
    assert {one["id"]: one["value"] for one in shown} == {
        "taskSlotsTotal": "8", "taskSlotsAvailable": "1", "numRegisteredTaskManagers": "8",
        "numRunningJobs": "3", "numQueuedJobs": "1",
    }  # fmt: skip
    assert cluster.client.get("/taskmanagers/metrics") == []


def test_metrics_are_aggregated_over_the_jobs_of_a_cluster(cluster: PlayedCluster) -> None:
    """Flink's paths would answer that there is no job of the name `metrics`."""
    assert {"id": "numRestarts"} in cluster.client.get("/jobs/metrics")
    (shown,) = cluster.client.get("/jobs/metrics?get=lastCheckpointDuration&agg=min,sum")
    assert shown == {"id": "lastCheckpointDuration", "min": -1.0, "sum": -2.0}
    (shown,) = cluster.client.get(f"/jobs/metrics?get=lastCheckpointDuration&agg=sum&jobs={IDS[1]}")
    assert shown == {"id": "lastCheckpointDuration", "sum": -1.0}
    with pytest.raises(JobError, match="agg must be of min, max, sum, avg, skew, got median"):
        cluster.client.get("/jobs/metrics?get=numRestarts&agg=median")


def test_families_of_several_processes_become_one() -> None:
    """Prometheus refuses a scrape in which a family comes twice, or one of a name that looks like a comment."""
    about = "# HELP {0} {0}\n# TYPE {0} gauge\n"
    own = about.format("slots") + "slots 8.0\n"
    first = about.format("a") + 'a{of="# HELP b"} 1.0\n' + about.format("slots") + "slots 3.0\n"
    second = about.format("b") + "b 2.0\n" + about.format("a") + 'a{of="\u2028"} 3.0'
    assert merged(own, [first, second, ""]) == (
        own + about.format("a") + 'a{of="# HELP b"} 1.0\na{of="\u2028"} 3.0\n' + about.format("b") + "b 2.0\n"
    )


def test_all_that_a_cluster_answers_is_described(cluster: PlayedCluster) -> None:
    """What a generated client can't ask of a cluster, its users would think it does not have."""
    document = cluster.client.get("/openapi.json")
    validate(document)
    paths = document["paths"]
    for path, method in (
        ("/metrics", "get"), ("/jobs/overview", "get"), ("/jobs/{jobid}", "patch"), ("/submissions", "post"),
        ("/jobs/{jobid}/checkpoints", "get"), ("/jobs/{jobid}/savepoints", "post"),
        ("/taskmanagers/{taskmanagerid}/thread-dump", "get"), ("/jars/upload", "post"),
    ):  # fmt: skip
        assert method in paths[path], path
    for path in ("/docs", "/docs.js"):
        assert cluster.client.send("GET", path)


def test_what_is_described_of_a_job_is_passed_on_to_it(cluster: PlayedCluster) -> None:
    """The process of the cluster would look for the job among its own, of which it has none."""
    for path, operations in cluster.client.get("/openapi.json")["paths"].items():
        if not path.startswith(("/jobs/{jobid}", "/taskmanagers/{taskmanagerid}")):
            continue
        for method in operations:
            scope = {"type": "http", "path": re.sub(r"{\w+}", "1", path), "method": method.upper()}
            taken = next(one for one in cluster.application.routes if one.matches(scope)[0] is Match.FULL)
            assert isinstance(taken, Route) and taken.endpoint.__module__.startswith("penstock.service.dispatcher"), (
                path
            )
