"""Copies that share no mutable object with their original. Immutable values are not copied.

A value that was emitted or stored must not change, whatever a function does with its reference to it. Flink serializes
records for that, or copies them with their serializer. In Python most values are immutable: numbers, text, and tuples
and frozen classes of them. They are recognized by their exact types, because a subclass may add attributes.
docs/internals/decisions/0011-values-that-may-change.md has the alternatives and their cost.
"""

from __future__ import annotations

import pickle
from itertools import chain
from typing import Any

from penstock.common.values.class_copies import copier_of
from penstock.common.values.container_copies import ATOMS as ATOMS
from penstock.common.values.container_copies import COPIERS, Copier, itself
from penstock.common.values.container_copies import Memo as Memo
from penstock.common.values.container_copies import copy_of_part as copy_of_part

_are_atoms = ATOMS.issuperset
_are_tuples = frozenset({tuple}).issuperset
# An attribute of the instance, because a function in the class would be bound to the instance.
COPIERS.of_class = copier_of


def independent_copy(value: Any) -> Any:
    """Return a copy that shares no mutable object with `value`, or `value` itself if it is immutable.

    An object that occurs twice in `value` occurs twice in the copy, too. Values that can't be copied, such as a socket,
    are returned unchanged; they can't be sent or stored either.
    """
    kind = type(value)
    # Tests nearly all values without a call, which would add a third to the time.
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
        # The value is nested too deeply for Python functions.
        return _copy_by_pickling(value)


def pair_of_atoms(values: list[Any], known: tuple[type, type]) -> tuple[type, type]:
    """Return the types of the last value if it is a pair of atoms, else `known`. Values of a chunk are mostly alike."""
    last = values[-1] if values else None
    if type(last) is tuple and len(last) == 2 and _are_atoms(map(type, last)):
        return type(last[0]), type(last[1])
    return known


def are_tuples_of_atoms(values: list[Any]) -> bool:
    """Return whether all values are tuples of atoms, which need no copies: a test without Python code for each."""
    return _are_tuples(map(type, values)) and _are_atoms(map(type, chain.from_iterable(values)))


def independent_copies(values: list[Any]) -> list[Any]:
    """Return an independent copy of each value. Atoms and pairs of them are recognized without a call."""
    atoms = ATOMS
    return [
        value
        if (type(value) is tuple and len(value) == 2 and type(value[0]) in atoms and type(value[1]) in atoms)
        or type(value) in atoms
        else independent_copy(value)
        for value in values
    ]


def copied_by(kind: type, copier: Copier) -> None:
    """Set the copier of exactly this class.

    The copier must look into the memo first, and add its copy before it copies parts, which may refer to the value.
    """
    COPIERS[kind] = copier


def never_copied(kind: type) -> type:
    """Declare a class, as its decorator, whose instances do not change, so that they are not copied."""
    COPIERS[kind] = itself
    return kind


def uncopied(value: Any) -> Any:
    """Return the value itself, in place of `independent_copy`."""
    return value


def _copy_by_pickling(value: Any) -> Any:
    try:
        return pickle.loads(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
    except Exception:
        return value
