"""Spark's plan of a DataFrame, which PySpark does not show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CHOOSERS = frozenset({"GlobalLimit", "LocalLimit", "Offset", "Sample", "Tail"})
"""Spark's operators whose rows depend on the order in which they arrive."""


def is_one_session(session: SparkSession, other: SparkSession) -> bool:
    """Return whether two objects are one session: PySpark may have several of one."""
    return session is other or bool(session._jsparkSession.equals(other._jsparkSession))


def is_deterministic(frame: DataFrame) -> bool:
    """Return whether a DataFrame has the same rows when it is computed again.

    It has others with `rand()` and `current_timestamp()`, and where the order in which rows arrive chooses some:
    `limit`, `sample`, `dropDuplicates` by some columns.
    """
    query: Any = frame._jdf.queryExecution()
    plan = query.analyzed()
    jvm: Any = frame.sparkSession._jvm
    reads_time = plan.containsPattern(jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE())
    return bool(plan.deterministic()) and not reads_time and not _chooses_rows(plan)


def _chooses_rows(plan: Any) -> bool:
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        name = node.nodeName()
        if name in _CHOOSERS or (name == "Deduplicate" and node.keys().size() < node.output().size()):
            return True
        children = node.children()
        waiting += [children.apply(index) for index in range(children.size())]
    return False
