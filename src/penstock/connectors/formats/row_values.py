"""Combines the fields of a record into one value: a dict or a Row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from penstock.common.typeinfo import ExternalTypeInfo, RowTypeInfo, TypeInformation
from penstock.common.types import row_factory


def row_type_of(type_info: TypeInformation | None, method: str) -> RowTypeInfo:
    """The type of rows that was given to a builder. Raises TypeError, which names its method, for another one."""
    if isinstance(type_info, ExternalTypeInfo):
        type_info = type_info._type_info
    if not isinstance(type_info, RowTypeInfo):
        raise TypeError(f"set the type of the rows by {method}(Types.ROW_NAMED(names, types)), got {type_info!r}")
    return type_info


def row_maker(names: Sequence[str], as_row: bool) -> Callable[[Sequence[Any]], Any]:
    """Return a function from field values, in the order of `names`, to a dict (or a Row)."""
    return row_factory(names) if as_row else _dict_maker(names)


def values_getter(names: Sequence[str]) -> Callable[[Any], Sequence[Any]]:
    """Return a function from a dict to the values of these keys, in order: one call for all of them."""
    if len(names) < 2:
        return lambda record: [record[name] for name in names]
    return itemgetter(*names)


def _dict_maker(names: Sequence[str]) -> Callable[[Sequence[Any]], dict[str, Any]]:
    """Compiled for these names: a third of the time of `dict(zip(names, values))`, which was most of a record's."""
    variables = [f"value{index}" for index in range(len(names))]
    # Names may be of a class that writes itself otherwise, as NumPy's texts do.
    items = ", ".join(f"{str.__repr__(name)}: {variable}" for name, variable in zip(names, variables, strict=True))
    scope: dict[str, Any] = {}
    exec(f"def make(values):\n    [{', '.join(variables)}] = values\n    return {{{items}}}", scope)
    make: Callable[[Sequence[Any]], dict[str, Any]] = scope["make"]
    return make
