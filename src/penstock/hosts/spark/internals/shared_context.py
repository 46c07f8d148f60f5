"""Use a Spark context that another process has created, by attributes of PySpark that are not public.

Each process has its own settings, and its own Python workers, since Spark separates workers by their environment. The
context belongs to the other process, so this module never stops it.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.hosts.spark.internals.jvm import quiet_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class JvmAddress(msgspec.Struct, frozen=True):
    """The address of a JVM for Py4J. The secret gives access to the whole JVM."""

    port: int
    secret: str
    pid: int

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment variables with which PySpark connects to this JVM instead of starting one."""
        return {"PYSPARK_GATEWAY_PORT": str(self.port), "PYSPARK_GATEWAY_SECRET": self.secret}


def address_of(session: SparkSession) -> JvmAddress:
    """Return the address of the JVM that this process has started for a session."""
    gateway: Any = type(session.sparkContext)._gateway
    parameters = gateway.gateway_parameters
    return JvmAddress(parameters.port, parameters.auth_token, gateway.proc.pid)


def attach() -> SparkSession:
    """Return a new session of the context in the JVM that this process's environment names.

    Raises what PySpark raises if the JVM does not exist, or has no context.
    """
    from pyspark import SparkConf, SparkContext, java_gateway
    from pyspark.sql import SparkSession

    quiet_pyspark()
    launch: Any = java_gateway.launch_gateway
    gateway: Any = launch()
    spark = gateway.jvm.org.apache.spark
    active = getattr(getattr(spark, "SparkContext$"), "MODULE$").getActive().get()
    java_context = spark.api.java.JavaSparkContext(active)
    context = SparkContext(gateway=gateway, jsc=java_context, conf=SparkConf(_jconf=active.conf()))
    session = SparkSession(context).newSession()
    # `SparkSession.builder.getOrCreate()` in the program returns this session.
    SparkSession._instantiatedSession = SparkSession._activeSession = session
    return session


def cancel_tagged(session: SparkSession, tag: str) -> None:
    """Cancel all Spark jobs of this context that have this tag. Raises nothing."""
    with contextlib.suppress(Exception):
        session.sparkContext.cancelJobsWithTag(tag)


def is_tagged(session: SparkSession, tag: str) -> bool:
    """Return whether Spark jobs with this tag run. Raises what PySpark raises."""
    tracker: Any = session.sparkContext._jsc.sc().statusTracker()
    return not set(tracker.getActiveJobIds()).isdisjoint(tracker.getJobIdsForTag(tag))
