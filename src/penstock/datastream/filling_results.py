"""Receives the records of a CacheOperator, for a cached stream or an exchange between jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.engine.jobmaster.results.result_sinks import ResultSink

Parts = list[list[tuple[Any, int | None]]]
"""The records of each subtask, with their timestamps (ms, or None)."""


class FillingResults(ResultSink):
    """Collects the records of a CacheOperator, and calls `fill` with them when the job has succeeded."""

    exactly_once = True

    def __init__(self, fill: Callable[[Parts], None]) -> None:
        self._fill = fill
        self._parts: dict[int, list[tuple[Any, int | None]]] = {}

    def accept(self, subtask: int, values: list[Any]) -> None:
        """Keep records of a subtask."""
        self._parts.setdefault(subtask, []).extend(values)

    def restarted(self) -> None:
        """Forget the records: the job begins again."""
        self._parts.clear()

    def succeeded(self) -> None:
        """Fill with the records."""
        self._fill([self._parts[subtask] for subtask in sorted(self._parts)])
