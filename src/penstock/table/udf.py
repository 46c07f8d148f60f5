"""Functions of the program that SQL and the Table API call.

Source: PyFlink, pyflink.table.udf; Flink docs, "User-defined Functions" of the Table API.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, overload

from penstock.common.doors import pyflink_names
from penstock.common.doors.door import publish
from penstock.table.function_wrappers import UserDefinedScalarFunctionWrapper, UserDefinedTableFunctionWrapper
from penstock.table.user_functions import FunctionContext, ScalarFunction, TableFunction, UserDefinedFunction

if TYPE_CHECKING:
    from penstock.table.types import DataType

__all__ = [
    "FunctionContext",
    "ScalarFunction",
    "TableFunction",
    "UserDefinedFunction",
    "udaf",
    "udf",
    "udtaf",
    "udtf",
]

FunctionType = Literal["general", "pandas", "arrow"]
"""Arguments of a function: values of a row, a Series of pandas for a batch of rows, or an array of Arrow."""
_KINDS = ("general", "pandas", "arrow")


@overload
def udf(
    f: Callable[..., Any] | ScalarFunction,
    input_types: Any = None,
    result_type: DataType | str | None = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: FunctionType = "general",
) -> UserDefinedScalarFunctionWrapper: ...
@overload
def udf(
    f: None = None,
    input_types: Any = None,
    result_type: DataType | str | None = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: FunctionType = "general",
) -> Callable[[Callable[..., Any] | ScalarFunction], UserDefinedScalarFunctionWrapper]: ...
def udf(
    f: Callable[..., Any] | ScalarFunction | None = None,
    input_types: Any = None,
    result_type: DataType | str | None = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: FunctionType = "general",
) -> Any:
    """Make a scalar function of a callable or a ScalarFunction, or return a decorator that does.

    `result_type`: a type of `DataTypes` or SQL's text, needed. `input_types`: those that the planner accepts, one or a
    list of them; None: any. `deterministic`: False: equal arguments may give different results; default: True, or what
    `is_deterministic` says. `func_type`: "general" is called for each row with Python values, None for NULL; "pandas"
    for a batch with a Series for each argument, and returns one; "arrow", not in PyFlink, with arrays of pyarrow.

    Raises TypeError for what is not a function or a type, ValueError for another `func_type` or without a result type.
    """

    def decorate(function: Any) -> UserDefinedScalarFunctionWrapper:
        if func_type not in _KINDS:
            raise ValueError(f"func_type must be one of {', '.join(map(repr, _KINDS))}, got {func_type!r}")
        if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "eval", None)):
            raise TypeError(
                f"the asynchronous function {function!r} can't be called in SQL: use AsyncDataStream for it, or write "
                "it without async"
            )
        return UserDefinedScalarFunctionWrapper(
            function, input_types, result_type, func_type=func_type, deterministic=deterministic, name=name
        )

    return decorate if f is None else decorate(f)


@overload
def udtf(
    f: Callable[..., Any] | TableFunction,
    input_types: Any = None,
    result_types: Any = None,
    deterministic: bool | None = None,
    name: str | None = None,
) -> UserDefinedTableFunctionWrapper: ...
@overload
def udtf(
    f: None = None,
    input_types: Any = None,
    result_types: Any = None,
    deterministic: bool | None = None,
    name: str | None = None,
) -> Callable[[Callable[..., Any] | TableFunction], UserDefinedTableFunctionWrapper]: ...
def udtf(
    f: Callable[..., Any] | TableFunction | None = None,
    input_types: Any = None,
    result_types: Any = None,
    deterministic: bool | None = None,
    name: str | None = None,
) -> Any:
    """Make a table function of a callable or a TableFunction, or return a decorator that does.

    It yields, or returns an iterable of, rows: a Row or a tuple, or a value if there is one column; or it returns a
    single row, or None for no row. `result_types`: the types of the columns, which are called f0, f1 and so on, or
    a ROW, whose names they have. Everything else is as for `udf`.
    """

    def decorate(function: Any) -> UserDefinedTableFunctionWrapper:
        return UserDefinedTableFunctionWrapper(
            function, input_types, result_types, deterministic=deterministic, name=name
        )

    return decorate if f is None else decorate(f)


class AggregateFunction(UserDefinedFunction):
    """A function of the values of a group, which SQL can't call yet: see `udaf`."""


class TableAggregateFunction(UserDefinedFunction):
    """A function of the values of a group with several rows as result, which SQL can't call yet: see `udaf`."""


def udaf(f: Any = None, *args: Any, **types: Any) -> Any:
    """Raise NotImplementedError when a function is passed: SQL can't call aggregates in Python yet."""

    def decorate(function: Any) -> Any:
        name = getattr(function, "__name__", None) or type(function).__name__
        raise NotImplementedError(
            f"the aggregate function {name} can't be called in SQL: use SQL's aggregates, or convert the table by "
            "to_data_stream, and aggregate with key_by() and a window or process()"
        )

    return decorate if f is None else decorate(f)


def udtaf(f: Any = None, *args: Any, **types: Any) -> Any:
    """Raise NotImplementedError when a function is passed: see `udaf`."""
    return udaf(f, *args, **types)


publish(__name__, __all__)
pyflink_names.resolve_missing_names(__name__)
