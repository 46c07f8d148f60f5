"""Whether a function can keep a reference to its result, which could then change after it was emitted.

Most functions of a map or filter are small: they build a new value from the record and have no place to keep it. Their
code shows that. It is checked once, when they are opened, so that hot loops do not have to check each value.
"""

from __future__ import annotations

import builtins
import dis
import inspect
import types
from collections.abc import Callable
from typing import Any

from penstock.common.values.copies import ATOMS

_BUILTINS = frozenset(
    {
        "abs", "all", "any", "bool", "bytes", "chr", "complex", "dict", "divmod", "enumerate", "float", "frozenset",
        "hash", "hex", "int", "isinstance", "len", "list", "max", "min", "ord", "pow", "range", "repr", "reversed",
        "round", "set", "sorted", "str", "sum", "tuple", "zip",
    }
)  # fmt: skip
"""Built-in functions and types that do not keep their arguments."""
_METHODS = frozenset(
    name for kind in (str, bytes, int, float, tuple, frozenset) for name in dir(kind) if not name.startswith("_")
) | {"items", "keys", "values", "get"}
"""Methods of built-in types that change nothing."""
_HARMLESS = (
    "BINARY_", "BUILD_", "CACHE", "CALL", "COMPARE_OP", "CONTAINS_OP", "CONVERT_VALUE", "COPY", "DELETE_FAST",
    "DELETE_SUBSCR", "DICT_", "END_FOR", "EXTENDED_ARG", "FORMAT_", "FOR_ITER", "GET_ITER", "GET_LEN", "IS_OP", "JUMP_",
    "KW_NAMES", "LIST_", "LOAD_CONST", "LOAD_DEREF", "LOAD_FAST", "LOAD_SMALL_INT", "MATCH_", "NOP", "NOT_TAKEN",
    "POP_", "PRECALL", "PUSH_NULL", "RESUME", "RETURN_", "SET_", "STORE_FAST", "STORE_SLICE", "STORE_SUBSCR", "SWAP",
    "TO_BOOL", "UNARY_", "UNPACK_", "COPY_FREE_VARS",
)  # fmt: skip
"""Prefixes of the names of operations that access only the record, locals and constants. Operations that later versions
of Python add are not listed, so code with them counts as code that may keep references."""


def keeps_nothing(function: Callable[..., Any]) -> bool:
    """Return True if `function` certainly has no place to keep a value; False if it has, or may have.

    True only for plain functions without state: no closure, no mutable default, no globals except built-ins and
    constants, and only methods of numbers and text.
    """
    if not isinstance(function, types.FunctionType):
        return False
    code = function.__code__
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return False
    kept = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    try:
        kept += [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError:
        # The name is bound later, to an unknown value.
        return False
    if not all(type(value) in ATOMS and not callable(value) for value in kept) or function.__dict__:
        return False
    return all(_is_harmless(instruction, function.__globals__) for instruction in dis.get_instructions(code))


def _is_harmless(instruction: dis.Instruction, names: dict[str, Any]) -> bool:
    operation, name = instruction.opname, instruction.argval
    if operation == "LOAD_GLOBAL":
        if name in names:
            # A module gives access to anything.
            known = names[name]
            return type(known) in ATOMS and not callable(known) and not isinstance(known, types.ModuleType)
        return name in _BUILTINS and hasattr(builtins, name)
    if operation in ("LOAD_ATTR", "LOAD_METHOD"):
        return name in _METHODS
    return operation.startswith(_HARMLESS)
