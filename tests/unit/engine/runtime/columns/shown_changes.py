"""Changelogs as texts, from chunks of rows and of columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.common.types import RowKind
from penstock.engine.runtime.columns.chunk import Columns


def shown_changes(chunk: Any, read: Callable[[Any], list[Any]]) -> list[str]:
    """Return the kind, the fields and the time of each row. `read`: returns the rows of a batch."""
    times, kinds = chunk.timestamps, None
    if isinstance(chunk, Columns):
        rows = read(chunk.batch)
        kinds = None if chunk.kinds is None else list(map(RowKind, chunk.kinds.tolist()))
        times = None if times is None else times.tolist()
    else:
        rows = chunk.values
    assert len(rows)
    shown = []
    for number, row in enumerate(rows):
        kind = row._row_kind if kinds is None else kinds[number]
        shown.append(repr((kind.name, tuple(row), None if times is None else times[number])))
    return shown
