"""What PySpark knows of the JVM behind a session, by attributes that are not public."""

from __future__ import annotations

import contextlib
import logging
import subprocess
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_END_SECONDS = 10.0
_KILLED_S = 2.0
"""A process that is killed refuses connections for a moment before it is gone."""
_log = logging.getLogger(__name__)


def is_alive(session: SparkSession) -> bool:
    """Whether the session's context runs.

    False after `stop()`, of this session or of another one with its context, and if Spark has stopped it itself.
    """
    return session.sparkContext._jsc is not None and not was_stopped_by_spark(session)


def was_stopped_by_spark(session: SparkSession) -> bool:
    """Whether Spark itself has stopped the context, as it does if its master stays away or removes the application.

    PySpark does not notice: its `stop()` is still to be called. False if the JVM does not answer.
    """
    context = session.sparkContext._jsc
    try:
        return context is not None and bool(context.sc().isStopped())
    except Exception:
        return False


def concurrent_tasks(session: SparkSession) -> int:
    """How many tasks can run at once on the executors that have registered. Raises what PySpark raises."""
    context: Any = session.sparkContext._jsc.sc()
    return int(context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile()))


def jvm_has_ended(within_s: float = 0) -> bool:
    """Whether the JVM that this process has started for its context is gone (killed, out of memory).

    `within_s`: seconds that it may take, as a large process that is killed does not answer any more, and still exists.
    """
    from pyspark import SparkContext

    # Where the JVM has started this process (spark-submit), there is no `proc`; it ends with its JVM.
    process: Any = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return False
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def jvm_ends() -> bool:
    """Whether the JVM is gone, or goes within a moment. Ask when it does not answer, or its workers went away."""
    return jvm_has_ended(_KILLED_S)


def is_lost_connection(error: BaseException) -> bool:
    """Whether a call into the JVM has failed because nothing answers there: it has ended, or is about to."""
    from py4j.protocol import Py4JError, Py4JNetworkError

    # Py4J raises its base class where it has no answer at all, and others for what Java has raised.
    return isinstance(error, (ConnectionError, EOFError, Py4JNetworkError)) or type(error) is Py4JError


def jvm_runs() -> bool:
    """Whether this process has a JVM, which the next session would use."""
    from pyspark import SparkContext

    return SparkContext._gateway is not None and not jvm_has_ended()


def forget_jvm() -> None:
    """Let the next session have a new JVM; the old one has ended. PySpark's own `stop` would ask it, and fail."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context = SparkContext._active_spark_context
    if context is not None:
        with warnings.catch_warnings(), contextlib.suppress(Exception):
            warnings.simplefilter("ignore", RuntimeWarning)
            context.stop()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


def kill_jvm(waits: bool = True) -> None:
    """Kill the JVM that this process has started, if there is one. Its workers end by themselves. Raises nothing.

    `waits`: until it has ended, as its threads may still write.
    """
    from pyspark import SparkContext

    process: Any = getattr(SparkContext._gateway, "proc", None)
    with contextlib.suppress(Exception):
        process.kill()
        if waits:
            process.wait(_END_SECONDS)


def stop_and_kill_jvm(session: SparkSession) -> None:
    """Stop the session, by which its files are deleted, and kill its JVM before that can write an archive."""
    with contextlib.suppress(Exception):
        session.stop()
    kill_jvm()


def stop_and_end_jvm(session: SparkSession) -> None:
    """Stop the session, end its JVM and wait for that: the JVM writes its class archive when it exits.

    A KeyboardInterrupt kills it, and is raised.
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
    """Make `process`, by its `wait`, that of the JVM which this process uses and another one has started."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    gateway.proc = process


class _Py4jLog:
    """The module `logging` for Py4J: what it writes with is a logger of ours, at level DEBUG."""

    def __init__(self) -> None:
        self.info = self.exception = _log.debug

    def __getattr__(self, name: str) -> Any:
        return getattr(logging, name)


def quiet_py4j() -> None:
    """Keep Py4J's own lines about broken connections off the terminal: `logging` at level DEBUG has them.

    It writes them by the functions of the module `logging`, which set up a handler for all programs that have none.
    """
    from py4j import java_gateway

    of_py4j: Any = java_gateway
    of_py4j.logging = _Py4jLog()


def java_stack_of(error: BaseException) -> str:
    """The JVM's stack behind an exception of PySpark, or the text of the exception if it has none."""
    # The text of such an exception is the worker's traceback; PySpark holds the JVM's part beside it.
    return getattr(error, "_stackTrace", None) or str(error)
