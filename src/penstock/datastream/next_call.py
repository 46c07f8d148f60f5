"""Errors for methods that a stream does not have, with the next call to make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from penstock.common.doors import pyflink_names


class Unfinished:
    """Base class of objects that become a stream by a further call, `next_call`."""

    next_call: ClassVar[str]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(f"{type(self).__name__} has no {name!r}: continue with {self.next_call}")


def missing_method(owner: type, name: str, keyed: type) -> AttributeError:
    """Return the error for a missing method of a DataStream, with advice if `keyed` or PyFlink's class has it."""
    if name == "close_with":
        return AttributeError(f"{owner.__name__} has no 'close_with': call it on what iterate() has returned")
    if not name.startswith("_") and hasattr(keyed, name):
        return AttributeError(f"a stream without a key has no {name!r}: call key_by first")
    return pyflink_names.missing_method(owner, name)
