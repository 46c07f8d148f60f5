"""What penstock assumes of Spark, asked of a running JVM. All tests share the session of the others."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.spark.jobs import wait_until

from penstock.common import Configuration
from penstock.hosts.spark.driver.pipelined_query import start_query
from penstock.hosts.spark.driver.session import session_for
from penstock.hosts.spark.failures import failed_with_jvm, from_spark, lost_spark
from penstock.hosts.spark.internals.jvm import (
    adopt,
    concurrent_tasks,
    is_alive,
    java_stack_of,
    jvm_has_ended,
    wait_for_jvm_end,
    was_stopped_by_spark,
)
from penstock.hosts.spark.internals.memory_stream import empty_stream
from penstock.hosts.spark.internals.python_daemons import renew_after
from penstock.hosts.spark.internals.query_plans import is_deterministic, is_one_session
from penstock.hosts.spark.internals.settings import DISABLED, FIXED_AT_START, PER_BATCH_JOB, PER_QUERY
from penstock.hosts.spark.rows import ROW_TYPE, buffers_of, to_batch

pytestmark = pytest.mark.spark


@pytest.fixture
def spark() -> Any:
    return session_for(4, True, Configuration(), None)


@pytest.fixture
def process_of_jvm(spark: Any) -> Iterator[Callable[[str], None]]:
    """Use a process that runs a shell command as the JVM's process, until the end of the test."""
    processes = []

    def start(command: str) -> None:
        processes.append(subprocess.Popen(["sh", "-c", command]))
        adopt(processes[-1])

    jvm_process = spark.sparkContext._gateway.proc
    yield start
    adopt(jvm_process)
    for process in processes:
        process.kill()
        process.wait()


def test_a_jvm_that_is_ending_counts_as_ended(process_of_jvm: Callable[[str], None]) -> None:
    """A job whose JVM was killed would fail for a lost worker: a large process exists for a while after it was killed.

    The next leader of a cluster would then not resume the job.
    """
    process_of_jvm("sleep 0.5")
    assert not jvm_has_ended()
    assert not failed_with_jvm("UserFunctionError")
    assert failed_with_jvm("TaskLostError")
    assert jvm_has_ended() and wait_for_jvm_end()
    assert "Spark's JVM has ended" in str(lost_spark())


def test_a_jvm_that_runs_has_not_failed_the_job(process_of_jvm: Callable[[str], None]) -> None:
    """A job that lost a worker and has no restarts left would wait for the end of its cluster."""
    process_of_jvm("exec sleep 600")
    assert not failed_with_jvm("TaskLostError")
    assert "the connection to Spark's JVM was lost" in str(lost_spark())


def test_assumption_settings(spark: Any) -> None:
    """A setting that Spark does not know does nothing: a record would take seconds, and nothing would say why."""
    jvm = spark._jvm
    # Settings of SQL are registered when the class that holds them is loaded; the session has done that.
    known = jvm.org.apache.spark.internal.config.ConfigEntry
    sql = jvm.org.apache.spark.sql.internal.SQLConf
    names = [*FIXED_AT_START, *DISABLED, *PER_QUERY, *PER_BATCH_JOB, "spark.python.daemon.module"]
    unknown = [name for name in names if known.findEntry(name) is None and not sql.containsConfigKey(name)]
    assert not unknown


def test_assumption_concurrent_tasks(spark: Any) -> None:
    """No job would start on a cluster, or before its executors are there."""
    assert concurrent_tasks(spark) == spark.sparkContext.defaultParallelism


def test_assumption_deterministic_plan(spark: Any) -> None:
    """Operations that read one frame would get different rows."""
    frame = spark.range(3)
    assert is_deterministic(frame.join(frame, "id").groupBy("id").count())
    assert not is_deterministic(frame.selectExpr("id", "rand() AS chance").join(frame, "id").select("id"))
    assert is_one_session(spark, frame.sparkSession)
    assert not is_one_session(spark, spark.newSession())


def test_assumption_stopped_by_spark(spark: Any) -> None:
    """After its master was away for a minute, a program could run no further job: its session is gone."""
    assert not was_stopped_by_spark(spark)
    spark.sparkContext._jsc.sc().stop()
    assert was_stopped_by_spark(spark) and not is_alive(spark)
    again = session_for(4, True, Configuration(), None)
    assert is_alive(again) and again.range(3).count() == 3


def test_assumption_daemon(spark: Any) -> None:
    """Each worker would import penstock, pandas and pyarrow itself: a second of CPU each, while a record waits."""

    def origin(batches: Any) -> Any:
        for _ in batches:
            main = sys.modules["__main__"].__spec__
            # What the daemon has imported was frozen before the fork.
            yield to_batch([(gc.get_freeze_count(), main.name.encode() if main else b"")])

    (row,) = spark.range(0, 1, 1, 1).mapInArrow(origin, ROW_TYPE).collect()
    assert bytes(row.buffer).decode() == "penstock.hosts.spark.worker.daemon"
    assert row.target > 10_000


