"""Which aggregates of fields a table holds, by name, so that a program may restore it with others.

An aggregate that the snapshot does not have begins without a value; one that the program does not have is dropped; one
of integers may become one of floats. Anything else is refused. Source: Flink docs, "State Schema Evolution".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from penstock.common.errors import CheckpointError
from penstock.common.functions.field_aggregates import AVG, COUNT, FLOAT, INTEGER, FieldAggregate
from penstock.common.typeinfo import TypeInformation, Types
from penstock.common.types.composite_types import TupleTypeInfo
from penstock.engine.state.arrays.stored_columns import ArrayValues
from penstock.engine.state.schema import TIMED, TableSchema
from penstock.engine.state.tables import FrozenTable, Table

_PREFIX, _TIMED_PREFIX = "aggregates of ", f"aggregates {TIMED} of "
_TEXT = r'"(?:[^"\\]|\\.)*"'
_ONE = re.compile(rf"({_TEXT}): (\w+)(?:\(({_TEXT})\))?(?: of ({_TEXT}))?")
_TYPES = {INTEGER: Types.LONG(), FLOAT: Types.DOUBLE()}


class AggregatesSchema(TableSchema):
    """The schema of a table of accumulators of `FieldAggregates`."""

    aggregates: tuple[FieldAggregate, ...]
    is_timed = False
    """Whether values are pairs (time of the last use in ms, accumulator)."""

    def __str__(self) -> str:
        return (_TIMED_PREFIX if self.is_timed else _PREFIX) + ", ".join(map(_text_of, self.aggregates))


def aggregates_schema(aggregates: Sequence[FieldAggregate], is_timed: bool = False) -> AggregatesSchema:
    """Return the schema of a table with these aggregates. `is_timed`: keys expire."""
    accumulator = _tuple_of([_type_of(one) for one in aggregates]) or Types.PICKLED_BYTE_ARRAY()
    schema = AggregatesSchema("aggregates", TupleTypeInfo([Types.LONG(), accumulator]) if is_timed else accumulator)
    schema.aggregates = tuple(aggregates)
    schema.is_timed = is_timed
    return schema


class EvolvedTable(Table):
    """A table into which the aggregates of another program are restored. `places`: of each aggregate there, or None.

    `had_times`: whether values there have a time of last use. `used_ms`: the time for those that get one; None: they
    get no time here.
    """

    def __init__(
        self,
        table: Table,
        places: Sequence[int | None],
        *,
        defaults: Sequence[Any],
        to_float: Sequence[bool],
        had_times: bool,
        used_ms: int | None,
    ) -> None:
        self._table = table
        self._places = places
        self._defaults = defaults
        self._to_float = to_float
        self._had_times = had_times
        self._used_ms = used_ms

    @property
    def is_namespaced(self) -> bool:
        return self._table.is_namespaced

    def restore(self, entry_keys: Iterable[Any], values: Iterable[Any]) -> None:
        if isinstance(values, ArrayValues) and values.columns is not None and self._takes_columns:
            chosen = tuple(values.columns[place] for place in self._places if place is not None)
            self._table.restore(entry_keys, ArrayValues(chosen, len(values)))
            return
        self._table.restore(list(entry_keys), [None if value is None else self._evolved(value) for value in values])

    @property
    def _takes_columns(self) -> bool:
        has_times = self._had_times or self._used_ms is not None
        return None not in self._places and not any(self._to_float) and not has_times

    def _evolved(self, value: Sequence[Any]) -> tuple[Any, ...]:
        used_ms, value = value if self._had_times else (self._used_ms, value)
        evolved = self._with_places(value)
        return evolved if self._used_ms is None else (used_ms, evolved)

    def _with_places(self, value: Sequence[Any]) -> tuple[Any, ...]:
        parts = zip(self._places, self._defaults, self._to_float, strict=True)
        return tuple(
            default if place is None else _as_float(value[place]) if to_float else value[place]
            for place, default, to_float in parts
        )

    def freeze(self, full: bool) -> FrozenTable:
        return self._table.freeze(full)

    def clear(self) -> None:
        self._table.clear()

    def __bool__(self) -> bool:
        return bool(self._table)


def evolved_table(operator: str, table: Table, found: str, declared: AggregatesSchema, *, now_ms: int) -> Table:
    """Return the table into which state with the schema `found` is restored: `table` if it is the same.

    Keys that have no time of last use, and get one, have been used at `now_ms`.

    Raises CheckpointError if the state can't be read as it is declared.
    """
    if not found or found == str(declared):
        return table
    stored = {one.name: (place, one) for place, one in enumerate(_parsed(found))}
    places: list[int | None] = []
    to_float = []
    for one in declared.aggregates:
        place, former = stored.get(one.name, (None, one))
        if not _is_readable(former, one):
            raise CheckpointError(
                f"operator '{operator}': the aggregate '{one.name}' was written as {_text_of(former)}, the program "
                f"declares it as {_text_of(one)}. Written: {found}. Declared: {declared}. Give the new aggregate "
                "another name"
            )
        places.append(place)
        to_float.append(former.family == INTEGER and one.family == FLOAT)
    had_times = found.startswith(_TIMED_PREFIX)
    if places == list(range(len(stored))) and not any(to_float) and had_times == declared.is_timed:
        return table
    return EvolvedTable(
        table,
        places,
        defaults=[0 if one.kind == COUNT else None for one in declared.aggregates],
        to_float=to_float,
        had_times=had_times,
        used_ms=now_ms if declared.is_timed else None,
    )


def _is_readable(former: FieldAggregate, now: FieldAggregate) -> bool:
    if (former.kind, former.field) != (now.kind, now.field):
        return False
    if former.kind == COUNT or former.family == now.family or not former.family or not now.family:
        return True
    return former.family == INTEGER and now.family == FLOAT


def _as_float(value: Any) -> Any:
    if isinstance(value, tuple):
        return float(value[0]), value[1]
    return None if value is None else float(value)


def _text_of(one: FieldAggregate) -> str:
    of_field = "" if one.field is None else f"({json.dumps(one.field)})"
    family = f" of {json.dumps(one.family)}" if one.family else ""
    return f"{json.dumps(one.name)}: {one.kind}{of_field}{family}"


def _parsed(text: str) -> list[FieldAggregate]:
    found = []
    for name, kind, field, family in _ONE.findall(text.removeprefix(_TIMED_PREFIX).removeprefix(_PREFIX)):
        found.append(
            FieldAggregate(
                json.loads(name), kind, json.loads(field) if field else None, json.loads(family) if family else ""
            )
        )
    return found


def _type_of(one: FieldAggregate) -> TypeInformation | None:
    if one.kind == COUNT:
        return Types.LONG()
    kind = _TYPES.get(one.family)
    return TupleTypeInfo([kind, Types.LONG()]) if kind is not None and one.kind == AVG else kind


def _tuple_of(types: Sequence[TypeInformation | None]) -> TypeInformation | None:
    known = [one for one in types if one is not None]
    # Parquet has no tuple of nothing.
    return TupleTypeInfo(known) if known and len(known) == len(types) else None
