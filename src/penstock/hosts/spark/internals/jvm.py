"""The JVM behind a session, by attributes of PySpark that are not public."""

from __future__ import annotations

import contextlib
import logging
import subprocess
import warnings
from typing import TYPE_CHECKING, Any

from penstock.hosts.spark.internals.version import quiet_pandas

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EXIT_TIMEOUT_S = 10.0
_END_DELAY_MAX_S = 2.0
"""A killed process refuses connections up to this long before it has ended (seconds)."""
_log = logging.getLogger(__name__)


def is_alive(session: SparkSession) -> bool:
    """Return whether the session's context runs.

    False after `stop()` of this session or of another one with the same context, and if Spark itself has stopped it.
    """
    return session.sparkContext._jsc is not None and not was_stopped_by_spark(session)


def was_stopped_by_spark(session: SparkSession) -> bool:
    """Return whether Spark itself has stopped the context: its master was lost, or has removed the application.

    PySpark does not notice this, so `stop()` must still be called. False if the JVM does not answer.
    """
    context = session.sparkContext._jsc
    try:
        return context is not None and bool(context.sc().isStopped())
    except Exception:
        return False


def concurrent_tasks(session: SparkSession) -> int:
    """Return how many tasks can run concurrently on the registered executors. Raises what PySpark raises."""
    context: Any = session.sparkContext._jsc.sc()
    return int(context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile()))


def jvm_has_ended(within_s: float = 0) -> bool:
    """Return whether the JVM that this process has started for its context has ended (killed, out of memory).

    `within_s`: wait this long for its end (seconds). A large process that was killed exists for a while after it has
    stopped answering.
    """
    from pyspark import SparkContext

    # If the JVM has started this process (spark-submit), there is no `proc`, and this process ends with its JVM.
    process: Any = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return False
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def wait_for_jvm_end() -> bool:
    """Wait a moment for the end of the JVM, and return whether it has ended.

    For callers to whom the JVM did not answer, or who lost a worker: a JVM that was killed may still exist.
    """
    return jvm_has_ended(_END_DELAY_MAX_S)


def is_lost_connection(error: BaseException) -> bool:
    """Return whether a call into the JVM has failed because the JVM did not answer: it has ended, or is ending."""
    from py4j.protocol import Py4JError, Py4JNetworkError

    # Py4J raises its base class if it gets no answer, and derived classes for exceptions of Java.
    return isinstance(error, (ConnectionError, EOFError, Py4JNetworkError)) or type(error) is Py4JError


def jvm_runs() -> bool:
    """Return whether this process has a JVM, which the next session would use."""
    from pyspark import SparkContext

    return SparkContext._gateway is not None and not jvm_has_ended()


def forget_jvm() -> None:
    """Make the next session start a new JVM, after the old one has ended. PySpark's `stop` would call the old one."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context = SparkContext._active_spark_context
    if context is not None:
        with warnings.catch_warnings(), contextlib.suppress(Exception):
            warnings.simplefilter("ignore", RuntimeWarning)
            context.stop()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


def kill_jvm(wait: bool = True) -> None:
    """Kill the JVM that this process has started, if there is one. Its workers end with it. Raises nothing.

    `wait`: return after it has ended. Until then its threads may still write.
    """
    from pyspark import SparkContext

    process: Any = getattr(SparkContext._gateway, "proc", None)
    with contextlib.suppress(Exception):
        process.kill()
        if wait:
            process.wait(_EXIT_TIMEOUT_S)


def stop_and_kill_jvm(session: SparkSession) -> None:
    """Stop the session, which deletes its files, and kill its JVM before the JVM can write a class archive."""
    with contextlib.suppress(Exception):
        session.stop()
    kill_jvm()


def stop_and_end_jvm(session: SparkSession) -> None:
    """Stop the session, end its JVM, and wait until the JVM has written its class archive and exited.

    A KeyboardInterrupt kills the JVM, and is raised again.
    """
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    try:
        session.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
    except KeyboardInterrupt:
        gateway.proc.kill()
        gateway.proc.wait()
        raise


def adopt(process: Any) -> None:
    """Use `process`, an object with a method `wait`, for the JVM of this process, which another process has started."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    gateway.proc = process


class _Py4jLog:
    """Replace the module `logging` for Py4J: its lines go to penstock's logger, at level DEBUG."""

    def __init__(self) -> None:
        self.info = self.exception = _log.debug

    def __getattr__(self, name: str) -> Any:
        return getattr(logging, name)


def quiet_pyspark() -> None:
    """Log Py4J's lines about broken connections at level DEBUG, and filter the warning about pandas 3.

    Py4J writes them by functions of the module `logging`, which add a handler to a root logger without handlers.
    """
    from py4j import java_gateway

    quiet_pandas()
    module: Any = java_gateway
    module.logging = _Py4jLog()


def java_stack_of(error: BaseException) -> str:
    """Return the JVM's stack behind an exception of PySpark, or the text of an exception without one."""
    # The text of such an exception is the worker's traceback; PySpark keeps the JVM's stack separately.
    return getattr(error, "_stackTrace", None) or str(error)
