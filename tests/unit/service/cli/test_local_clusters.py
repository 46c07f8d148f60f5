"""Jobs of a cluster that take no commands yet, as commands find them."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.service.dispatcher.played_cluster import PlayedCluster
from typer.testing import CliRunner

from penstock.common.errors import JobError
from penstock.engine.rpc.keys import ControlAddress
from penstock.service.cli import local_clusters
from penstock.service.cli.local_clusters import cancel_waiting_job, running_job
from penstock.service.cli.main import app
from penstock.service.client.rest_client import RestClient
from penstock.service.cluster import running_cluster
from penstock.service.cluster.rest_address import RestAddress
from penstock.service.cluster.running_cluster import RunningCluster
from penstock.service.cluster.running_jobs import JobRegistry, RunningJob
from penstock.service.dispatcher.dispatcher import Phase
from penstock.service.dispatcher.events import CancelRequested


def register(id: str, name: str, pid: int) -> None:
    """A job that is said to run, and takes no command."""
    address = ControlAddress("tcp://127.0.0.1:1", b"server", b"client", b"secret")
    JobRegistry().add(RunningJob(id, name, pid, 0, address))


@pytest.fixture
def silent() -> list[RestClient]:
    """Clusters that do not answer."""
    return []


@pytest.fixture
def cluster(tmp_path: Path, silent: list[RestClient], monkeypatch: pytest.MonkeyPatch) -> Iterator[PlayedCluster]:
    one = PlayedCluster(tmp_path)
    # Jobs that run are told of there: none, but for those of a test.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(local_clusters, "clients_of_clusters", lambda: ([*silent, one.client], []))
    yield one
    one.close()


def one_waits_as_an_id_begins(cluster: PlayedCluster) -> None:
    """The job that waits has a name with which the id of one that runs begins: feed."""
    cluster.host_jobs[:] = [dataclasses.replace(job, name="feed") for job in cluster.host_jobs if job.id == "dddddddd"]
    register("feed00001111", "another", os.getpid())


def test_a_job_that_waits_is_cancelled_by_its_id_in_capitals(cluster: PlayedCluster) -> None:
    """It would wait on, and begin when slots are free, with nobody there."""
    assert cancel_waiting_job("DDDD")
    (event,) = cluster.posted
    assert isinstance(event, CancelRequested) and event.id == "dddddddd"


def test_a_job_that_runs_is_not_cancelled_as_one_that_waits(cluster: PlayedCluster) -> None:
    """It takes commands itself, which is told when it has; and what is empty names none, whatever waits."""
    assert not cancel_waiting_job("aaaaaaaa1111")
    assert not cancel_waiting_job("")
    assert not cluster.posted


def test_of_several_jobs_that_wait_none_is_cancelled(cluster: PlayedCluster) -> None:
    """The user would read that no job of this name is there."""
    another = cluster.jobs["dddd0000"] = dataclasses.replace(cluster.jobs["dddddddd"], id="dddd0000")
    cluster.host_jobs.append(another)
    with pytest.raises(JobError, match=r"several waiting jobs; name one by its id:\n  dddddddd  waits\n  dddd0000"):
        cancel_waiting_job("waits")
    assert not cluster.posted
    assert cancel_waiting_job("dddd0")


def test_a_cluster_that_does_not_answer_hides_no_other_one(cluster: PlayedCluster, silent: list[RestClient]) -> None:
    """The job that waits in the other one could not be cancelled."""
    silent.append(RestClient("http://127.0.0.1:9", "token"))
    assert cancel_waiting_job("dddddddd")
    with pytest.raises(
        JobError, match=r"no job 'nobody' runs on this machine\. One may be waiting .*\n.*127\.0\.0\.1:9"
    ):
        cancel_waiting_job("nobody")


def test_jobs_that_run_leave_those_of_their_name_that_wait(cluster: PlayedCluster) -> None:
    """`penstock cancel` ended the job that waited, where several ran, or where the one that was meant was busy."""
    for id in ("1111", "2222"):
        register(id, "waits", os.getpid())
    cancelled = CliRunner().invoke(app, ["cancel", "waits"])
    assert cancelled.exit_code == 1 and "several jobs" in cancelled.stderr and not cluster.posted
    for id in ("1111", "2222"):
        JobRegistry().remove(id, os.getpid())
    assert CliRunner().invoke(app, ["cancel", "waits"]).exit_code == 0
    assert len(cluster.posted) == 1


def test_the_name_of_a_job_that_waits_goes_before_the_beginning_of_an_id(cluster: PlayedCluster) -> None:
    """`penstock cancel feed` would end one that runs, whose id happens to begin so."""
    one_waits_as_an_id_begins(cluster)
    assert CliRunner().invoke(app, ["cancel", "feed"]).exit_code == 0
    assert len(cluster.posted) == 1


@pytest.mark.parametrize(
    "command",
    [
        ["savepoint", "--timeout", "0"],
        ["stop", "--timeout", "0"],
        ["scale", "-p", "2"],
        ["checkpoints"],
        ["top", "--once"],
    ],
)
def test_commands_say_of_a_job_that_waits_that_it_does(cluster: PlayedCluster, command: list[str]) -> None:
    """A user who has submitted it reads that no such job runs, and submits it again."""
    verb, *options = command
    told = CliRunner().invoke(app, [verb, "waits", *options])
    assert told.exit_code == 1
    assert "'waits' accepts no commands yet" in told.stderr and "dddddddd  waits: waits for 1 slot" in told.stderr
    assert "no job 'another' runs" in CliRunner().invoke(app, [verb, "another", *options]).stderr


def test_commands_say_what_is_not_known_of_jobs_that_wait(cluster: PlayedCluster, silent: list[RestClient]) -> None:
    """A user would take it that no such job is there, and submit it again."""
    silent.append(RestClient("http://127.0.0.1:9", "token"))
    for command in (["savepoint", "nobody"], ["list"], ["top"]):
        told = CliRunner().invoke(app, command).stderr
        assert "ne may be waiting in a cluster" in told and "127.0.0.1:9" in told, command
    assert "'waits' accepts no commands yet" in CliRunner().invoke(app, ["savepoint", "waits", "--timeout", "0"]).stderr


def test_a_job_that_begins_takes_no_commands_yet(cluster: PlayedCluster) -> None:
    """While it asks its sources, for a minute perhaps, no such job would be said to run."""
    begins = next(job for job in cluster.host_jobs if job.id == "dddddddd")
    cluster.host_jobs[:] = [dataclasses.replace(begins, phase=Phase.STARTING)]
    assert "dddddddd  waits: starts now" in CliRunner().invoke(app, ["stop", "waits", "--timeout", "0"]).stderr


def test_a_command_for_a_job_that_waits_is_not_for_one_whose_id_begins_so(cluster: PlayedCluster) -> None:
    """`penstock stop feed` would stop one that runs, whose id happens to begin so."""
    one_waits_as_an_id_begins(cluster)
    assert "'feed' accepts no commands yet" in CliRunner().invoke(app, ["stop", "feed", "--timeout", "0"]).stderr
    assert running_job("feed0").name == running_job("another").name == "another"


def test_an_empty_list_tells_of_jobs_that_wait(cluster: PlayedCluster) -> None:
    """ "No job is running" reads as if the one just submitted were lost."""
    listed = CliRunner().invoke(app, ["list"])
    assert listed.stderr == "no job is running on this machine. 1 job waits in a cluster: penstock list -s\n"
    cluster.host_jobs[:] = [job for job in cluster.host_jobs if job.id != "dddddddd"]
    assert CliRunner().invoke(app, ["list"]).stderr == "no job is running on this machine\n"


def test_a_job_whose_process_was_killed_is_said_to_be_one(cluster: PlayedCluster) -> None:
    """ "No job runs" reads as if it had ended well."""
    ended = subprocess.Popen(["true"])
    register("1111", "killed", ended.pid)
    ended.wait()
    cancelled = CliRunner().invoke(app, ["cancel", "killed"])
    assert cancelled.exit_code == 1 and "ended without reporting an error" in cancelled.stderr


def test_a_cluster_without_its_token_hides_no_other_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that waits in the other one could not be cancelled, nor listed."""
    one = PlayedCluster(tmp_path)
    token = tmp_path / "token"
    token.write_text(one.server.token)
    gone = RunningCluster(1, "/jobs/of/one", RestAddress("http://127.0.0.1:9", str(tmp_path / "gone")))
    other = RunningCluster(2, "/jobs/of/the/other", RestAddress(one.client.url, str(token)))
    monkeypatch.setattr(running_cluster, "running_clusters", lambda: [gone, other])
    assert cancel_waiting_job("dddddddd")
    listed = CliRunner().invoke(app, ["list", "-s"])
    assert (
        "waits for 1 slot" in listed.stdout
        and "cannot reach the cluster with the jobs in /jobs/of/one" in listed.stderr
    )
    assert listed.exit_code == 1, "a script would take the list for whole"
    with pytest.raises(JobError, match="cannot reach the cluster with the jobs in /jobs/of/one"):
        cancel_waiting_job("nobody")
    one.close()
