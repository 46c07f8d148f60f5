"""A cluster of penstock's on Spark's own: it gets executors as jobs come, and gives them back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.test_cluster import COUNTS, NUMBERS, Cluster, ranges_in, run_versions_beside_each_other, until
from tests.spark.jobs import jvm_options

import penstock
from penstock.testing.standalone_cluster import StandaloneCluster

pytestmark = [pytest.mark.e2e, pytest.mark.own_jvm, pytest.mark.slow, pytest.mark.soak, pytest.mark.timeout(600)]
LEAST, MOST, IN_EACH = 2, 6, 2


@pytest.fixture(scope="module")
def spark() -> Iterator[StandaloneCluster]:
    environment = {
        **os.environ,
        "JAVA_TOOL_OPTIONS": jvm_options(),
        "PYTHONPATH": str(Path(penstock.__file__).parents[1]),
    }
    with StandaloneCluster(workers=2, cores=4, memory="3g", environment=environment) as started:
        yield started


@pytest.fixture(scope="module")
def cluster(spark: StandaloneCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("cluster")
    (directory / "counts.py").write_text(COUNTS)
    (directory / "count_up.py").write_text(NUMBERS)
    (directory / "beside.py").write_text("ONE, DIVISOR = 1, 1")
    settings = {
        "spark.master.ui.port": spark.page_port,
        "spark.driver.memory": "1g",
        "spark.executor.memory": "600m",
        "spark.executor.cores": IN_EACH,
        "spark.dynamicAllocation.executorIdleTimeout": "3s",
    }
    words = [word for key, value in settings.items() for word in ("-D", f"{key}={value}")]
    cluster = Cluster(directory, "--slots", LEAST, "--master", spark.url, "--max-slots", MOST, *words)
    try:
        yield cluster
    finally:
        cluster.command("cluster", "stop", "--dir", directory)


def held(spark: StandaloneCluster) -> int:
    slots: int = spark.state()["coresused"]
    return slots


def test_a_cluster_runs_jobs_on_a_standalone_master(spark: StandaloneCluster, cluster: Cluster) -> None:
    """`penstock cluster start --master spark://...` would be a command that nobody has run."""
    done = cluster.run("counts.py")
    assert done.stdout == "1\n" * 4
    until(lambda: held(spark) == LEAST)
    large = cluster.run("-p", 4, "counts.py", check=False)
    assert f"needs 9 slots at once, and this cluster has {MOST}" in large.stderr


def test_versions_of_one_package_beside_each_other(cluster: Cluster, tmp_path: Path) -> None:
    """One of two teams' jobs would compute with the other one's package, on executors that they share."""
    run_versions_beside_each_other(cluster, tmp_path)


def test_executors_come_as_jobs_wait_and_go_when_they_are_idle(
    spark: StandaloneCluster, cluster: Cluster, tmp_path: Path
) -> None:
    """Jobs would wait for each other beside machines that are free; or these be held by nobody's jobs."""
    until(lambda: held(spark) == LEAST)
    options = ("-p", 2, "-D", f"execution.checkpointing.dir={tmp_path / 'checkpoints'}")
    first, second, third = (
        cluster.submit(*options, "count_up.py", tmp_path / str(number), 1_000_000) for number in range(3)
    )
    for job in (first, second, third):
        until(lambda job=job: cluster.client.get(f"/jobs/{job}")["state"] == "RUNNING", 120)
    assert held(spark) == MOST
    for job in (first, third):
        cluster.client.request("PATCH", f"/jobs/{job}?mode=cancel")
    until(lambda: held(spark) == LEAST)
    until(lambda: cluster.client.get("/overview")["slots-total"] == LEAST)
    assert cluster.client.get(f"/jobs/{second}")["state"] == "RUNNING"
    cluster.command("stop", second, tmp_path / "saved")
    assert ranges_in(tmp_path / "1") == 2, "one of each subtask"
    log = (cluster.directory / "cluster.log").read_text()
    assert log.count("restarts in") == 0 and "requesting 3 executors with 2 slots each" in log
