"""Settings of a session under which files have the values of a frame as they are, whatever else it is set to."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EXACT = {
    # In milliseconds it would cut what is below them.
    "spark.sql.parquet.outputTimestampType": "INT96",
    # LEGACY writes days before 1582 in another calendar, which only Spark knows of when it reads the file.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    # Columns that differ by case only are two for a row.
    "spark.sql.caseSensitive": "true",
    # Off by default, though frames with such columns can be made.
    "spark.sql.timeType.enabled": "true",
}
_lock = threading.Lock()
_inside = 0
"""How many threads need the settings now."""
_before: list[tuple[SparkSession, dict[str, str | None]]] = []
"""What was set when each of them came, in their order. Two objects may be one session."""


def make_exact(session: SparkSession) -> None:
    """Have the session write files exactly from now on: for one that nobody else uses, as that of a query."""
    for key, value in _EXACT.items():
        session.conf.set(key, value)


@contextlib.contextmanager
def exact_files(session: SparkSession) -> Iterator[None]:
    """Have the session write and read files exactly, as long as this lasts; several threads may, at the same time."""
    _enter(session)
    try:
        yield
    finally:
        _leave()


def _enter(session: SparkSession) -> None:
    global _inside
    with _lock:
        known = {key: session.conf.get(key, None) for key in _EXACT}
        _inside += 1
        _before.append((session, known))
        make_exact(session)


def _leave() -> None:
    global _inside
    with _lock:
        _inside -= 1
        # The last one restores what the first one has found: others have found the settings of here.
        while not _inside and _before:
            session, known = _before.pop()
            # It may have ended meanwhile, which is said elsewhere.
            with contextlib.suppress(Exception):
                for key, value in known.items():
                    if value is None:
                        session.conf.unset(key)
                    else:
                        session.conf.set(key, value)
