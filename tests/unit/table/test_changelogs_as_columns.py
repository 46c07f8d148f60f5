"""Kinds of rows: which ones add and which ones retract, with and without an array of kinds."""

from __future__ import annotations

import numpy
import pyarrow
import pytest

from penstock.common.types import RowKind
from penstock.engine.runtime.columns.chunk import Columns
from penstock.table.operators.changelog import are_added, changes_of, kinds_of, signs_of

ROWS = pyarrow.record_batch([pyarrow.array([1, 2, 3, 4])], names=["n"])
SIGNS = {RowKind.INSERT: 1, RowKind.UPDATE_BEFORE: -1, RowKind.UPDATE_AFTER: 1, RowKind.DELETE: -1}


@pytest.mark.parametrize("kinds", [[*RowKind], [RowKind.INSERT] * 4])
def test_each_kind_adds_or_retracts(kinds: list[RowKind]) -> None:
    """A sum would grow by what was taken back. A chunk of insertions alone has no array of kinds."""
    chunk = changes_of(ROWS, numpy.array([kind.value for kind in kinds], numpy.uint8))
    assert (chunk.kinds is None) == (set(kinds) == {RowKind.INSERT})
    assert [RowKind(kind) for kind in kinds_of(chunk).tolist()] == kinds
    assert signs_of(chunk).tolist() == [SIGNS[kind] for kind in kinds]
    assert are_added(chunk).tolist() == [SIGNS[kind] > 0 for kind in kinds]


def test_rows_without_kinds_are_inserted() -> None:
    """Rows of a source that knows no changes would be left out."""
    assert signs_of(Columns(ROWS)).tolist() == [1] * 4
    assert set(kinds_of(Columns(ROWS)).tolist()) == {RowKind.INSERT.value}
