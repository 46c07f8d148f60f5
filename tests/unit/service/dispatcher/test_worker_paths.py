"""Workers of several jobs, asked of their cluster as Flink's pages do it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.service.dispatcher.played_cluster import PlayedCluster

from penstock.common.errors import JobError
from penstock.common.job_status import JobStatus


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlayedCluster]:
    one = PlayedCluster(tmp_path_factory.mktemp("cluster"))
    yield one
    one.close()


def test_slots_of_all_jobs_are_told_apart(cluster: PlayedCluster) -> None:
    """A page would show one job's worker in the place of another's, or fail because one process is gone."""
    ids = [one["id"] for one in cluster.client.get("/taskmanagers")["taskmanagers"]]
    assert len(ids) == len(set(ids)) == 6 and {id[:9] for id in ids} == {"aaaaaaaa-", "bbbbbbbb-"}
    one = cluster.client.get("/taskmanagers/bbbbbbbb-level-0-slot-0")
    assert (one["id"], one["path"], one["slotsNumber"]) == ("bbbbbbbb-level-0-slot-0",) * 2 + (1,)
    text = cluster.client.send("GET", "/taskmanagers/bbbbbbbb-level-0-slot-0/log").decode()
    assert text == "a worker of bbbbbbbb2222\n"
    assert cluster.client.get("/taskmanagers/aaaaaaaa-level-0-slot-0/logs")["logs"][0]["name"] == "level-0-slot-0.log"
    (thread,) = cluster.client.get("/taskmanagers/aaaaaaaa-level-0-slot-0/thread-dump")["threadInfos"]
    assert thread == {
        "threadName": "MainThread", "stringifiedThreadInfo": '"MainThread" waits\n  at run:1\n  at map:2\n'
    }  # fmt: skip
    cluster.served[0].job.stops_answering = True
    with pytest.raises(JobError, match="level-0-slot-0 does not answer"):
        cluster.client.get("/taskmanagers/aaaaaaaa-level-0-slot-0/thread-dump")


def test_a_slot_without_its_job_is_the_one_that_has_the_name(cluster: PlayedCluster) -> None:
    """Pages of a job know its slots by their own names."""
    with pytest.raises(JobError, match="TaskExecutor -level-0-slot-0 not found"):
        cluster.client.get("/taskmanagers/-level-0-slot-0")
    with pytest.raises(JobError, match="level-0-slot-0 not found: 2 jobs have such a slot, each with its id before it"):
        cluster.client.get("/taskmanagers/level-0-slot-0")
    with pytest.raises(JobError, match=r"TaskExecutor level-7-slot-0 not found$"):
        cluster.client.get("/taskmanagers/level-7-slot-0")
    with pytest.raises(JobError, match="TaskExecutor level-7-slot-0 not found"):
        cluster.client.get("/taskmanagers/aaaaaaaa-level-7-slot-0")


def test_what_is_no_name_of_a_file_is_not_found(cluster: PlayedCluster) -> None:
    """The user would read of a fault of the cluster."""
    for name in ("a%20b", "a%3Fb", "..%2F..%2Fa%25"):
        with pytest.raises(JobError, match="This file does not exist"):
            cluster.client.get(f"/taskmanagers/aaaaaaaa-level-0-slot-0/logs/{name}")


def test_the_process_of_the_cluster_is_shown(cluster: PlayedCluster) -> None:
    """Flink's pages of the job manager would show errors."""
    assert {one["key"]: one["value"] for one in cluster.client.get("/jobmanager/config")} == {
        "spark.master": "local[2]",
        "spark.some.password": "******",
    }
    (cluster.directory / "cluster.log").write_text("it serves\n")
    (cluster.directory / "jobs").write_text("not for everyone")
    assert [one["name"] for one in cluster.client.get("/jobmanager/logs")["logs"]] == ["cluster.log"]
    for path in ("log", "stdout", "logs/cluster.log"):
        assert cluster.client.send("GET", f"/jobmanager/{path}") == b"it serves\n"
    with pytest.raises(JobError, match="This file does not exist: jobs"):
        cluster.client.send("GET", "/jobmanager/logs/jobs")
    assert cluster.client.get("/jobmanager/thread-dump")["threadInfos"]
    assert "Python" in cluster.client.get("/jobmanager/environment")["jvm"]["version"]


def test_logs_of_jobs_are_those_of_drivers_and_of_workers_that_are_gone(tmp_path: Path) -> None:
    """What explains why a job has failed would be on the machine of the cluster only, once its process has ended."""
    cluster = PlayedCluster(tmp_path)
    cluster.jobs["cccccccc"] = dataclasses.replace(cluster.jobs["cccccccc"], status=JobStatus.FAILED, rest=None)
    for id in ("aaaaaaaa1111", "cccccccc", "of another cluster"):
        folder = tmp_path / "logs" / id
        folder.mkdir(parents=True)
        for name in ("driver.log", "driver.log.1", "level-0-slot-0.log", "jvm.log", "job.json"):
            (folder / name).write_text(f"{name} of {id}")
    try:
        assert [one["name"] for one in cluster.client.get("/jobmanager/logs")["logs"]] == [
            "aaaaaaaa-driver.log", "aaaaaaaa-driver.log.1",
            "cccccccc-driver.log", "cccccccc-driver.log.1", "cccccccc-level-0-slot-0.log",
        ]  # fmt: skip
        text = cluster.client.send("GET", "/jobmanager/logs/cccccccc-level-0-slot-0.log?last=11")
        assert text == b"of cccccccc"
        with pytest.raises(JobError, match="This file does not exist: aaaaaaaa-job"):
            cluster.client.send("GET", "/jobmanager/logs/aaaaaaaa-job.json")
    finally:
        cluster.close()
