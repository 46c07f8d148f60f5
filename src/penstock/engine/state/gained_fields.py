"""Reading what is stored: classes are found by their former names, and by substitutes where they are missing.

What is stored by name (`common/values/stored_class.py`) completes itself. Earlier snapshots hold objects as pickle
stores them: here their instances get the defaults of fields that their classes have gained since.
"""

from __future__ import annotations

import functools
import pickle
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from types import ModuleType
from typing import Any, BinaryIO, ClassVar

from penstock.common.errors import CheckpointError, ProgramError
from penstock.common.stored import type_stored_as
from penstock.common.stored import value as stored_value
from penstock.common.types import Row, basic_types, composite_types, restored_row
from penstock.common.values.stored_class import StoredClass, defaults_of, dropped_fields

# Where classes that snapshots of manifest version 1 name by their paths are now.
#
# Version 1 had paths of penstock's modules in its pickles. Since version 2 values are stored by name
# (common/stored.py), so no entry will ever be added.

_STORED_AS = {
    ("penstock.connectors.file_sink.part", "PendingFile"): "pending-file",
    ("penstock.connectors.file_system.enumerator", "FileEnumeratorState"): "file-enumerator",
    ("penstock.connectors.file_system.split", "FileSplit"): "file-split",
    ("penstock.connectors.ranges", "RangeSplit"): "range-split",
    ("penstock.connectors.socket_text.reader", "SocketSplit"): "socket-split",
    ("penstock.connectors.two_phase_commit_sink", "Prepared"): "prepared-transaction",
    ("penstock.connectors.write_ahead_sink", "Batch"): "batch-to-send",
    ("penstock.runtime.windows.window", "CountWindow"): "count-window",
    ("penstock.runtime.windows.window", "GlobalWindow"): "global-window",
    ("penstock.runtime.windows.window", "TimeWindow"): "time-window",
}
_TYPE_MODULES: dict[str, ModuleType] = {
    "penstock.common.basic_types": basic_types,
    "penstock.common.composite_types": composite_types,
}
"""Modules of declared types, which version 1 pickled."""


def found_by_former_name(module: str, name: str) -> Any:
    """The class or function that once had this name; None: the name was never another one's."""
    stored_as = _STORED_AS.get((module, name))
    if stored_as is not None:
        return type_stored_as(stored_as)
    if module in _TYPE_MODULES:
        return getattr(_TYPE_MODULES[module], name, None)
    return restored_row if (module, name) == ("penstock.common.types", "_restore") else None


STAND_IN: ContextVar[Callable[[str, str], Any] | None] = ContextVar("STAND_IN", default=None)
"""Given module and name of a class that can't be imported, returns a substitute; None: the import error is raised."""


class StateUnpickler(pickle.Unpickler):
    """Remembers the classes with fields that it has met; `load_complete` sets the missing fields of their instances."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__(stream)
        self._stream = stream
        self._met: set[type] = set()
        self._stored: set[str] = set()

    def find_class(self, module: str, name: str) -> Any:
        """Called by pickle for each class that it meets."""
        if name == "value" and module == stored_value.__module__:
            return functools.partial(_noted, self._stored)
        try:
            found = found_by_former_name(module, name) or super().find_class(module, name)
        except (ImportError, AttributeError, ProgramError):
            stand_in = STAND_IN.get()
            if stand_in is None:
                raise
            return stand_in(module, name)
        if isinstance(found, type) and defaults_of(found):
            self._met.add(found)
        return found

    def load_complete(self) -> Any:
        """The next object. Raises CheckpointError for a class that has gained a field without a default.

        Also if two keys of a map, or members of a set, have become equal since the class has fewer fields.
        """
        start = self._stream.tell()
        value = self.load()
        if not dropped_fields.isdisjoint(self._met):
            self._stream.seek(start)
            _KeyChecker(self._stream).load()
        if self._met and "class" not in self._stored:
            _complete(value)
        return value


_PythonUnpickler: Any = pickle._Unpickler  # type: ignore[attr-defined,unused-ignore]


class _KeyChecker(_PythonUnpickler):  # type: ignore[misc]
    """Reads a pickle again, slowly, and refuses a key that is already in its dict or set."""

    dispatch: ClassVar[dict[int, Any]] = dict(_PythonUnpickler.dispatch)

    def find_class(self, module: str, name: str) -> Any:
        return found_by_former_name(module, name) or super().find_class(module, name)

    def _add_entries(self) -> None:
        items = self.pop_mark()
        entries: Any = self.stack[-1]
        for key, value in zip(items[::2], items[1::2], strict=True):
            _refuse_equal(entries, key)
            entries[key] = value

    def _add_entry(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        _refuse_equal(self.stack[-1], key)
        self.stack[-1][key] = value

    def _add_members(self) -> None:
        members, added = self.pop_mark(), self.stack[-1]
        for member in members:
            _refuse_equal(added, member)
            added.add(member)

    def _make_frozenset(self) -> None:
        added: set[Any] = set()
        for member in self.pop_mark():
            _refuse_equal(added, member)
            added.add(member)
        self.append(frozenset(added))

    dispatch[pickle.FROZENSET[0]] = _make_frozenset
    dispatch[pickle.SETITEMS[0]] = _add_entries
    dispatch[pickle.SETITEM[0]] = _add_entry
    dispatch[pickle.ADDITEMS[0]] = _add_members


def _refuse_equal(container: Any, key: Any) -> None:
    if isinstance(container, (dict, set)) and key in container:
        raise CheckpointError(
            f"two keys of a map in the state, or members of a set, are {key!r:.200} now: they differed in a field that "
            "their class does not have any more. Keep the field, or transform the state first"
        )


def _noted(names: set[str], name: str, version: int, *fields: Any) -> Any:
    # Not a method of the unpickler: that would be in a cycle, with all that was read.
    names.add(name)
    return stored_value(name, version, *fields)


def _complete(value: Any) -> None:
    # With a list of pending values, not recursively: state may be nested deeper than Python's stack.
    waiting, seen = [value], set()
    while waiting:
        one = waiting.pop()
        if isinstance(one, type) or id(one) in seen:
            continue
        parts: list[Any] = []
        if isinstance(one, dict):
            parts += one
            parts += one.values()
        elif isinstance(one, (list, tuple, set, frozenset, deque, Row)):
            parts += one
        kind: Any = type(one)
        if kind.__module__ != "builtins":
            stored = StoredClass(kind)
            if stored.defaults and not isinstance(one, tuple):
                stored.complete(one)
            parts += getattr(one, "__dict__", {}).values()
            parts += (getattr(one, name) for name in (*stored.slots, *stored.names) if hasattr(one, name))
        if parts:
            seen.add(id(one))
            waiting += parts
