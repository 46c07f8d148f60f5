"""Spark's plan of a DataFrame, which PySpark does not show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def is_one_session(session: SparkSession, other: SparkSession) -> bool:
    """Return whether two objects are one session: PySpark may have several of one."""
    return session is other or bool(session._jsparkSession.equals(other._jsparkSession))


def is_deterministic(frame: DataFrame) -> bool:
    """Return whether all expressions of a DataFrame have the same values when it is computed again: not `rand()`."""
    query: Any = frame._jdf.queryExecution()
    return bool(query.analyzed().deterministic())
