"""The kinds of records as an array, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from penstock.common.types import Row, RowKind
from penstock.engine.runtime.columns.chunk import Kinds

_KINDS = tuple(RowKind)


def kinds_of(records: Sequence[Any]) -> Kinds | None:
    """Return the kind of each record; None if all are INSERT."""
    if not any(issubclass(kind, Row) for kind in set(map(type, records))):
        return None
    kinds = [getattr(record, "_row_kind", RowKind.INSERT) for record in records]
    if kinds.count(RowKind.INSERT) == len(kinds):
        return None
    return numpy.array([kind.value for kind in kinds], numpy.uint8)


def set_kinds(rows: list[Row], kinds: Kinds) -> None:
    """Set the kind of each row."""
    for row, kind in zip(rows, kinds.tolist(), strict=True):
        row._row_kind = _KINDS[kind]
