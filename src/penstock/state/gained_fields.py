"""Reading pickles of dataclasses that have gained fields since: what is missing gets its default.

Pickle restores the attributes that an object had when it was written, and does not report those added since.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, BinaryIO

from penstock.common.errors import CheckpointError, ProgramError
from penstock.common.types import Row
from penstock.state.former_names import found_by_former_name

STAND_IN: ContextVar[Callable[[str, str], Any] | None] = ContextVar("STAND_IN", default=None)
"""Given module and name of a class that can't be imported, returns a substitute; None: the import error is raised."""


class StateUnpickler(pickle.Unpickler):
    """Remembers the dataclasses it has met; `load_complete` sets the missing fields of their instances."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__(stream)
        self._met: set[type] = set()

    def find_class(self, module: str, name: str) -> Any:
        """Called by pickle for each class that it meets."""
        try:
            found = found_by_former_name(module, name) or super().find_class(module, name)
        except (ImportError, AttributeError, ProgramError):
            stand_in = STAND_IN.get()
            if stand_in is None:
                raise
            return stand_in(module, name)
        if isinstance(found, type) and dataclasses.is_dataclass(found):
            self._met.add(found)
        return found

    def load_complete(self) -> Any:
        """The next object. Raises CheckpointError for a class that has gained a field without a default."""
        value = self.load()
        if self._met:
            _complete(value, set())
        return value


def _complete(value: Any, seen: set[int]) -> None:
    # With a list of pending values, not recursively: state may be nested deeper than Python's stack.
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, type) or id(one) in seen:
            continue
        parts: list[Any] = []
        if dataclasses.is_dataclass(one):
            parts += _completed(one)
        if isinstance(one, dict):
            parts += one
            parts += one.values()
        elif isinstance(one, (list, tuple, set, frozenset, deque, Row)):
            parts += one
        if parts:
            seen.add(id(one))
            waiting += parts


def _completed(one: Any) -> list[Any]:
    values = []
    for field in dataclasses.fields(one):
        try:
            values.append(getattr(one, field.name))
        except AttributeError:
            object.__setattr__(one, field.name, _default(type(one), field))
    return values


def _default(kind: type, field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    raise CheckpointError(
        f"the dataclass {kind.__qualname__} has gained the field '{field.name}' since its state was written: give the "
        "field a default"
    )
