"""Makes a class of the script again, without what the script does when a class is made.

`__init_subclass__` and metaclasses may need arguments, which Python keeps nowhere, and may refuse or count what they
see twice. What those of the script have done arrives with the classes, so they are not called again. What a library
does is called, since it may remember the class in a module of its own.
"""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

_HOOK = "__init_subclass__"
_lock = threading.RLock()


@dataclass(frozen=True)
class ClassMaker:
    """In place of a metaclass: makes the empty class."""

    make: Callable[[str, tuple[type, ...], dict[str, Any]], Any]
    """The metaclass, or what stands for it."""
    library_type: type | None
    """What to make it by, if `make` is a metaclass of the script: the first of its bases that is not."""
    suspended: tuple[type, ...]
    """Classes whose `__init_subclass__` is not called."""

    @staticmethod
    def of(kind: type, make: Any, is_of_script: Callable[[type], bool]) -> Any:
        """What makes `kind`: a ClassMaker, or `make` if nothing is left out."""
        library_type = None
        if make is type(kind) and is_of_script(make):
            library_type = next(one for one in inspect.getmro(make) if not is_of_script(one))
        suspended = tuple(
            one for one in kind.__mro__[1:] if _HOOK in vars(one) and (is_of_script(one) or _needs_arguments(one))
        )
        return ClassMaker(make, library_type, suspended) if library_type or suspended else make

    def __call__(self, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
        with _lock, contextlib.ExitStack() as stack:
            for one in self.suspended:
                stack.enter_context(_without_hook(one))
            if self.library_type is None:
                return self.make(name, bases, body)
            library_type: Any = self.library_type
            made = library_type.__new__(self.make, name, bases, body)
            library_type.__init__(made, name, bases, body)
            return made


def _needs_arguments(kind: type) -> bool:
    hook = vars(kind)[_HOOK]
    try:
        _, *parameters = inspect.signature(hook.__func__).parameters.values()
    except (AttributeError, TypeError, ValueError):
        # Written in C.
        return False
    return any(one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in parameters)


@contextlib.contextmanager
def _without_hook(kind: Any) -> Iterator[None]:
    """The next class's `__init_subclass__` instead of that of `kind`."""
    hook = vars(kind).get(_HOOK)
    if hook is None:
        # Not set yet: `kind` refers to the class that is made.
        yield
        return
    type.__setattr__(kind, _HOOK, classmethod(lambda made, **_: getattr(super(kind, made), _HOOK)()))
    try:
        yield
    finally:
        type.__setattr__(kind, _HOOK, hook)
