"""Key selectors that read one item or attribute, such as `lambda record: record[0]`: a faster form, and what is read.

Python's `itemgetter` and `attrgetter` need a third of the time. A selector is recognized by its code.
"""

from __future__ import annotations

import dis
from collections.abc import Callable
from operator import attrgetter, itemgetter
from types import FunctionType, MethodType
from typing import Any

from penstock.common.functions.field_key import FieldKey

_IGNORED = frozenset({"RESUME", "NOP", "CACHE"})
_LOADS = frozenset({"LOAD_FAST", "LOAD_FAST_BORROW"})
_CONSTANTS = frozenset({"LOAD_CONST", "LOAD_SMALL_INT"})


def quick_selector(select: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return an equivalent, faster callable, or `select`. The tracebacks of the faster one lack the user's line."""
    function = select.__func__ if isinstance(select, MethodType) else select
    if type(function) is not FunctionType:
        return select
    code = function.__code__
    record = code.co_varnames[code.co_argcount - 1 : code.co_argcount]
    found = [one for one in dis.get_instructions(code) if one.opname not in _IGNORED]
    names = [one.opname for one in found]
    if (
        code.co_argcount != (2 if function is not select else 1)
        or names[0] not in _LOADS
        or found[0].argval not in record
        or names[-1] != "RETURN_VALUE"
    ):
        return select
    if len(found) == 4 and names[1] in _CONSTANTS and _is_subscript(found[2]):
        return itemgetter(found[1].argval)
    if len(found) == 3 and names[1] == "LOAD_ATTR":
        return attrgetter(found[1].argval)
    return select


def items_read_by(select: Callable[[Any], Any]) -> tuple[Any, ...] | None:
    """Return the positions or names of all that a selector reads of a tuple, dict or Row; None if it is not known."""
    if isinstance(select, FieldKey):
        return select.fields
    quick = quick_selector(select)
    # Pickling is the only way to learn what an itemgetter reads.
    return quick.__reduce__()[1] if type(quick) is itemgetter else None  # type: ignore[return-value]


def _is_subscript(instruction: dis.Instruction) -> bool:
    # Python 3.14 has an operator for it in place of an instruction.
    name = instruction.opname
    return name == "BINARY_SUBSCR" or (name == "BINARY_OP" and instruction.argrepr == "[]")
