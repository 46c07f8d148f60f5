"""Call a function by the name that Flink's plans give it: `call("UPPER", [column], [STRING])`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from types import ModuleType

from penstock.table.functions.columns import Column
from penstock.table.functions.errors import UnknownFunctionError
from penstock.table.functions.families import FAMILIES
from penstock.table.functions.registry import Arguments, Call, Context, Function
from penstock.table.logical_types import LogicalType


@cache
def functions() -> Mapping[str, Function]:
    """Return all functions by name. The first call imports their modules."""
    found: dict[str, Function] = {}
    for of_family in families().values():
        found |= of_family
    return found


def families() -> dict[ModuleType, Mapping[str, Function]]:
    """Return the functions of each module that has some."""
    modules = [import_module(f"penstock.table.functions.{family}") for family in FAMILIES]
    return {module: module.FAMILY.functions for module in modules}


def find(name: str) -> Function:
    """Return a function. Raises UnknownFunctionError."""
    function = functions().get(name.upper())
    if function is None:
        raise UnknownFunctionError(f"the function {name.upper()} is not supported")
    return function


def result_type(name: str, types: Sequence[LogicalType], columns: Sequence[Column | None] | None = None) -> LogicalType:
    """Return the type of a call's result.

    `columns` has a scalar for each argument that is a literal: the types of some results depend on these.
    Raises UnknownFunctionError, and InvalidCallError if the function does not accept such arguments.
    """
    return find(name).result_type(Arguments(types, columns or [None] * len(types)))


def call(
    name: str,
    columns: Sequence[Column],
    types: Sequence[LogicalType],
    *,
    result: LogicalType | None = None,
    context: Context | None = None,
) -> Column:
    """Return the column of results: an Arrow array, or a scalar if all arguments are scalars.

    Without `result`, the type of the result is inferred and the arguments are checked, as `result_type` does; with it,
    which is what a plan says, it is taken for granted. Raises FunctionError if a value cannot be computed.
    """
    function = find(name)
    if result is None:
        result = function.result_type(Arguments(types, columns))
    return function.kernel(
        Call(name=function.name, columns=columns, types=types, result=result, context=context or Context())
    )
