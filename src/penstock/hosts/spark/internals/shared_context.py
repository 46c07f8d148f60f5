"""A Spark context that another process has made: its JVM, and a session in it, by attributes that are not public.

Each process has settings and Python workers of its own, since Spark keeps workers apart by their environment. The
context itself is the other process's: it is never stopped here.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.hosts.spark.internals.jvm import quiet_py4j

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class JvmAddress(msgspec.Struct, frozen=True):
    """Where Py4J finds a JVM. The secret is all that is needed to use it."""

    port: int
    secret: str
    pid: int

    @property
    def environment(self) -> dict[str, str]:
        """With these PySpark uses the JVM, and starts none."""
        return {"PYSPARK_GATEWAY_PORT": str(self.port), "PYSPARK_GATEWAY_SECRET": self.secret}


def address_of(session: SparkSession) -> JvmAddress:
    """Of the JVM that this process has started for a session."""
    gateway: Any = type(session.sparkContext)._gateway
    parameters = gateway.gateway_parameters
    return JvmAddress(parameters.port, parameters.auth_token, gateway.proc.pid)


def attach() -> SparkSession:
    """A new session of the context in the JVM that this process's environment names.

    Raises what PySpark raises if there is no such JVM, or no context in it.
    """
    from pyspark import SparkConf, SparkContext, java_gateway
    from pyspark.sql import SparkSession

    quiet_py4j()
    launch: Any = java_gateway.launch_gateway
    gateway: Any = launch()
    spark = gateway.jvm.org.apache.spark
    active = getattr(getattr(spark, "SparkContext$"), "MODULE$").getActive().get()
    of_java = spark.api.java.JavaSparkContext(active)
    context = SparkContext(gateway=gateway, jsc=of_java, conf=SparkConf(_jconf=active.conf()))
    session = SparkSession(context).newSession()
    # The one that the program finds, if it asks for one.
    SparkSession._instantiatedSession = SparkSession._activeSession = session
    return session


def cancel_tagged(session: SparkSession, tag: str) -> None:
    """Cancel all that runs in this context by jobs of Spark's with this tag. Raises nothing."""
    with contextlib.suppress(Exception):
        session.sparkContext.cancelJobsWithTag(tag)


def is_tagged(session: SparkSession, tag: str) -> bool:
    """Whether jobs of Spark's with this tag run. Raises what PySpark raises."""
    tracker: Any = session.sparkContext._jsc.sc().statusTracker()
    return not set(tracker.getActiveJobIds()).isdisjoint(tracker.getJobIdsForTag(tag))
