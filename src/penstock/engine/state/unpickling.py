"""Unpickle stored values: find classes by former names, substitute missing classes, and complete gained fields.

Objects that are stored by field names (`common/values/stored_class.py`) complete themselves. Earlier snapshots hold
plain pickles of objects: here these get the defaults of fields that their classes have gained since.
"""

from __future__ import annotations

import enum
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
from penstock.common.values.container_copies import ATOMS
from penstock.common.values.stored_class import StoredClass, defaults_of, dropped_fields

# Classes that pickles of manifest version 1 name by the paths of penstock's modules. Since version 2 values are stored
# by name (common/stored.py), so no entry will be added.

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
    """Return the class or function that formerly had this name, or None."""
    stored_as = _STORED_AS.get((module, name))
    if stored_as is not None:
        return type_stored_as(stored_as)
    if module in _TYPE_MODULES:
        return getattr(_TYPE_MODULES[module], name, None)
    return restored_row if (module, name) == ("penstock.common.types", "_restore") else None


MISSING_CLASS_SUBSTITUTE: ContextVar[Callable[[str, str], Any] | None] = ContextVar(
    "MISSING_CLASS_SUBSTITUTE", default=None
)
"""Returns a substitute for a class that cannot be imported, given module and name. None: raise the import error."""


class StateUnpickler(pickle.Unpickler):
    """Notes the classes with fields that it finds; `load_complete` sets missing fields of their instances."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__(stream)
        self._stream = stream
        self._classes: set[type] = set()
        self._stored_names: set[str] = set()
        self._has_keys = False

    def find_class(self, module: str, name: str) -> Any:
        """Return the class for a name in a pickle. Called by pickle."""
        if name == "value" and module == stored_value.__module__:
            return functools.partial(_noting_name, self._stored_names)
        found = _found(super().find_class, module, name)
        if isinstance(found, type):
            if _has_fields(found):
                self._classes.add(found)
            self._has_keys = self._has_keys or _may_be_key(found)
        return found

    def load_complete(self) -> Any:
        """Load the next object. Raises CheckpointError for a class that has gained a field without a default.

        Also raises it if two keys of a map, or members of a set, have become equal because their class lost fields.
        """
        start = self._stream.tell()
        value = self.load()
        if self._has_keys and not dropped_fields.isdisjoint(self._classes):
            self._stream.seek(start)
            _KeyChecker(self._stream).load()
        if self._classes and "class" not in self._stored_names:
            _complete(value)
        return value


def _found(find_class: Callable[[str, str], Any], module: str, name: str) -> Any:
    try:
        return found_by_former_name(module, name) or find_class(module, name)
    except (ImportError, AttributeError, ProgramError):
        substitute = MISSING_CLASS_SUBSTITUTE.get()
        if substitute is None:
            raise
        return substitute(module, name)


@functools.lru_cache(maxsize=10_000)
def _has_fields(kind: type) -> bool:
    """Return whether the class declares fields. Remembered: values that are read one by one name it again and again."""
    return bool(defaults_of(kind))


@functools.lru_cache(maxsize=10_000)
def _may_be_key(kind: type) -> bool:
    """Return whether objects of the class may be keys of a map that are equal to others by their fields.

    Objects of most classes with fields have no hash, such as those of plain dataclasses and of pydantic models.
    """
    by_value: Any = kind.__hash__
    return by_value not in (None, object.__hash__) and kind not in ATOMS and not issubclass(kind, enum.Enum)


_PythonUnpickler: Any = pickle._Unpickler  # type: ignore[attr-defined,unused-ignore]


class _KeyChecker(_PythonUnpickler):  # type: ignore[misc]
    """Reads a pickle a second time, slowly, and refuses duplicate keys of a dict or set."""

    dispatch: ClassVar[dict[int, Any]] = dict(_PythonUnpickler.dispatch)

    def find_class(self, module: str, name: str) -> Any:
        return _found(super().find_class, module, name)

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
            f"two keys of a map in the state, or members of a set, are now equal to {key!r:.200}: they differed in a "
            "field that their class no longer has. Keep the field, or transform the state first"
        )


def _noting_name(names: set[str], name: str, version: int, *fields: Any) -> Any:
    # Not a method of the unpickler: a method would form a reference cycle with all values that were read.
    names.add(name)
    return stored_value(name, version, *fields)


def _complete(value: Any) -> None:
    # With a list of pending values instead of recursion: state may be nested deeper than Python's stack.
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
