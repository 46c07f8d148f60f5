"""What to call next: the errors for methods that a stream does not have, or not yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from penstock.common.doors import pyflink_names


class Unfinished:
    """Base of what becomes a stream by one more call, `next_call`."""

    next_call: ClassVar[str]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(f"{type(self).__name__} has no {name!r}: continue with {self.next_call}")


def missing_method(owner: type, name: str, keyed: type) -> AttributeError:
    """The error for a method that a DataStream does not have: `keyed`, one with a key, may have it, or PyFlink's."""
    if not name.startswith("_") and hasattr(keyed, name):
        return AttributeError(f"a stream without a key has no {name!r}: call key_by first")
    return pyflink_names.missing_method(owner, name)
