"""Settings with which a session writes the exact values of a frame to files, whatever its other settings are."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from penstock.hosts.spark.frames.held_settings import HeldSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EXACT = {
    # TIMESTAMP_MILLIS would cut microseconds off.
    "spark.sql.parquet.outputTimestampType": "INT96",
    # LEGACY writes dates before 1582 in another calendar, which only Spark takes into account when it reads the file.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    # A row can have two columns that differ only by case.
    "spark.sql.caseSensitive": "true",
    # False by default, though a frame can have columns of this type.
    "spark.sql.timeType.enabled": "true",
}
_settings = HeldSettings()


def make_exact(session: SparkSession) -> None:
    """Make the session write exact values from now on. For a session with one user, such as a query's session."""
    for key, value in _EXACT.items():
        session.conf.set(key, value)


def exact_files(session: SparkSession) -> AbstractContextManager[None]:
    """Make the session write and read exact values in the block. Several threads may do so at the same time."""
    return _settings.held(session, _EXACT)
