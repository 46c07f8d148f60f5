"""Enums of the script in pickles: all of their names, and members as they were made.

cloudpickle sends the values of the members that an enum iterates over, and makes members of them again, without the
enum's own `__new__` and `__init__`. That loses aliases, named combinations of a Flag, what `__init__` or `__new__` has
set, and the content of members whose `_value_` is something else. Here each name is sent, and each member as `copyreg`
takes objects apart. Attributes follow when the class is there, since they may refer to it.
"""

from __future__ import annotations

import copyreg
import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_OWN = ("__init__", "__new_member__")
"""What a class has of ours until its own attributes are set."""


@dataclass(frozen=True)
class MemberMaker:
    """In place of an enum's `__new__`: makes a member from its number."""

    members: list[tuple[tuple[Any, ...], Any]]
    """By number: arguments for `__new__` of the data type, and the value."""

    def __call__(self, kind: Any, number: Any) -> Any:
        # Of enums that are tuples it is a tuple, as all of their values.
        args, value = self.members[number[0] if isinstance(number, tuple) else number]
        data_type = kind._member_type_
        member = object.__new__(kind) if data_type is object else data_type.__new__(kind, *args)
        member._value_ = value
        return member


def body_of(kind: type[enum.Enum]) -> dict[str, Any]:
    """The class body that makes the members of `kind`, under all of their names. Raises TypeError if it can't be."""
    if not kind.__members__:
        return {}
    numbers: dict[int, int] = {}
    made: list[tuple[tuple[Any, ...], Any]] = []
    for member in kind.__members__.values():
        if id(member) not in numbers:
            numbers[id(member)] = len(made)
            made.append((_taken_apart(member)[0], member._value_))
    names = {name: numbers[id(member)] for name, member in kind.__members__.items()}
    return {"__new__": MemberMaker(made), "__init__": _as_it_is, **names}


def attributes_of(kind: type[enum.Enum], attributes: dict[str, Any]) -> dict[str, Any]:
    """Attributes of the class `kind`, without its members."""
    return {name: value for name, value in attributes.items() if name not in kind.__members__}


def states_of(kind: type[enum.Enum]) -> dict[str, Any]:
    """What each member has beside its value, by name."""
    states = {name: _taken_apart(member)[1] for name, member in kind.__members__.items() if name == member._name_}
    return {name: state for name, state in states.items() if state}


@dataclass(frozen=True)
class EnumSetter:
    """Sets attributes of an enum, as `set_class` does, and then those of its members."""

    set_class: Callable[[Any, Any], Any]

    def __call__(self, kind: Any, state: tuple[type, Any, dict[str, Any]]) -> Any:
        metaclass, of_class, of_members = state
        if type(kind) is not metaclass:
            # cloudpickle takes that of the last base.
            kind.__class__ = metaclass
        for name in _OWN:
            if isinstance(vars(kind).get(name), MemberMaker) or vars(kind).get(name) is _as_it_is:
                delattr(kind, name)
        self.set_class(kind, of_class)
        for name, of_member in of_members.items():
            _set_state(kind.__members__[name], of_member)
        return kind


def _as_it_is(member: Any, number: Any) -> None:
    """In place of an enum's `__init__`: what that has set is set later."""


def _taken_apart(member: Any) -> tuple[tuple[Any, ...], Any]:
    """Arguments for `__new__` of the data type, and the state, without what the metaclass gives to members."""
    reduced: Any = object.__reduce_ex__(member, 2)
    make, args, *rest = reduced
    if make is copyreg.__newobj__:  # type: ignore[attr-defined]
        args = args[1:]
    elif make is not type(member):
        raise TypeError(f"can't take {member!r} apart: its data type is rebuilt by {make!r}")
    state = rest[0] if rest else None
    if isinstance(state, tuple):
        return args, (_without_reserved(state[0] or {}), state[1])
    return args, _without_reserved(state) if isinstance(state, dict) else state


def _without_reserved(state: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in state.items() if not (name.startswith("_") and name.endswith("_"))}


def _set_state(member: Any, state: Any) -> None:
    if hasattr(member, "__setstate__"):
        member.__setstate__(state)
        return
    attributes, slots = state if isinstance(state, tuple) else (state, {})
    vars(member).update(attributes)
    for name, value in slots.items():
        object.__setattr__(member, name, value)
