"""Second faults of a cluster: Spark's JVM, which its jobs share, is lost again while the first loss is mended."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from tests.e2e.test_cluster import NUMBERS, Cluster, until
from tests.spark.jobs import processes

from penstock.service.cluster.running_cluster import running_clusters

pytestmark = [pytest.mark.e2e, pytest.mark.own_jvm, pytest.mark.soak, pytest.mark.timeout(1_500)]
COUNT = 12_000
KILLS = 3


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    (tmp_path / "count_up.py").write_text(NUMBERS)
    cluster = Cluster(tmp_path, "--slots", 2)
    yield cluster
    cluster.command("cluster", "stop", "--dir", tmp_path, check=False)


def lose(cluster: Cluster, after_s: float) -> None:
    """Kill the JVM of a cluster that serves, so long after it has begun to; the cluster ends with it."""
    until_s = time.monotonic() + after_s
    until(lambda: time.monotonic() >= until_s)
    (jvm, *_) = [pid for pid, _, command in processes(cluster.running.pid) if "deploy.SparkSubmit" in command]
    with contextlib.suppress(ProcessLookupError):
        os.kill(jvm, signal.SIGKILL)
    until(lambda: not [one for one in running_clusters() if one.directory == str(cluster.directory)])


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_jvm_that_is_lost_again_as_the_jobs_of_a_cluster_go_on(cluster: Cluster, tmp_path: Path, seed: int) -> None:
    """The jobs of a cluster would end, or do again what they have done, with a second loss of its JVM."""
    random = Random(seed)
    checkpoints = f"execution.checkpointing.dir={tmp_path / 'checkpoints'}"
    id = cluster.submit("-D", checkpoints, "count_up.py", tmp_path / "out", COUNT)
    until(lambda: list((tmp_path / "checkpoints").glob("*/chk-*/_metadata")))
    lose(cluster, 0)
    for _ in range(KILLS - 1):
        cluster.start()
        lose(cluster, random.choice([0, random.uniform(0, 8)]))
    cluster.start()
    until(lambda: cluster.job(id)["phase"] == "ENDED", 300)
    assert cluster.job(id)["status"] == "FINISHED"
    shown = [path for path in (tmp_path / "out").rglob("*") if path.is_file() and not path.name.startswith(".")]
    assert sorted(int(line) for path in shown for line in path.read_text().splitlines()) == [*range(1, COUNT + 1)]
    log = "".join(path.read_text(errors="replace") for path in tmp_path.glob("cluster.log*"))
    assert "py4j" not in log, "the loss of a JVM is told in words, not by a traceback of Py4J"
