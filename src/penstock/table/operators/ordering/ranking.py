"""Which rows a top N has."""

from __future__ import annotations

from typing import NamedTuple

from penstock.table.operators.ordering.sorting import SortColumn

APPEND, RETRACT, UPDATE = "append", "retract", "update"


class Ranking(NamedTuple):
    """`first` and `last`: the ranks that are kept, from 1 on. `strategy`: APPEND, RETRACT or UPDATE.

    `unique_key`: with UPDATE, the columns by which a row replaces another one.
    """

    order_by: tuple[SortColumn, ...]
    first: int
    last: int
    strategy: str
    with_number: bool
    update_before: bool
    unique_key: tuple[int, ...] = ()
