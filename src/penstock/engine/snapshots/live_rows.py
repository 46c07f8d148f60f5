"""Rows of keyed state as tasks have sent them, read where the state's classes may be missing."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

from penstock.engine.runtime.task.opaque import Opaque
from penstock.engine.snapshots.missing_classes import classes_found
from penstock.engine.state.gained_fields import StateUnpickler


def rows_of(entries: Iterable[Opaque]) -> list[tuple[Any, ...]]:
    """All rows. Objects of classes that can't be imported are MissingObjects. Raises what unpickling raises."""
    with classes_found(allow_missing=True):
        return [row for entry in entries for row in StateUnpickler(io.BytesIO(entry.to_bytes())).load_complete()]
