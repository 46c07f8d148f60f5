"""Combine the fields of a record into one value: a dict or a Row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from penstock.common.typeinfo import ExternalTypeInfo, RowTypeInfo, TypeInformation
from penstock.common.types import row_factory
from penstock.common.types.record_fields import dict_factory


def row_type_of(type_info: TypeInformation | None, method: str) -> RowTypeInfo:
    """Return the type of rows that a builder was given. Raise TypeError, which names its method, for another type."""
    if isinstance(type_info, ExternalTypeInfo):
        type_info = type_info._type_info
    if not isinstance(type_info, RowTypeInfo):
        raise TypeError(f"set the type of the rows by {method}(Types.ROW_NAMED(names, types)), got {type_info!r}")
    return type_info


def row_maker(names: Sequence[str], as_row: bool) -> Callable[[Sequence[Any]], Any]:
    """Return a function from field values, in the order of `names`, to a dict (or a Row)."""
    return row_factory(names) if as_row else dict_factory(names)


def values_getter(names: Sequence[str]) -> Callable[[Any], Sequence[Any]]:
    """Return a function from a dict to the values of these keys, in order: one call for all of them."""
    if len(names) < 2:
        return lambda record: [record[name] for name in names]
    return itemgetter(*names)
