"""Which daemon an executor forks its Python workers from.

If one is killed while it starts, an executor may keep it without the address that it never told: each task that needs
a worker then fails, for as long as the executor lives (seen with 4.3.0: a NullPointerException in its factory of
workers). An executor keeps a factory for each environment that workers are to have.
"""

from __future__ import annotations

from typing import Any

_NUMBER = "PENSTOCK_PYTHON_DAEMON"
"""Environment variable of workers, which nothing reads."""
_FACTORY = "org.apache.spark.api.python.PythonWorkerFactory"


def renew_after(failure: BaseException) -> None:
    """Have the queries from now on find other daemons, if none could fork a worker: that is where it failed."""
    from pyspark import SparkContext

    context: Any = SparkContext._active_spark_context
    if context is not None and has_no_daemon(str(failure)):
        context.environment[_NUMBER] = str(int(context.environment.get(_NUMBER, "0")) + 1)


def has_no_daemon(text: str) -> bool:
    """Whether an exception of this text, with Spark's stack, comes from where executors fork workers."""
    return _FACTORY in text
