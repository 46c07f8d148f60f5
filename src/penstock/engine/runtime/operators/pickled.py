"""Objects of the program, pickled at the time when the program passed them to the API."""

from __future__ import annotations

import pickle
from typing import Any

from penstock.common.errors import ProgramError


class Pickled:
    """The pickled bytes of an object. Unpickling a Pickled gives the object itself."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __reduce__(self) -> tuple[Any, ...]:
        return pickle.loads, (self.data,)


def unpickled(data: bytes, what: str, advice: str) -> Any:
    """Unpickle `what` in a worker. Raises ProgramError with its name and the advice if that fails."""
    try:
        return pickle.loads(data)
    except Exception as error:
        raise ProgramError(f"a worker can't unpickle {what}: {type(error).__name__}: {error}. {advice}") from error
