"""In a cluster sources and sinks are asked, before anything runs, by the process that runs the job."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.e2e.test_cluster import Cluster, until

from penstock.service.client.rest_client import RestClient

pytestmark = [pytest.mark.e2e, pytest.mark.own_jvm]

PROGRAM = """
import sys, time
from penstock.api.sink import Sink
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink

class Asked(Sink):
    def __init__(self, how):
        self.how = how

    def create_writer(self, context):
        raise NotImplementedError

    def validate(self):
        if self.how == "hang":
            print("is asked", flush=True)
            time.sleep(300)
        raise ValueError("no such table")

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1]).sink_to(Asked(sys.argv[1])).name("out")
env.execute("asked")
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("cluster")
    (directory / "asked.py").write_text(PROGRAM)
    cluster = Cluster(directory, "--slots", 2)
    try:
        yield cluster
    finally:
        cluster.command("cluster", "stop", "--dir", directory)


def client_of(cluster: Cluster) -> RestClient:
    return RestClient(cluster.rest.url, cluster.rest.token())


def test_what_a_sink_finds_wrong_is_told_by_its_cluster(cluster: Cluster) -> None:
    """The client may not reach what the cluster does; and a job that failed so was listed without its reason."""
    failed = cluster.run("asked.py", "fail", check=False)
    assert failed.returncode == 1
    assert failed.stderr.count("ValueError: no such table") == 1 and "operator 'out'" in failed.stderr
    assert "connectors_check" not in failed.stderr
    (job,) = client_of(cluster).get("/jobs/overview")["jobs"]
    assert job["state"] == client_of(cluster).get(f"/jobs/{job['jid']}")["state"] == "FAILED"
    (failure,) = client_of(cluster).get(f"/jobs/{job['jid']}/exceptions")["exceptionHistory"]["entries"]
    assert failure["exceptionName"] == "penstock.ProgramError" and "no such table" in failure["stacktrace"]


def test_a_job_is_cancelled_while_its_sink_is_asked(cluster: Cluster) -> None:
    """It would hold its slots for as long as the sink waits, and then begin."""
    client = client_of(cluster)
    address = cluster.rest.url.removeprefix("http://")
    command = [sys.executable, "-m", "penstock.service.cli.main", "run", "-m", address, "-d", "asked.py", "hang"]
    with subprocess.Popen(command, cwd=cluster.directory, stderr=subprocess.PIPE, text=True) as submitted:
        try:
            until(lambda: client.get("/jobs/overview")["jobs"][-1]["state"] == "INITIALIZING")
            id = client.get("/jobs/overview")["jobs"][-1]["jid"]
            until(lambda: b"is asked" in client.answer("GET", f"/submissions/{id.upper()}/output?from=0")[1])
            assert f"{id} " in cluster.command("list", "-s").stdout
            assert "canceling" in cluster.command("cancel", "asked").stderr
            _, said = submitted.communicate(timeout=30)
        finally:
            submitted.kill()
    assert submitted.returncode == 1 and "the job 'asked' was canceled" in said
    assert client.get(f"/jobs/{id}")["state"] == "CANCELED"
    assert client.get("/overview")["slots-available"] == 2
