"""What PySpark knows of the JVM behind a session, by attributes that are not public."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_alive(session: SparkSession) -> bool:
    """Whether the session's context runs: False after `stop()`, of this session or of another one with its context."""
    return session.sparkContext._jsc is not None


def stop_and_end_jvm(session: SparkSession) -> None:
    """Stop the session, end its JVM and wait for that: the JVM writes its class archive when it exits."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


def java_stack_of(error: BaseException) -> str:
    """The JVM's stack behind an exception of PySpark, or the text of the exception if it has none."""
    # The text of such an exception is the worker's traceback; PySpark holds the JVM's part beside it.
    return getattr(error, "_stackTrace", None) or str(error)
