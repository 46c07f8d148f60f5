"""Derivation of types from Python type hints. Values whose hint leaves the type open are pickled."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import inspect
import types
import typing
from collections import abc
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from penstock.common.time import Instant
from penstock.common.types.basic_types import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    InstantTypeInfo,
    PickledBytesTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TypeInformation,
)
from penstock.common.types.composite_types import (
    BYTES,
    ListTypeInfo,
    MapTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
)

_PICKLED = PickledBytesTypeInfo()
_BY_CLASS: dict[Any, TypeInformation] = {
    int: BasicTypeInfo(BasicType.LONG),
    float: BasicTypeInfo(BasicType.DOUBLE),
    str: BasicTypeInfo(BasicType.STRING),
    bool: BasicTypeInfo(BasicType.BOOLEAN),
    bytes: BYTES,
    Decimal: BasicTypeInfo(BasicType.BIG_DEC),
    datetime.datetime: TimestampTypeInfo(),
    datetime.date: DateTypeInfo(),
    datetime.time: TimeTypeInfo(),
    Instant: InstantTypeInfo(),
}
_PRODUCERS = (
    abc.Generator, abc.Iterator, abc.Iterable, abc.Collection, abc.Sequence, list, tuple, set, frozenset,
)  # fmt: skip


def from_hint(hint: Any) -> TypeInformation:
    """Return the type that a hint describes, or PICKLED_BYTE_ARRAY. Raises no errors.

    `int` is LONG and `float` DOUBLE. `X | None` is X, because every type allows None. A dataclass or NamedTuple is a
    row of its fields, whose values are instances of that class. Tuples of open length, bare `list` and unions are
    pickled.
    """
    return _from_hint(hint, frozenset())


def _from_hint(hint: Any, inside: frozenset[Any]) -> TypeInformation:
    """`inside`: the record classes that enclose this hint; a recursive reference to one of them is pickled."""
    known = _BY_CLASS.get(hint) if isinstance(hint, type) else None
    if known is not None:
        return known
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _from_hint(arguments[0], inside)
    if isinstance(hint, typing.NewType):
        return _from_hint(hint.__supertype__, inside)
    if origin in (typing.Union, types.UnionType):
        members = [member for member in arguments if member is not type(None)]
        return _from_hint(members[0], inside) if len(members) == 1 else _PICKLED
    if origin is typing.Literal:
        classes = {type(value) for value in arguments}
        return _from_hint(classes.pop(), inside) if len(classes) == 1 else _PICKLED
    if origin in (list, dict, tuple) and arguments and Ellipsis not in arguments:
        inner = [_from_hint(argument, inside) for argument in arguments]
        if origin is tuple:
            return TupleTypeInfo(inner)
        return ListTypeInfo(*inner) if origin is list else MapTypeInfo(*inner)
    if isinstance(hint, type) and hint not in inside:
        return _from_record(hint, inside | {hint})
    return _PICKLED


def _from_record(record: type[Any], inside: frozenset[Any]) -> TypeInformation:
    if dataclasses.is_dataclass(record):
        names = [field.name for field in dataclasses.fields(record)]
    elif issubclass(record, tuple) and hasattr(record, "_fields"):
        names = list(record._fields)
    else:
        return _PICKLED
    try:
        if set(inspect.signature(record).parameters) != set(names):
            return _PICKLED  # Instances can't be created from their fields.
        hints = typing.get_type_hints(record, include_extras=True)
    except Exception:  # Hints are arbitrary expressions. One that can't be evaluated does not define a type.
        return _PICKLED
    return RowTypeInfo([_from_hint(hints.get(name), inside) for name in names], names, record_class=record)


def from_function(function: Callable[..., Any], elements: bool = False) -> TypeInformation | None:
    """Return the type of a function's result by its annotation, or None if there is no annotation or it is invalid.

    `elements`: return the type of the result's elements. A class counts as a function that returns its instances, so
    `str` gives STRING. Callable objects, methods and functools.partial are resolved to their function.
    """
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, type):
        known = from_hint(function)
        return None if known == _PICKLED else known
    if not inspect.isroutine(function):
        function = getattr(type(function), "__call__", function)  # noqa: B004 - the method is wanted, not the answer
    try:
        hint = typing.get_type_hints(function, include_extras=True).get("return")
    except Exception:  # As above.
        return None
    if hint is None or hint is type(None):
        return None
    return _of_elements(hint) if elements else from_hint(hint)


def _of_elements(hint: Any) -> TypeInformation | None:
    """Return the type of the elements of an iterable that a hint describes, or None."""
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        present = [argument for argument in arguments if argument is not type(None)]
        return _of_elements(present[0]) if len(present) == 1 else None
    if not arguments or typing.get_origin(hint) not in _PRODUCERS:
        return None
    if typing.get_origin(hint) is tuple and arguments[1:] != (Ellipsis,):
        # A tuple of a known length: its elements may be of several types.
        known = {str(from_hint(argument)) for argument in arguments}
        return from_hint(arguments[0]) if len(known) == 1 else None
    return from_hint(arguments[0])
