"""The executors of a session: list them, request more from Spark's master, and release idle ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class ExecutorPool:
    """List, request and release executors by methods of Scala classes, some of them private to Spark.

    PySpark has no such methods.
    """

    def __init__(self, session: SparkSession) -> None:
        context: Any = session.sparkContext
        self._context: Any = context._jsc.sc()
        self._jvm: Any = context._jvm
        conf = context.getConf()
        self.slots_each = int(conf.get("spark.executor.cores")) // int(conf.get("spark.task.cpus", "1"))
        """The number of slots of one executor."""
        idle = conf.get("spark.dynamicAllocation.executorIdleTimeout", "60s")
        self.idle_s = float(self._jvm.org.apache.spark.network.util.JavaUtils.timeStringAsSec(idle))
        """Seconds for which an executor may be idle, by the setting of Spark's dynamic allocation."""

    def idle(self) -> dict[str, bool]:
        """Return, by id of each registered executor that was not released, whether it is idle."""
        backend, scheduler = self._context.schedulerBackend(), self._context.taskScheduler()
        ids = backend.getExecutorIds().mkString(" ").split()
        return {id: not scheduler.isExecutorBusy(id) for id in ids if backend.isExecutorActive(id)}

    def request_total(self, count: int) -> bool:
        """Ask Spark's master for `count` executors in total. Running ones beyond that number stay.

        Returns False if the master was not reached.
        """
        return bool(self._context.requestTotalExecutors(count, 0, self._jvm.PythonUtils.toScalaMap({})))

    def release(self, ids: Sequence[str]) -> None:
        """End these executors, except those that run a task now."""
        adjusts_target = counts_failures = force = False
        self._context.schedulerBackend().killExecutors(
            self._jvm.PythonUtils.toSeq(list(ids)), adjusts_target, counts_failures, force
        )
