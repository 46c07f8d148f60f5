"""Spark's plan of a DataFrame, which PySpark does not show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def is_deterministic(frame: DataFrame) -> bool:
    """Return whether all expressions of a DataFrame have the same values when it is computed again: not `rand()`."""
    query: Any = frame._jdf.queryExecution()
    return bool(query.analyzed().deterministic())
