"""User functions that record when they are opened, called and closed.

Functions are unpickled in each slot, so a test can't pass objects to them: they write to the recorder that is active
in this process.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Lifecycles:
    """The life cycle of each function instance: a list of "open" and "close"."""

    def __init__(self) -> None:
        self._of: dict[int, list[str]] = {}
        self._alive: list[Any] = []

    def note(self, function: Any, what: str) -> None:
        """Record `what` for `function`. Instances are kept alive, because ids could be reused otherwise."""
        if id(function) not in self._of:
            self._alive.append(function)
        self._of.setdefault(id(function), []).append(what)

    def is_open(self, function: Any) -> bool:
        """Whether the function may be called."""
        return self._of.get(id(function)) == ["open"]

    @property
    def opened(self) -> int:
        """The number of instances that were opened."""
        return len(self._of)

    def wrong(self) -> list[str]:
        """Return the instances that were not opened once and then closed once."""
        return [
            f"{type(function).__name__}: {', '.join(self._of[id(function)])}"
            for function in self._alive
            if self._of[id(function)] != ["open", "close"]
        ]


_current = Lifecycles()


def current() -> Lifecycles:
    """Return the active recorder."""
    return _current


@contextmanager
def recorded() -> Iterator[Lifecycles]:
    """Context manager that activates a new recorder."""
    global _current
    before, _current = _current, Lifecycles()
    try:
        yield _current
    finally:
        _current = before


class RecordedFunction:
    """Base class of functions whose life cycle is recorded."""

    def open(self, runtime_context: Any) -> None:
        """Record the call."""
        current().note(self, "open")

    def close(self) -> None:
        """Record the call."""
        current().note(self, "close")

    def check_open(self) -> None:
        """Raise AssertionError if the function is called before `open` or after `close`."""
        assert current().is_open(self), f"{type(self).__name__} was called while it was not open"
