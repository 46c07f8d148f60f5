"""ORDER BY over Python rows: keys that compare as Flink's rows do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

Key = tuple[Any, ...]


class SortColumn(NamedTuple):
    """A column of ORDER BY, by its position."""

    place: int
    ascending: bool
    nulls_last: bool


def key_maker(columns: Sequence[SortColumn]) -> Callable[[Sequence[Any]], Key]:
    """Return the function from a row to its key: smaller keys come first."""
    parts = tuple(columns)

    def key(row: Sequence[Any]) -> Key:
        return tuple(_part(row[one.place], one) for one in parts)

    return key


def _part(value: Any, column: SortColumn) -> tuple[int, Any]:
    if value is None:
        return (1 if column.nulls_last else -1), 0
    if isinstance(value, float) and value != value:
        # NaN is greater than all other numbers.
        return (0, (1, 0.0)) if column.ascending else (0, (-1, 0.0))
    if isinstance(value, float):
        return 0, (0, value if column.ascending else -value)
    if column.ascending:
        return 0, value
    return 0, (-value if isinstance(value, int) and not isinstance(value, bool) else Descending(value))


class Descending:
    """A value that comes before smaller ones."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: Descending) -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Descending) and bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash(self.value)
