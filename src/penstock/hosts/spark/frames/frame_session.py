"""The Spark session for DataFrames that jobs read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.common.configuration import Configuration, options
from penstock.common.configuration.choices import RuntimeExecutionMode
from penstock.hosts.spark.driver import session as sessions
from penstock.hosts.spark.driver.held_slots import HELD_SLOTS
from penstock.hosts.spark.internals.jvm import is_alive

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LEVELS = 4
"""The number of levels of a job for which a new session has slots. penstock would replace a session that is too small,
and the frames of the replaced session would be lost."""


def session_for_frames(configuration: Configuration, given: SparkSession | None, slots: int | None) -> SparkSession:
    """Return the running session, or start one with `slots` slots; None: with as many as most jobs need.

    Raises what `session_for` raises.
    """
    from pyspark.sql import SparkSession

    pipelined = configuration.get(options.RUNTIME_MODE) is not RuntimeExecutionMode.BATCH
    needed_slots = configuration.get(options.PARALLELISM) * _LEVELS if slots is None else slots
    with HELD_SLOTS.lock:
        session = given or SparkSession.getActiveSession()
        is_running = session is not None and is_alive(session)
        return sessions.session_for(
            1 if is_running and slots is None else needed_slots, pipelined, configuration, given
        )


def users_session_of(frame: DataFrame) -> SparkSession | None:
    """Return the session of a frame if the user has started it, None if penstock has, and may replace it."""
    session, started = frame.sparkSession, sessions.started_session
    return None if started is not None and started.sparkContext is session.sparkContext else session
