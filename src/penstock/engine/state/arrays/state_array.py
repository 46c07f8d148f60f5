"""An array of a table: a part of the value of each key, at the key's slot."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from penstock.engine.state.arrays.row_keys import Integers
from penstock.engine.state.arrays.stored_columns import StoredColumn


class StateArray(ABC):
    """A value of each key. Slots are below the room of the last call of `grow`."""

    @abstractmethod
    def grow(self, room: int) -> None:
        """Make room for so many keys. The new ones have no value."""

    @abstractmethod
    def clear(self, slots: Integers) -> None:
        """Remove the values of these slots."""

    @abstractmethod
    def keep(self, slots: Integers) -> None:
        """Keep only the values of these slots, which are the slots 0, 1, 2 and so on from now on."""

    @abstractmethod
    def stored(self, slots: Integers) -> StoredColumn:
        """Return a copy of the values of these slots for a snapshot."""

    @abstractmethod
    def restore(self, slots: Integers, column: StoredColumn) -> None:
        """Set values from a snapshot, as `stored` returned them, perhaps in another form."""

    @abstractmethod
    def load(self, slots: Integers, values: Sequence[Any]) -> None:
        """Set values that are Python's, as `StoredColumn.values` returns them.

        Raises TypeError or OverflowError for a value that the array cannot hold.
        """

    def compact(self) -> None:
        """Give up the room of what has gone. Not called while a snapshot reads the array, perhaps in another thread.

        All else that is called meanwhile must leave the values of other slots where they are.
        """

    @property
    @abstractmethod
    def bytes_per_key(self) -> int:
        """The size of a value in memory."""
