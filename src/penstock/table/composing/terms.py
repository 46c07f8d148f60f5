"""Terms: the trees of what expressions say, and how they become SQL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from penstock.table.composing.sql_text import literal, quoted

if TYPE_CHECKING:
    from penstock.table.user_functions import FunctionDefinition


class Scope(Protocol):
    """Where an expression stands: the table whose columns it names."""

    def function(self, function: FunctionDefinition) -> str:
        """Return the name by which SQL calls a function of the program."""

    def columns(self) -> list[str]:
        """Return the columns of the table."""

    def group_window(self, name: str) -> GroupWindowSql | None:
        """Return the window with this name, if the table has one."""

    def over_window(self, name: str) -> str | None:
        """Return the text behind OVER of the window with this name, if the table has one."""


class GroupWindowSql(Protocol):
    """A window by which a table is grouped."""

    def call(self, suffix: str, scope: Scope) -> str:
        """Return the call of its group function, or of TUMBLE_START and the like: `suffix` is `_START`."""


class Term:
    """A part of an expression."""

    def sql(self, scope: Scope) -> str:
        """Return its SQL."""
        raise NotImplementedError

    def parts(self) -> Iterator[Term]:
        """Yield the terms inside."""
        return iter(())

    @property
    def name(self) -> str | None:
        """The name that a column of it has; None: there is no such name."""
        return None


@dataclass(frozen=True)
class ColumnTerm(Term):
    """A column."""

    column: str

    def sql(self, scope: Scope) -> str:
        """Return its quoted name, or what a group is made of if it is the name of the table's window."""
        if self.column == "*":
            return "*"
        window = scope.group_window(self.column)
        return quoted(self.column) if window is None else window.call("", scope)

    @property
    def name(self) -> str | None:
        """The column."""
        return self.column


@dataclass(frozen=True)
class ValueTerm(Term):
    """A value of Python."""

    value: Any

    def sql(self, scope: Scope) -> str:
        """Return its literal."""
        return literal(self.value)


@dataclass(frozen=True)
class TextTerm(Term):
    """SQL as it is: a keyword, a type, an expression that the program wrote."""

    text: str

    def sql(self, scope: Scope) -> str:
        """Return it."""
        return self.text


@dataclass(frozen=True)
class TemplateTerm(Term):
    """A text with places `{}` for other terms. An aggregate function has a place `{distinct}`, too."""

    template: str
    arguments: tuple[Term, ...]
    is_distinct: bool = False

    def sql(self, scope: Scope) -> str:
        """Return the text with its arguments."""
        texts = [one.sql(scope) for one in self.arguments]
        return self.template.format(*texts, distinct="DISTINCT " if self.is_distinct else "")

    def parts(self) -> Iterator[Term]:
        """Yield the arguments."""
        return iter(self.arguments)

    @property
    def is_aggregate(self) -> bool:
        """Whether it is a call of an aggregate function."""
        return "{distinct}" in self.template


@dataclass(frozen=True)
class CallTerm(Term):
    """A call of a function of the program."""

    function: FunctionDefinition
    arguments: tuple[Term, ...]

    def sql(self, scope: Scope) -> str:
        """Return the call. A function that takes a row gets all columns."""
        if self.function.takes_row:
            texts = [quoted(name) for name in scope.columns()]
        else:
            texts = [one.sql(scope) for one in self.arguments]
        return f"{scope.function(self.function)}({', '.join(texts)})"

    def parts(self) -> Iterator[Term]:
        """Yield the arguments."""
        return iter(self.arguments)


@dataclass(frozen=True)
class FieldTerm(Term):
    """A field of a row."""

    row: Term
    field: str

    def sql(self, scope: Scope) -> str:
        """Return the row, a point and the field."""
        row = self.row.sql(scope)
        return f"{row if isinstance(self.row, (ColumnTerm, FieldTerm)) else f'({row})'}.{quoted(self.field)}"

    def parts(self) -> Iterator[Term]:
        """Yield the row."""
        yield self.row

    @property
    def name(self) -> str | None:
        """As in Flink, the names of the row and of the field."""
        return None if self.row.name is None else f"{self.row.name}${self.field}"


@dataclass(frozen=True)
class PropertyTerm(Term):
    """The start, end or time of a window."""

    window: Term
    suffix: str

    def sql(self, scope: Scope) -> str:
        """Return the call of the window's auxiliary function. Raises ValueError if it is not the table's window."""
        found = None if self.window.name is None else scope.group_window(self.window.name)
        if found is None:
            what = self.suffix.strip("_").lower()
            raise ValueError(
                f"{what} is that of a window: group by a window such as Tumble.over(...).on(...).alias('w'), and write "
                f"col('w').{what}"
            )
        return found.call(self.suffix, scope)


@dataclass(frozen=True)
class OverTerm(Term):
    """An aggregate over a window of rows."""

    aggregate: Term
    window: Term

    def sql(self, scope: Scope) -> str:
        """Return the call with its OVER. Raises ValueError if the table has no such window."""
        found = None if self.window.name is None else scope.over_window(self.window.name)
        if found is None:
            raise ValueError(f"there is no window {self.window.name!r}: call over_window(Over....alias(...)) before")
        return f"{self.aggregate.sql(scope)} OVER ({found})"

    def parts(self) -> Iterator[Term]:
        """Yield the aggregate."""
        yield self.aggregate


class Query(Protocol):
    """A query inside an expression."""

    def sql(self) -> str:
        """Return its text."""


@dataclass(frozen=True)
class QueryTerm(Term):
    """A query whose rows are values: `IN (SELECT ...)`."""

    query: Query

    def sql(self, scope: Scope) -> str:
        """Return the query."""
        return self.query.sql()


@dataclass(frozen=True)
class AliasTerm(Term):
    """A term with a name; several names for the columns of a table function."""

    term: Term
    names: tuple[str, ...]

    def sql(self, scope: Scope) -> str:
        """Return the term: who selects it adds the name."""
        return self.term.sql(scope)

    def parts(self) -> Iterator[Term]:
        """Yield the term."""
        yield self.term

    @property
    def name(self) -> str | None:
        """The first name."""
        return self.names[0]


@dataclass(frozen=True)
class OrderTerm(Term):
    """A term by which rows are ordered."""

    term: Term
    direction: str

    def sql(self, scope: Scope) -> str:
        """Return the term and its direction."""
        return f"{self.term.sql(scope)} {self.direction}"

    def parts(self) -> Iterator[Term]:
        """Yield the term."""
        yield self.term


def columns_of(term: Term) -> Iterator[str]:
    """Yield the names of columns in a term."""
    if isinstance(term, ColumnTerm):
        yield term.column
    for part in term.parts():
        yield from columns_of(part)
