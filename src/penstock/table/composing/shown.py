"""Expressions as their repr shows them: the SQL that they become, whatever table they are for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.table.composing.sql_text import quoted
from penstock.table.composing.terms import Term

if TYPE_CHECKING:
    from penstock.table.user_functions import FunctionDefinition


class _Window:
    def __init__(self, name: str) -> None:
        self._name = name

    def call(self, suffix: str, scope: object) -> str:
        """Return the name, and the property of the window."""
        return quoted(self._name) + suffix.lower().replace("_", ".")


class _AnyTable:
    def function(self, function: FunctionDefinition) -> str:
        """Return the name that the program has given the function."""
        return function.name

    def columns(self) -> list[str]:
        """Return a star."""
        return ["*"]

    def group_window(self, name: str) -> _Window | None:
        """Return a window of that name."""
        return _Window(name)

    def over_window(self, name: str) -> str | None:
        """Return the name."""
        return quoted(name)


def shown(term: Term) -> str:
    """Return the text of a term. Its windows are shown by their names."""
    return term.sql(_AnyTable())
