"""Arbitrary values inside a control message: pickled when the message is encoded, unpickled by their reader.

The job master passes splits and results on without looking into them: what a user's class does when it is unpickled
should not run on the thread that decides about the job. Committables are an exception: a manifest names them by sink,
so the job master takes them apart.
"""

from __future__ import annotations

import pickle
from typing import Any

from penstock.common.functions.script_functions import dumps


class Opaque:
    """Holds a value, its pickled form, or both. Equal if the values are."""

    __slots__ = ("_data", "_value")
    _data: bytes | None
    _value: Any

    def __init__(self, value: Any) -> None:
        self._value = value
        self._data = None

    @classmethod
    def pickled(cls, value: Any) -> Opaque:
        """Hold a value and its pickled form as of now. Raises what the value's pickling raises."""
        opaque = cls(value)
        opaque._data = opaque.to_bytes()
        return opaque

    @classmethod
    def from_bytes(cls, data: bytes) -> Opaque:
        """Hold the pickled form, as received."""
        opaque = cls.__new__(cls)
        opaque._data = data
        return opaque

    @property
    def value(self) -> Any:
        """The value; unpickled at the first access. Only for messages of the job's own exchanges."""
        if not hasattr(self, "_value"):
            assert self._data is not None
            self._value = pickle.loads(self._data)
        return self._value

    def to_bytes(self) -> bytes:
        """The pickled value."""
        return self._data if self._data is not None else dumps(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and bool(self.value == other.value)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._value) if hasattr(self, "_value") else f"<{len(self._data or b'')} pickled bytes>"
