"""Settings with which a session writes the exact values of a frame to files, whatever its other settings are."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

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
_lock = threading.Lock()
_users = 0
"""The number of threads that need the settings now."""
_previous: list[tuple[SparkSession, dict[str, str | None]]] = []
"""The settings that each of these threads found, in the order in which they came. Two objects may be one session."""


def make_exact(session: SparkSession) -> None:
    """Make the session write exact values from now on. For a session with one user, such as a query's session."""
    for key, value in _EXACT.items():
        session.conf.set(key, value)


@contextlib.contextmanager
def exact_files(session: SparkSession) -> Iterator[None]:
    """Make the session write and read exact values in the block. Several threads may do so at the same time."""
    _enter(session)
    try:
        yield
    finally:
        _leave()


def _enter(session: SparkSession) -> None:
    global _users
    with _lock:
        found = {key: session.conf.get(key, None) for key in _EXACT}
        _users += 1
        _previous.append((session, found))
        make_exact(session)


def _leave() -> None:
    global _users
    with _lock:
        _users -= 1
        # The last thread restores, at the end, the settings that the first one found: the others found exact ones.
        while not _users and _previous:
            session, found = _previous.pop()
            # If the session has ended in between, the block raises an error for that.
            with contextlib.suppress(Exception):
                for key, value in found.items():
                    if value is None:
                        session.conf.unset(key)
                    else:
                        session.conf.set(key, value)
