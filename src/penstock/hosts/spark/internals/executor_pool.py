"""The executors of a session: which there are, how many are asked for, and which are given back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class ExecutorPool:
    """By methods of Spark's that are public in Scala, or within Spark: PySpark has none for this."""

    def __init__(self, session: SparkSession) -> None:
        context: Any = session.sparkContext
        self._context: Any = context._jsc.sc()
        self._jvm: Any = context._jvm
        conf = context.getConf()
        self.slots_each = int(conf.get("spark.executor.cores")) // int(conf.get("spark.task.cpus", "1"))
        """Of one executor."""
        idle = conf.get("spark.dynamicAllocation.executorIdleTimeout", "60s")
        self.idle_s = float(self._jvm.org.apache.spark.network.util.JavaUtils.timeStringAsSec(idle))
        """Seconds for which one may be idle, by the setting that Spark's dynamic allocation has for it."""

    def idle(self) -> dict[str, bool]:
        """By id of each that has registered, and was not given back: whether it runs no task."""
        backend, scheduler = self._context.schedulerBackend(), self._context.taskScheduler()
        ids = backend.getExecutorIds().mkString(" ").split()
        return {id: not scheduler.isExecutorBusy(id) for id in ids if backend.isExecutorActive(id)}

    def ask(self, count: int) -> bool:
        """Ask Spark's master for so many in all. Those that there are beyond that stay. False: it was not reached."""
        return bool(self._context.requestTotalExecutors(count, 0, self._jvm.PythonUtils.toScalaMap({})))

    def give_back(self, ids: Sequence[str]) -> None:
        """End these, except those that run a task by now."""
        adjusts_target = counts_failures = force = False
        self._context.schedulerBackend().killExecutors(
            self._jvm.PythonUtils.toSeq(list(ids)), adjusts_target, counts_failures, force
        )
