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
from penstock.engine.state.schema import TableSchema
from penstock.engine.state.tables import FrozenTable, Table

_PREFIX = "aggregates of "
_TEXT = r'"(?:[^"\\]|\\.)*"'
_ONE = re.compile(rf"({_TEXT}): (\w+)(?:\(({_TEXT})\))?(?: of ({_TEXT}))?")
_TYPES = {INTEGER: Types.LONG(), FLOAT: Types.DOUBLE()}


class AggregatesSchema(TableSchema):
    """The schema of a table of accumulators of `FieldAggregates`."""

    aggregates: tuple[FieldAggregate, ...]

    def __str__(self) -> str:
        return _PREFIX + ", ".join(map(_text_of, self.aggregates))


def aggregates_schema(aggregates: Sequence[FieldAggregate]) -> AggregatesSchema:
    """Return the schema of a table with these aggregates."""
    types = [_type_of(one) for one in aggregates]
    schema = AggregatesSchema("aggregates", _tuple_of(types) or Types.PICKLED_BYTE_ARRAY())
    schema.aggregates = tuple(aggregates)
    return schema


class EvolvedTable(Table):
    """A table into which the aggregates of another program are restored. `places`: of each aggregate there, or None."""

    def __init__(
        self, table: Table, places: Sequence[int | None], defaults: Sequence[Any], to_float: Sequence[bool]
    ) -> None:
        self._table = table
        self._places = places
        self._defaults = defaults
        self._to_float = to_float

    @property
    def is_namespaced(self) -> bool:
        return self._table.is_namespaced

    def restore(self, entry_keys: Iterable[Any], values: Iterable[Any]) -> None:
        if isinstance(values, ArrayValues) and values.columns is not None and None not in self._places:
            chosen = tuple(values.columns[place] for place in self._places if place is not None)
            if not any(self._to_float):
                self._table.restore(entry_keys, ArrayValues(chosen, len(values)))
                return
        self._table.restore(list(entry_keys), [None if value is None else self._evolved(value) for value in values])

    def _evolved(self, value: Sequence[Any]) -> tuple[Any, ...]:
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


def evolved_table(operator: str, table: Table, found: str, declared: AggregatesSchema) -> Table:
    """Return the table into which state with the schema `found` is restored: `table` if it is the same.

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
    if places == list(range(len(stored))) and not any(to_float):
        return table
    defaults = [0 if one.kind == COUNT else None for one in declared.aggregates]
    return EvolvedTable(table, places, defaults, to_float)


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
    for name, kind, field, family in _ONE.findall(text.removeprefix(_PREFIX)):
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
    return TupleTypeInfo(known) if len(known) == len(types) else None
