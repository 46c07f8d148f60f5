"""Durable rows of one operator as those that another one is restored with."""

from __future__ import annotations

from tests.unit.engine.state.test_keyed_rows import stored

from penstock.engine.state.arrays.stored_columns import unpacked
from penstock.table.operators.keyed.durable_rows import DurableRows


def move(former: DurableRows, to: DurableRows) -> None:
    """Restore `to`, before it is loaded, with what `former` has."""
    if to.behind is None or former.behind is None:
        for _, (piece,) in stored(former.rows.freeze(full=True)):
            to.rows.restore(*unpacked(piece))
    else:
        for place, value in former.behind.items():
            to.behind.put(place, value)
