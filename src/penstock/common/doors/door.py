"""Doors: the public modules through which users reach classes that are defined elsewhere.

The place of a class in the source follows our layers; the place from which users import it follows PyFlink and must
not change with our folders. A door is a module with `__all__`. It re-exports names and publishes them: it sets their
`__module__` to the door, so `help`, `repr`, tracebacks and pickles show the public path.

Each door is a file, however short, rather than a row of a table for an import hook: type checkers and editors resolve
imports without running them, and would report `from penstock.datastream.time_domain import TimeDomain` as an error
unless a stub file of the same length existed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from types import FunctionType
from typing import Any

from penstock.common.doors import pyflink_names


def publish(door: str, names: Iterable[str]) -> None:
    """Set `__module__` of those classes and functions among `names` that have no door yet to the module `door`.

    A class keeps the door that published it first, if several doors export it. The door also resolves the further names
    that PyFlink's module has.
    """
    pyflink_names.resolve_missing_names(door)
    exported = vars(sys.modules[door])
    # Process functions share the classes of their contexts. Shortest names go first, so that the name of such a class
    # becomes ProcessFunction.Context rather than CoProcessFunction.Context.
    for name in sorted(names, key=len):
        thing = exported[name]
        if not isinstance(thing, (type, FunctionType)) or name in getattr(sys.modules[thing.__module__], "__all__", ()):
            continue
        inside = thing.__module__
        thing.__module__ = door
        if isinstance(thing, type):
            _publish_nested(thing, inside)


def resolve_on_use(door: str, modules: Mapping[str, str], *, publishes: bool) -> None:
    """Let a door import the modules of its names when these are first used, and resolve PyFlink's further names.

    `modules`: a name to the module below the door that defines it. `publishes`: whether these modules are inside ones.
    """
    names = vars(sys.modules[door])

    def resolve(name: str) -> Any:
        if name not in modules:
            return pyflink_names.resolved(door, name)
        names[name] = getattr(import_module(f"{door}.{modules[name]}"), name)
        if publishes:
            publish(door, [name])
        return names[name]

    names["__getattr__"] = resolve
    names["__dir__"] = lambda: sorted({*names, *modules})


def _publish_nested(outer: type, inside: str) -> None:
    """Publish classes that are attributes of a published class, such as `Trigger.TriggerContext`."""
    for name, nested in list(vars(outer).items()):
        # A class that is defined at module level, such as _Context, gets the name of the attribute.
        if isinstance(nested, type) and nested.__module__ == inside and nested.__name__ in (name, f"_{name}"):
            nested.__module__ = outer.__module__
            nested.__name__ = name
            nested.__qualname__ = f"{outer.__qualname__}.{name}"
            _publish_nested(nested, inside)
