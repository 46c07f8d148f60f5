"""Doors: the public modules through which users reach classes that are defined elsewhere.

Where a class is defined follows the layers of the source; where users import it from follows PyFlink, and must not
change with our folders. A door is a module with `__all__`. It re-exports names and publishes them: their `__module__`
becomes that of the door, so that `help`, `repr`, tracebacks and pickles show the public path.

Each door is a file, however short, and not a row of a table that an import hook reads: type checkers and editors
resolve imports without running them, so a user's `from penstock.datastream.time_domain import TimeDomain` would be an
error there, unless a stub of the same length stood beside the table.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import FunctionType

from penstock.common.doors import pyflink_names


def publish(door: str, names: Iterable[str]) -> None:
    """Make the module `door` the home of those classes and functions among `names` that have no door yet.

    A class keeps the door that published it first, so a name that several doors export has one home. The door also
    answers for the names that PyFlink's module of its path has.
    """
    pyflink_names.answer(door)
    exported = vars(sys.modules[door])
    # Process functions share the classes of their contexts. The shortest name goes first, so that such a class is shown
    # as ProcessFunction.Context and not as CoProcessFunction.Context.
    for name in sorted(names, key=len):
        thing = exported[name]
        if not isinstance(thing, (type, FunctionType)) or name in getattr(sys.modules[thing.__module__], "__all__", ()):
            continue
        inside = thing.__module__
        thing.__module__ = door
        if isinstance(thing, type):
            _publish_nested(thing, inside)


def _publish_nested(outer: type, inside: str) -> None:
    """Publish classes that are attributes of a published class, such as `Trigger.TriggerContext`."""
    for name, nested in list(vars(outer).items()):
        # Also where the class is defined on its own, as _Context, and its public name is that of the attribute.
        if isinstance(nested, type) and nested.__module__ == inside and nested.__name__ in (name, f"_{name}"):
            nested.__module__ = outer.__module__
            nested.__name__ = name
            nested.__qualname__ = f"{outer.__qualname__}.{name}"
            _publish_nested(nested, inside)
