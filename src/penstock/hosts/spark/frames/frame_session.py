"""The session of Spark in which DataFrames are made that jobs read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.common.configuration import Configuration, options
from penstock.common.configuration.choices import RuntimeExecutionMode
from penstock.hosts.spark.driver import session as sessions
from penstock.hosts.spark.driver.held_slots import HELD
from penstock.hosts.spark.internals.jvm import is_alive

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LEVELS = 4
"""Of a job, at most, for which a new session has slots: one that is too small is replaced, and its frames are gone."""


def session_for_frames(configuration: Configuration, given: SparkSession | None, slots: int | None) -> SparkSession:
    """The session that runs, or a new one with `slots` slots; None: with as many as most jobs need.

    Raises what `session_for` raises.
    """
    from pyspark.sql import SparkSession

    pipelined = configuration.get(options.RUNTIME_MODE) is not RuntimeExecutionMode.BATCH
    wanted = configuration.get(options.PARALLELISM) * _LEVELS if slots is None else slots
    with HELD.lock:
        running = given or SparkSession.getActiveSession()
        there = running is not None and is_alive(running)
        return sessions.session_for(1 if there and slots is None else wanted, pipelined, configuration, given)


def users_session_of(frame: DataFrame) -> SparkSession | None:
    """The session of a frame, if it is one of the user's: penstock may replace its own."""
    session, own = frame.sparkSession, sessions.own_session
    return None if own is not None and own.sparkContext is session.sparkContext else session
