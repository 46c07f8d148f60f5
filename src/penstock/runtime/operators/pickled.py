"""An object of the program as it was when it was pickled."""

from __future__ import annotations

import pickle
from typing import Any


class Pickled:
    """Bytes of an object. Where they arrive in a pickle they are the object."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __reduce__(self) -> tuple[Any, ...]:
        return pickle.loads, (self.data,)
