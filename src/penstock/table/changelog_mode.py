"""`ChangelogMode`: the kinds of rows of a changelog. Source: PyFlink, pyflink.table.ChangelogMode."""

from __future__ import annotations


class ChangelogMode:
    """Kinds of rows: I, UB, UA and D."""

    def __init__(self, kinds: tuple[str, ...]) -> None:
        self.kinds = kinds
        """Internal to the package."""

    @staticmethod
    def insert_only() -> ChangelogMode:
        """Return the mode of rows that are inserted."""
        return ChangelogMode(("I",))

    @staticmethod
    def upsert() -> ChangelogMode:
        """Return the mode of rows that are inserted, or replace one with their key, and of rows that go."""
        return ChangelogMode(("I", "UA", "D"))

    @staticmethod
    def all() -> ChangelogMode:
        """Return the mode of all kinds: an update has the row before it, too."""
        return ChangelogMode(("I", "UB", "UA", "D"))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ChangelogMode) and self.kinds == other.kinds

    def __hash__(self) -> int:
        return hash(self.kinds)
