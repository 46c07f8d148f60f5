"""Replace a daemon from which an executor cannot fork Python workers.

If a daemon is killed while it starts, the executor may keep it although the daemon has not sent its address. Each task
that needs a worker then fails, as long as the executor lives (seen with 4.3.0: a NullPointerException in its factory of
workers). An executor has a factory, with a daemon, for each environment of workers.
"""

from __future__ import annotations

from typing import Any

_NUMBER = "PENSTOCK_PYTHON_DAEMON"
"""An environment variable of workers. It is not read: it only makes environments differ."""
_FACTORY = "org.apache.spark.api.python.PythonWorkerFactory"


def renew_after(failure: BaseException) -> None:
    """Make later queries use other daemons, if the failure is that a daemon could not fork a worker."""
    from pyspark import SparkContext

    context: Any = SparkContext._active_spark_context
    if context is not None and has_no_daemon(str(failure)):
        context.environment[_NUMBER] = str(int(context.environment.get(_NUMBER, "0")) + 1)


def has_no_daemon(text: str) -> bool:
    """Return whether this text of an exception, with Spark's stack, comes from the code that forks workers."""
    return _FACTORY in text
