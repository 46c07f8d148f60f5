"""One session for a long day: what a job leaves behind adds up."""

from __future__ import annotations

import os
import subprocess
import threading

import pytest
from tests.spark.jobs import BATCH, STREAMING, collect, environment, no_worker_left, processes

from penstock.datastream import RuntimeExecutionMode

pytestmark = [pytest.mark.spark, pytest.mark.slow]
FIRST = 10
"""Until then caches fill and the JVM compiles. Of a few jobs it is the first half."""
SPARKS_POOLS = ("block-manager-ask-thread-pool", "block-manager-storage-async-thread-pool")
"""Spark grows these to 100 threads each and lets them go after an idle minute: how many there are is chance."""


def _job(mode: RuntimeExecutionMode) -> None:
    env = environment(mode, 2)
    words = env.from_collection(["to", "be", "or", "not", "to", "be"]).map(lambda word: (word, 1))
    counts = dict(collect(words.key_by(lambda v: v[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))))
    assert counts == {"to": 2, "be": 2, "or": 1, "not": 1}


def _figures() -> dict[str, int]:
    """Threads of the driver, processes below it, resident memory of the driver and of its JVM in MB."""
    from pyspark import SparkContext

    jvm = SparkContext._jvm
    assert jvm is not None
    jvm.System.gc()
    java = next(pid for pid, _, command in processes() if "java" in command.split()[0])
    bean = jvm.java.lang.management.ManagementFactory
    threads = jvm.java.lang.Thread.getAllStackTraces().keySet().toArray()
    return {
        "driver threads": threading.active_count(),
        "jvm threads": sum(not thread.getName().startswith(SPARKS_POOLS) for thread in threads),
        "processes": len(processes()),
        "driver MB": _resident_mb(os.getpid()),
        "jvm MB": _resident_mb(java),
        "jvm heap MB": bean.getMemoryMXBean().getHeapMemoryUsage().getUsed() // 2**20,
    }


def _resident_mb(pid: int) -> int:
    return int(subprocess.check_output(["ps", "-o", "rss=", "-p", str(pid)], text=True)) // 1024


@pytest.mark.timeout(600)
@pytest.mark.parametrize("jobs", [6, pytest.param(200, marks=pytest.mark.soak)])
def test_many_jobs_one_after_the_other(jobs: int) -> None:
    """A service or a notebook that runs jobs all day would run out of memory, threads or processes."""
    first = min(FIRST, jobs // 2)
    for number in range(first):
        _job(BATCH if number % 2 else STREAMING)
    no_worker_left()
    before = _figures()
    for number in range(first, jobs):
        _job(BATCH if number % 2 else STREAMING)
    no_worker_left()
    after = _figures()

    print(f"after job {first}: {before}")
    print(f"after job {jobs}: {after}")
    assert after["driver threads"] <= before["driver threads"] + 3
    assert after["jvm threads"] <= before["jvm threads"] + 40
    assert after["processes"] <= before["processes"] + 1
    assert after["driver MB"] <= before["driver MB"] + 40
    assert after["jvm heap MB"] <= before["jvm heap MB"] + 100
    assert after["jvm MB"] <= before["jvm MB"] + 500
