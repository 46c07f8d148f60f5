"""Whether a function can keep a reference to what it returns: then the value may change after it was emitted.

Most functions of a map or a filter are small: they build a new value from the record, and have nowhere to keep it.
That can be seen from their code, once, when they are opened, so that a hot loop need not look at each value.
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
"""Builtin functions and types that keep nothing of what they are given."""
_METHODS = frozenset(
    name for kind in (str, bytes, int, float, tuple, frozenset) for name in dir(kind) if not name.startswith("_")
) | {"items", "keys", "values", "get"}
"""Methods of builtin types that change nothing."""
_HARMLESS = (
    "BINARY_", "BUILD_", "CACHE", "CALL", "COMPARE_OP", "CONTAINS_OP", "CONVERT_VALUE", "COPY", "DELETE_FAST",
    "DELETE_SUBSCR", "DICT_", "END_FOR", "EXTENDED_ARG", "FORMAT_", "FOR_ITER", "GET_ITER", "GET_LEN", "IS_OP", "JUMP_",
    "KW_NAMES", "LIST_", "LOAD_CONST", "LOAD_DEREF", "LOAD_FAST", "LOAD_SMALL_INT", "MATCH_", "NOP", "NOT_TAKEN",
    "POP_", "PRECALL", "PUSH_NULL", "RESUME", "RETURN_", "SET_", "STORE_FAST", "STORE_SLICE", "STORE_SUBSCR", "SWAP",
    "TO_BOOL", "UNARY_", "UNPACK_", "COPY_FREE_VARS",
)  # fmt: skip
"""Beginnings of the names of operations that reach nothing but the record, locals and constants. What a later Python
adds is not among them, so it counts as code that keeps."""


def keeps_nothing(function: Callable[..., Any]) -> bool:
    """True if `function` certainly has no place to keep a value in; False if it has, or may have.

    True only for plain functions without state: no closure, no mutable default, no global but builtins and constants,
    no method but those of numbers and text. Code that is not understood counts as code that keeps.
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
        # A name that is bound later, to whatever it may be.
        return False
    if not all(type(value) in ATOMS and not callable(value) for value in kept) or function.__dict__:
        return False
    return all(_is_harmless(instruction, function.__globals__) for instruction in dis.get_instructions(code))


def _is_harmless(instruction: dis.Instruction, names: dict[str, Any]) -> bool:
    operation, name = instruction.opname, instruction.argval
    if operation == "LOAD_GLOBAL":
        if name in names:
            # A module has all there is.
            known = names[name]
            return type(known) in ATOMS and not callable(known) and not isinstance(known, types.ModuleType)
        return name in _BUILTINS and hasattr(builtins, name)
    if operation in ("LOAD_ATTR", "LOAD_METHOD"):
        return name in _METHODS
    return operation.startswith(_HARMLESS)
