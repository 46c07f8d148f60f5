"""Copies that share nothing that can be changed with their original; what can't be changed is not copied.

A value that was emitted, or stored, must stay as it was, whatever a function does with its own reference to it. Flink
serialises records for that, or copies them with their serialiser. Here most values can't be changed at all: numbers,
text, and tuples and frozen classes of them. They are distinguished by their exact types, because a subclass may add
attributes. docs/internals/decisions/0011-values-that-may-change.md has the alternatives and their cost.
"""

from __future__ import annotations

import pickle
from typing import Any

from penstock.common.values.class_copies import copier_of
from penstock.common.values.container_copies import ATOMS as ATOMS
from penstock.common.values.container_copies import COPIERS, Copier, itself
from penstock.common.values.container_copies import Memo as Memo
from penstock.common.values.container_copies import copy_of_part as copy_of_part

_are_atoms = ATOMS.issuperset
# A plain attribute of the table: a function in the class would be bound to it.
COPIERS.of_class = copier_of


def own_copy(value: Any) -> Any:
    """A copy that shares nothing that can be changed with `value`; `value` itself if nothing of it can.

    What occurs twice in `value` is one object in the copy, too. What can't be copied, a socket for example, is returned
    as it is. It can't be sent or stored either.
    """
    kind = type(value)
    # Nearly all values that are not recognised without a call. Each further call would cost a third of this.
    atoms = ATOMS
    if kind in atoms:
        return value
    if kind is tuple:
        for part in value:
            if type(part) not in atoms:
                break
        else:
            return value
    try:
        return COPIERS[kind](value, None)
    except RecursionError:
        # The value is nested too deep for functions in Python.
        return _copy_by_pickling(value)


def pair_of_atoms(values: list[Any], known: tuple[type, type]) -> tuple[type, type]:
    """The types of the last value if it is a pair of atoms, else `known`: most of a chunk's values are alike."""
    last = values[-1] if values else None
    if type(last) is tuple and len(last) == 2 and _are_atoms(map(type, last)):
        return type(last[0]), type(last[1])
    return known


def own_copies(values: list[Any]) -> list[Any]:
    """`own_copy` of each value. Atoms, and pairs of them, are recognised without a call."""
    atoms = ATOMS
    return [
        value
        if (type(value) is tuple and len(value) == 2 and type(value[0]) in atoms and type(value[1]) in atoms)
        or type(value) in atoms
        else own_copy(value)
        for value in values
    ]


def copied_by(kind: type, copier: Copier) -> None:
    """Have instances of exactly this class copied so: by a value and a memo, which is None for a whole record.

    The copier looks into the memo first, and adds its copy before it copies parts, which may refer to the value.
    """
    COPIERS[kind] = copier


def never_copied(kind: type) -> type:
    """A class decorator: the instances of this class are not changed once they are made."""
    COPIERS[kind] = itself
    return kind


def as_it_is(value: Any) -> Any:
    """The value itself, in place of `own_copy`."""
    return value


def _copy_by_pickling(value: Any) -> Any:
    try:
        return pickle.loads(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
    except Exception:
        return value
