"""The current key: what states need of the backend that they belong to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from penstock.common.errors import ProgramError


class KeyContext(Protocol):
    """The current key and namespace, and processing time in milliseconds."""

    key: Any
    namespace: Any
    now_ms: Callable[[], int]


class _NoKey:
    """In place of a key while records are processed that have none: a lookup of state with it raises."""

    def __hash__(self) -> int:
        raise ProgramError(
            "there is no current key: state and timers of a key can't be used while a broadcast record is processed. "
            "Use ctx.apply_to_keyed_state(descriptor, function) for the state of all keys"
        )


NO_KEY: Any = _NoKey()
