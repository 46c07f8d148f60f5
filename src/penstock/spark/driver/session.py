"""Spark sessions: one of our own with the right settings, or the user's, checked.

Several settings are fixed when the JVM starts. A session that the user brings must have them already; else it is
refused with what is missing, since with Spark's defaults a record takes seconds. Why each is needed stands beside it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.common.configuration import Configuration
from penstock.common.errors import ConfigurationError, NotEnoughSlotsError
from penstock.spark.driver import class_archive
from penstock.spark.driver.java import find_java, quiet_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIXED_AT_START = {
    # The JVM hands bytes to the Python worker once this much is there; the default holds 64 KiB back.
    "spark.buffer.size": "64",
    # Without it Nagle's algorithm and delayed ACKs between JVM and worker add some 40 ms a hop.
    "spark.python.unix.domain.socket.enabled": "true",
    # A reader thread that outlived its task would read the next task's input.
    "spark.python.worker.reuse": "false",
    # Flush the worker's output after each batch.
    "spark.python.udf.pipelined.enabled": "true",
    # How long the streaming shuffle holds a partly filled network buffer.
    "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "1",
    # Bytes in flight. The defaults, 32 MiB and up, queue seconds of records before back pressure reaches a source.
    "spark.shuffle.streaming.readerMaxMemory": "262144",
    "spark.shuffle.streaming.writerMaxMemory": "262144",
}
PER_QUERY = {
    # Python operators are not on Spark's list for real-time mode; they run all the same.
    "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
    # One Arrow batch per row, so that no buffer waits for the next one to fill a batch.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    # Adaptive execution would change the number of partitions, which are our slots.
    "spark.sql.adaptive.enabled": "false",
}
PER_BATCH_JOB = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
    "spark.sql.adaptive.enabled": "false",
}
_OWN = {
    # Workers are forked from a process that has imported what they need.
    "spark.python.daemon.module": "penstock.spark.worker.daemon",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "4g",
    "spark.speculation": "false",
    "spark.dynamicAllocation.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
_LOCAL_SLOTS_LEAST = 64
_TASK_TRIES = 4
_own: SparkSession | None = None


def session_for(slots: int, pipelined: bool, configuration: Configuration, given: SparkSession | None) -> SparkSession:
    """A session with at least `slots` slots: `given`, a running one, or one of our own.

    Raises ConfigurationError if a running session lacks a setting it needs, NotEnoughSlotsError if it is too small.
    """
    from pyspark.sql import SparkSession

    settings = {k: v for k, v in configuration.to_dict().items() if k.startswith("spark.")}
    running = given or SparkSession.getActiveSession()
    if running is not None and running is _own and _is_alive(running):
        if _slots_of(running) >= slots and _has(running, settings):
            return running
        running.stop()
        running = None
    if running is None or not _is_alive(running):
        running = _start(slots, settings)
    elif pipelined:
        _check_settings(running)
    _check_slots(running, slots)
    return running


def stop_own_session() -> None:
    """Stop the session that was started here, if any."""
    global _own
    if _own is not None:
        _own.stop()
        _own = None


def _start(slots: int, settings: dict[str, str]) -> SparkSession:
    global _own
    from pyspark.sql import SparkSession

    found = find_java(os.environ)
    java = quiet_home(found, os.environ)
    # Workers run this very Python, or they would take the first python3 on PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    logging = Path(__file__).with_name("log4j2.properties")
    java_options = f"-Dlog4j2.configurationFile=file:{logging} {class_archive.java_options(found, os.environ)}"
    settings = {"spark.driver.extraJavaOptions": java_options, **settings}
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # With a number of tries, as on a cluster: in batched mode Spark runs a lost task again.
    local = f"local[{max(slots, _LOCAL_SLOTS_LEAST)},{_TASK_TRIES}]"
    merged = {"spark.master": local, "spark.app.name": "penstock", **_OWN, **FIXED_AT_START, **PER_QUERY, **settings}
    if not merged["spark.master"].startswith("local"):
        for key in ("spark.driver.host", "spark.driver.bindAddress"):
            if key not in settings:
                del merged[key]
    builder = SparkSession.builder
    for key, value in merged.items():
        builder = builder.config(key, value)
    with _environment("JAVA_HOME", str(java)):
        _own = builder.getOrCreate()
    return _own


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _is_alive(session: SparkSession) -> bool:
    return session.sparkContext._jsc is not None


def _has(session: SparkSession, settings: dict[str, str]) -> bool:
    conf = session.sparkContext.getConf()
    return all(conf.get(key) == value for key, value in settings.items())


def _check_settings(session: SparkSession) -> None:
    conf = session.sparkContext.getConf()
    wrong = {key: value for key, value in FIXED_AT_START.items() if conf.get(key, "").lower() != value}
    for key in ("spark.speculation", "spark.dynamicAllocation.enabled"):
        if conf.get(key, "false") != "false":
            wrong[key] = "false"
    if wrong:
        lines = "\n".join(f"  {key}={value}" for key, value in wrong.items())
        raise ConfigurationError(
            "the running SparkSession lacks settings that are fixed when it starts; a pipelined job would take seconds "
            f"per record. Start it with these, or let penstock start one, or run the job in BATCH mode:\n{lines}"
        )


def _slots_of(session: SparkSession) -> int:
    """How many tasks can run at once."""
    master = str(session.sparkContext.master)
    if master.startswith("local["):
        return session.sparkContext.defaultParallelism
    if master.startswith("local-cluster["):
        workers, cores, _ = master[len("local-cluster[") : -1].split(",")
        return int(workers) * int(cores)
    most = session.sparkContext.getConf().get("spark.cores.max")
    return max(session.sparkContext.defaultParallelism, int(most or 0))


def _check_slots(session: SparkSession, slots: int) -> None:
    available = _slots_of(session)
    if available < slots:
        raise NotEnoughSlotsError(
            f"this job needs {slots} slots at once, Spark's {session.sparkContext.master} has {available}.\n"
            f"  Do one of: a lower parallelism (env.set_parallelism, penstock run -p) · spark.master: local[{slots}] · "
            "execution.runtime-mode: BATCH (if all sources are bounded)"
        )


def session_is_local(session: SparkSession) -> bool:
    """Whether all executors are on this machine."""
    return str(session.sparkContext.master).startswith("local")


def control_host(session: SparkSession) -> str:
    """The address that the control port binds to: loopback on a local master, else the one that executors know."""
    if session_is_local(session):
        return "127.0.0.1"
    return str(session.sparkContext.getConf().get("spark.driver.host", "127.0.0.1"))
