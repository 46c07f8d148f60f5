"""Checks the result of a function that may emit several values, and iterates over it.

A dict, a Row or text can be iterated over, but its elements, names of fields or characters, are not what the function
means to emit. A value that a generator returns, in addition to its yields, would be dropped. Both raise errors.
"""

from __future__ import annotations

import dis
import functools
from collections import UserString, deque
from collections.abc import Callable, Generator, Iterator, Mapping
from enum import Enum
from inspect import CO_GENERATOR
from types import CodeType, FunctionType, GeneratorType
from typing import Any

from penstock.common.functions.result_kinds import UNAWAITED, check_awaited
from penstock.common.types import Row
from penstock.common.types.replaced_field import declared_names
from penstock.common.values.copies import ATOMS, copied_by
from penstock.engine.runtime.task.context import shortened

COLLECTIONS: set[type] = {list, tuple, set, frozenset, deque, map, filter, zip, range}
"""Types that are collections of values, except generators. Further types are added when they first appear."""

_TEXT = frozenset({str, bytes})
_RECORDS = (str, bytes, bytearray, memoryview, Mapping, Row, Enum, UserString)
_RECORDS_ELSEWHERE = {
    ("pandas", "DataFrame"), ("pyarrow", "Table"), ("pyarrow", "RecordBatch"), ("polars", "DataFrame"),
    ("numpy", "void"),
}  # fmt: skip
"""Package and name of further classes: their packages are not imported for this check."""


for _kind in UNAWAITED:
    # A function can return a coroutine without being async itself: the check runs when the result is copied.
    copied_by(_kind, lambda value, _: check_awaited(value))


class NeverReturned:
    """Takes the place of GeneratorType in a loop that has to check each generator."""


def trusted_generator(call: Callable[..., Any]) -> type[Any]:
    """Return the type of results that need no check: GeneratorType if the function is a generator function.

    A generator function without a `return` with a value returns only such generators.
    """
    function = getattr(call, "__func__", call)
    if type(function) is FunctionType and _is_generator(function.__code__) and not _returns_a_value(function.__code__):
        return GeneratorType
    return NeverReturned


def emitted(results: Any) -> Any:
    """Return the results for a loop; an empty tuple for None.

    Raises TypeError for a record, text or coroutine instead of a collection, and, after the last result of a generator,
    if it returns a value. An object that is not iterable fails in the loop.
    """
    if results is None:
        return ()
    kind = type(results)
    if kind is GeneratorType:
        return _to_its_end(results) if _returns_a_value(results.gi_code) else results
    if kind not in COLLECTIONS:
        check_awaited(results)
        if _is_record(kind):
            raise _record_returned(results)
        if hasattr(kind, "__iter__"):
            COLLECTIONS.add(kind)
    return results


def flattened(results: Any) -> Any:
    """Return `emitted` results of a flat_map, which may split text into its characters."""
    return iter(results) if type(results) in _TEXT else emitted(results)


def _to_its_end(results: Generator[Any, Any, Any]) -> Iterator[Any]:
    returned = yield from results
    if returned is not None:
        raise TypeError(
            f"it returned {shortened(returned)}, and a returned value is not emitted: yield the value, or "
            "return without a value"
        )


def _is_generator(code: CodeType) -> bool:
    return bool(code.co_flags & CO_GENERATOR)


@functools.lru_cache(maxsize=10_000)
def _returns_a_value(code: CodeType) -> bool:
    """Return whether the code of a generator has a `return` with a value. True if that is not certain."""
    before: dis.Instruction | None = None
    for instruction in dis.get_instructions(code):
        if instruction.opname == "RETURN_VALUE":
            is_none = before is not None and before.opname == "LOAD_CONST" and before.argval is None
            if instruction.is_jump_target or not is_none:
                return True
        elif instruction.opname == "RETURN_CONST" and instruction.argval is not None:
            return True
        before = instruction
    return False


def _is_record(kind: type) -> bool:
    """Return whether values of this class are records, although they are iterable."""
    if issubclass(kind, _RECORDS) or declared_names(kind) is not None:
        return True
    if kind in ATOMS and hasattr(kind, "__iter__"):
        # A network of addresses.
        return True
    if issubclass(kind, tuple) and hasattr(kind, "__fields__"):
        # A Row of Spark.
        return True
    classes = {(base.__module__.partition(".")[0], base.__name__) for base in kind.__mro__}
    return not classes.isdisjoint(_RECORDS_ELSEWHERE)


def _record_returned(record: Any) -> TypeError:
    shown, name = shortened(record), type(record).__name__
    what = "the text " if isinstance(record, str | bytes) else "" if shown.startswith(name) else f"the {name} "
    return TypeError(f"it returned {what}{shown}, not a collection of values: yield it, or return it in a list")
