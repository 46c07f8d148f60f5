"""Aggregates that a user has written, as `aggregate({...})` gets them: checked when they are declared."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from penstock.api.functions.array_aggregates import ArrayAggregateFunction
from penstock.common.functions.arity import accepts_arguments
from penstock.common.functions.field_aggregates import USER, FieldAggregate
from penstock.common.functions.result_kinds import check_declared_kind
from penstock.common.functions.user_aggregates import UserAggregate
from penstock.datastream.arguments import class_given


def with_users_aggregates(declared: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a user has declared, with those of an ArrayAggregateFunction as aggregates.

    Raises TypeError or ValueError for those that can't be used.
    """
    if not isinstance(declared, Mapping):
        raise TypeError(f'expected a dict of aggregates, e.g. {{"n": "count"}}, got {declared!r}')
    return {name: _aggregate(name, one) if _is_users(one) else one for name, one in declared.items()}


def check_may_merge(aggregates: tuple[FieldAggregate, ...]) -> None:
    """Raise TypeError for an aggregate without `merge`: windows that merge need it."""
    for one in aggregates:
        if one.function is not None and not _has_merge(one.function.function):
            where = f"{one.name!r}: {one.function.class_name}"
            raise TypeError(f"{where} lacks `merge`, which windows that merge need, such as sessions")


def _is_users(declared: Any) -> bool:
    function = declared[1] if isinstance(declared, tuple) and len(declared) == 2 else declared
    kind = function if isinstance(function, type) else type(function)
    return issubclass(kind, ArrayAggregateFunction)


def _aggregate(name: Any, declared: Any) -> FieldAggregate:
    if not isinstance(name, str):
        raise TypeError(f"the name of an aggregate must be a str, got {name!r}")
    fields, function = declared if isinstance(declared, tuple) else ((), declared)
    if isinstance(function, type):
        raise class_given(function)
    given = (fields,) if isinstance(fields, str) else fields
    if not (isinstance(given, tuple) and given and all(isinstance(field, str) for field in given)):
        raise TypeError(
            f"{name!r}: expected the fields that {type(function).__name__} reads, such as ('price', 'amount'), got "
            f"{fields!r}"
        )
    if len(set(given)) < len(given):
        raise ValueError(f"{name!r}: expected fields, each once, got {', '.join(given)}")
    aggregate = UserAggregate(name, given, function)
    _check_methods(name, function, given)
    return FieldAggregate(name, USER, family=str(aggregate), function=aggregate)


def _check_methods(name: str, function: ArrayAggregateFunction, fields: tuple[str, ...]) -> None:
    """Raise TypeError for methods that can't be called as they will be."""
    class_name = type(function).__name__
    arguments = {"add": ("accumulators", "slots", *fields), "get_result": ("accumulators",)}
    if _has_merge(function):
        arguments["merge"] = ("accumulators", "slots", "others")
    elif function.in_any_order:
        raise TypeError(f"{name!r}: {class_name}.in_any_order is True, which needs `merge`")
    for method, names in arguments.items():
        call = getattr(function, method)
        check_declared_kind(call, getattr(ArrayAggregateFunction, method), f"{class_name}.{method}")
        if not accepts_arguments(call, len(names)):
            called = f"{class_name}.{method} is called with {len(names)} arguments ({', '.join(names)})"
            raise TypeError(f"{name!r}: {called}, and takes {inspect.signature(call)}")


def _has_merge(function: ArrayAggregateFunction) -> bool:
    return type(function).merge is not ArrayAggregateFunction.merge
