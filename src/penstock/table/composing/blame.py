"""Finds the call of the program to which an error of the planner belongs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from penstock.table.composing.relation import Relation
from penstock.table.planner.errors import SqlError


def blamed(error: SqlError, relations: Sequence[Relation], plan: Callable[[str], Any]) -> SqlError:
    """Return the error of the innermost relation that can't be planned, with the place of its call; or `error`."""
    for relation in relations:
        for one in _innermost_first(relation, set()):
            try:
                plan(one.sql())
            except SqlError as found:
                return SqlError(f"{found}\n   {one.call}, called in {one.place}")
    return error


def _innermost_first(relation: Relation, seen: set[int]) -> Iterator[Relation]:
    if id(relation) in seen:
        return
    seen.add(id(relation))
    for one in relation.inputs:
        yield from _innermost_first(one, seen)
    yield relation