def test_workers_have_pyspark_from_files(spark: Any) -> None:
    """Spark has them import it from a zip, which is compiled each time: a session would begin half a second later."""

    def origin(batches: Any) -> Any:
        import pyspark.worker

        for _ in batches:
            yield to_batch([(0, str(pyspark.worker.__file__).encode())])

    (row,) = spark.range(0, 1, 1, 1).mapInArrow(origin, ROW_TYPE).collect()
    assert Path(bytes(row.buffer).decode()).is_file()


def test_assumption_daemon_of_environment(spark: Any) -> None:
    """A daemon that can't be reached would be asked for workers for ever: each restart of a job would fail."""

    def daemon(batches: Any) -> Any:
        for _ in batches:
            yield to_batch([(os.getppid(), b"")])

    def present() -> int:
        (row,) = spark.range(0, 1, 1, 1).mapInArrow(daemon, ROW_TYPE).collect()
        return int(row.target)

    before = present()
    renew_after(RuntimeError("java.lang.IllegalStateException\n\tat org.apache.spark.sql.Another.method"))
    assert present() == before
    factory = type(spark._jvm.org.apache.spark.api.python.PythonWorkerFactory).__name__
    assert factory == "JavaClass", "Spark has no class of this name"
    renew_after(RuntimeError("\tat org.apache.spark.api.python.PythonWorkerFactory.createThroughDaemon"))
    after = present()
    assert after != before
    assert present() == after


def test_assumption_memory_stream(spark: Any) -> None:
    """There would be nothing under the plan that keeps the tasks of sources running."""
    stream = empty_stream(spark, 3)
    assert stream.isStreaming
    assert stream.columns == ["value"]


def test_assumption_real_time_batch(spark: Any, tmp_path: Any) -> None:
    """Stages would run one after the other: the second one would never see a record of a job that does not end."""
    marker = tmp_path / "arrived"

    def send(batches: Any) -> Any:
        yield to_batch([(0, b"1"), (0, b"")])
        yield from batches

    def receive(batches: Any) -> Any:
        for _ in batches:
            marker.touch()
            yield from ()

    query = start_query(spark, (1, 1), [send, receive])
    try:
        wait_until(lambda: marker.exists() or not query.is_active, "no row has come to the second stage", 60)
        assert query.failure() is None
        assert marker.exists()
        assert query.is_active, "the batch has not ended"
    finally:
        query.stop()
    assert not query.is_active


@pytest.mark.timeout(60)
def test_assumption_row_leaves_at_once(spark: Any, tmp_path: Any) -> None:
    """Each of these rows would wait for a second: minutes in all. A twentieth of them may wait."""
    rows, exchange_s_max = 300, 15
    arrived, all_arrived = tmp_path / "arrived", tmp_path / "all"
    arrived.write_text("")

    def send(batches: Any) -> Any:
        begun_s = time.monotonic()
        for number in range(rows):
            # Whoever reads has a row only once there is another one behind it.
            yield to_batch([(0, b"%d" % number), (0, b"")])
            while arrived.stat().st_size <= number:
                time.sleep(0.001)
                if number == 0:
                    # The time that the stages take to start is not the rows'.
                    begun_s = time.monotonic()
                assert time.monotonic() - begun_s < exchange_s_max, f"{number} of {rows} rows have arrived"
        yield from batches

    def receive(batches: Any) -> Any:
        for batch in batches:
            with arrived.open("a") as file:
                file.write("." * sum(1 for row in buffers_of(batch) if row))
            if arrived.stat().st_size >= rows:
                all_arrived.touch()
            yield from ()

    query = start_query(spark, (1, 1), [send, receive])
    try:
        wait_until(lambda: all_arrived.exists() or not query.is_active, "rows wait for a time, or for others", 50)
        assert query.failure() is None
        assert all_arrived.exists()
    finally:
        query.stop()


def test_assumption_text_of_a_lost_worker(spark: Any) -> None:
    """The user would read Spark's stack instead of the sentence that a worker was killed."""

    def die(batches: Any) -> Any:
        import os
        import signal

        yield to_batch([(0, b"")])
        os.kill(os.getpid(), signal.SIGKILL)

    query = start_query(spark, (1,), [die])
    try:
        wait_until(lambda: not query.is_active, "the query outlives its worker", 60)
        failure = query.failure()
        assert failure is not None
        assert type(from_spark(failure, show_stack=False)).__name__ == "TaskLostError"
    finally:
        query.stop()


def test_assumption_stack_of_exception(spark: Any) -> None:
    """`penstock.errors.show-spark-stack` would show nothing of Spark."""
    with pytest.raises(Exception) as caught:
        spark.sql("select no_such_column").collect()
    assert "\tat org.apache.spark." in java_stack_of(caught.value)
    assert java_stack_of(ValueError("plain")) == "plain"


def test_assumption_gateway(spark: Any) -> None:
    """No archive of Spark's classes would be made, and each start would take a third longer."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    assert gateway is not None
    assert is_alive(spark)
    assert callable(gateway.shutdown)
    assert gateway.proc.poll() is None
    assert not gateway.proc.stdin.closed
