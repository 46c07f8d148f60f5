"""Users' functions that tell when they are opened, called and closed.

Functions are unpickled in each slot, so they can't be handed anything of the test: they write to the record that is in
use in this process.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Lifecycles:
    """What happened to each instance of a function: a list of "open", "close" by instance."""

    def __init__(self) -> None:
        self._of: dict[int, list[str]] = {}
        self._alive: list[Any] = []

    def note(self, function: Any, what: str) -> None:
        """`what` happened to `function`. Instances are kept, or two could have one id."""
        if id(function) not in self._of:
            self._alive.append(function)
        self._of.setdefault(id(function), []).append(what)

    def is_open(self, function: Any) -> bool:
        """Whether the function may be called."""
        return self._of.get(id(function)) == ["open"]

    @property
    def opened(self) -> int:
        """How many instances were opened."""
        return len(self._of)

    def wrong(self) -> list[str]:
        """Instances that were not opened once and then closed once."""
        return [
            f"{type(function).__name__}: {', '.join(self._of[id(function)])}"
            for function in self._alive
            if self._of[id(function)] != ["open", "close"]
        ]


_current = Lifecycles()


def current() -> Lifecycles:
    """The record in use."""
    return _current


@contextmanager
def recorded() -> Iterator[Lifecycles]:
    """A new record, in use while this is open."""
    global _current
    before, _current = _current, Lifecycles()
    try:
        yield _current
    finally:
        _current = before


class Followed:
    """Base of functions whose life is recorded."""

    def open(self, runtime_context: Any) -> None:
        """Noted."""
        current().note(self, "open")

    def close(self) -> None:
        """Noted."""
        current().note(self, "close")

    def check_open(self) -> None:
        """Raises AssertionError if the function is called before `open` or after `close`."""
        assert current().is_open(self), f"{type(self).__name__} was called while it was not open"
