"""How methods of expressions make others."""

from __future__ import annotations

from typing import Any, Self

from penstock.table.composing.terms import TemplateTerm, Term, ValueTerm


def term_of(value: Any) -> Term:
    """Return the term of an expression, or of a value of Python. Raises TypeError for a value without a literal."""
    term = getattr(value, "term", None)
    if isinstance(term, Term):
        return term
    if callable(value):
        raise TypeError(f"expected an expression, got {value!r}: call it")
    from penstock.table.composing.sql_text import literal

    literal(value)
    return ValueTerm(value)


class Making:
    """Base of families of methods."""

    def __init__(self, term: Term) -> None:
        self.term = term
        """The content of the expression. Internal to the package."""

    def _of_term(self, term: Term) -> Self:
        return type(self)(term)

    def _made(self, template: str, *arguments: Any) -> Self:
        """Return an expression whose first place is for this one."""
        return self._of_term(TemplateTerm(template, (self.term, *map(term_of, arguments))))

    def _called(self, name: str, *arguments: Any) -> Self:
        """Return a call whose first argument is this expression. None at the end: arguments that are not given."""
        given = list(arguments)
        while given and given[-1] is None:
            given.pop()
        return self._made(f"{name}({', '.join(['{}'] * (len(given) + 1))})", *given)
