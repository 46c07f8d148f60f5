"""Relations: what a Table is made of. Each becomes a query of SQL, for a plan or a schema."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from penstock.table.composing.sql_text import quoted
from penstock.table.composing.terms import AliasTerm, GroupWindowSql, PropertyTerm, TemplateTerm, Term, columns_of

if TYPE_CHECKING:
    from penstock.table.logical_types import LogicalType
    from penstock.table.user_functions import FunctionDefinition

_PACKAGE = str(Path(__file__).parents[2])


class Names(Protocol):
    """What relations need of their environment."""

    def _function_name(self, function: FunctionDefinition, row_names: tuple[str, ...] | None) -> str:
        """Return the name of a function, quoted."""

    def _schema_of(self, relation: Relation) -> list[tuple[str, LogicalType, str]]:
        """Ask the planner for name, type and shown type of each column."""


class Relation:
    """A query, or a table of the catalog.

    `render`: returns the query. `known`: its columns, if they are known without the planner. `path`: of a table.
    `call`: the method of Table that made it; its place in the program is part of errors.
    """

    def __init__(
        self,
        environment: Names,
        render: Callable[[], str],
        *,
        known: Sequence[str] | None = None,
        inputs: Sequence[Relation] = (),
        path: str | None = None,
        call: str = "",
    ) -> None:
        self.environment = environment
        self.known = None if known is None else tuple(known)
        self.inputs = tuple(inputs)
        self.path = path
        self.call = call
        self.place = place_of_call() if call else ""
        self.order: Any = None
        """ORDER BY and its bounds, if the relation has them: a bound that follows belongs to the same query."""
        self._render = render
        self._text: str | None = None
        self._schema: list[tuple[str, LogicalType, str]] | None = None

    def sql(self) -> str:
        """Return the query."""
        if self._text is None:
            self._text = self._render()
        return self._text

    def source(self) -> str:
        """Return the text behind FROM."""
        return self.path or f"({self.sql()})"

    def columns(self) -> list[str]:
        """Return the names of the columns, perhaps by the planner."""
        return list(self.known) if self.known is not None else [name for name, _, _ in self.schema()]

    def schema(self) -> list[tuple[str, LogicalType, str]]:
        """Return name, type and shown type of each column, which the planner tells once."""
        if self._schema is None:
            self._schema = self.environment._schema_of(self)
        return self._schema

    def check(self, terms: Iterable[Term], also: Sequence[str] = ()) -> None:
        """Raise SqlError if a term has a column that is known to be missing. `also`: names of windows."""
        if self.known is None:
            return
        for name in (name for term in terms for name in columns_of(term)):
            if name not in self.known and name not in also and name != "*":
                raise missing_column(name, self.known)


def missing_column(name: str, known: Sequence[str]) -> Exception:
    """Return the error of a column that is not there."""
    from penstock.table.planner.errors import SqlError

    close = difflib.get_close_matches(name, known, 1)
    hint = f". Did you mean {close[0]!r}?" if close else ""
    return SqlError(f"the table has no column {name!r}: its columns are {', '.join(known)}{hint}")


def place_of_call() -> str:
    """Return file and line of the program's call."""
    frame = inspect.currentframe()
    assert frame is not None
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}, line {frame.f_lineno}"


class RelationScope:
    """Where expressions over a relation stand. `windows`: group windows by name; `over`: windows of rows by name."""

    def __init__(
        self,
        relation: Relation,
        windows: Mapping[str, GroupWindowSql] | None = None,
        over: Mapping[str, Any] | None = None,
    ) -> None:
        self._relation = relation
        self._windows = windows or {}
        self._over = over or {}

    def function(self, function: FunctionDefinition) -> str:
        """Return the name by which SQL calls a function of the program."""
        names = tuple(self._relation.columns()) if function.takes_row else None
        return self._relation.environment._function_name(function, names)

    def columns(self) -> list[str]:
        """Return the columns of the table."""
        return self._relation.columns()

    def group_window(self, name: str) -> GroupWindowSql | None:
        """Return the window with this name."""
        return self._windows.get(name)

    def over_window(self, name: str) -> str | None:
        """Return the text behind OVER of the window with this name."""
        found = self._over.get(name)
        return None if found is None else found.sql(self)


def selected(terms: Sequence[Term], scope: RelationScope, *, grouped: bool = False) -> str:
    """Return the list behind SELECT: each term with the name that it has in Flink."""
    names = output_names(terms, grouped=grouped)
    texts = []
    for term, name in zip(terms, names, strict=True):
        text = term.sql(scope)
        texts.append(text if name is None or text == quoted(name) else f"{text} AS {quoted(name)}")
    return ", ".join(texts)


def output_names(terms: Sequence[Term], *, grouped: bool = False) -> list[str | None]:
    """Return the names of columns: `_c0`, or of aggregates `EXPR$0`, without one of their own; None: many columns.

    Source: Flink's ProjectionOperationFactory and OperationTreeBuilder.
    """
    names: list[str | None] = []
    unnamed = aggregates = 0
    for term in terms:
        is_aggregate = isinstance(term, PropertyTerm) or (isinstance(term, TemplateTerm) and term.is_aggregate)
        if is_many(term):
            names.append(None)
        elif term.name is not None:
            names.append(term.name)
        elif grouped and is_aggregate:
            names.append(f"EXPR${aggregates}")
            aggregates += 1
        else:
            names.append(f"_c{unnamed}")
            unnamed += 1
    return names


def known_names(terms: Sequence[Term], known: Sequence[str] | None, *, grouped: bool = False) -> list[str] | None:
    """Return the names of the selected columns, if they are known without the planner."""
    found: list[str] = []
    for term, name in zip(terms, output_names(terms, grouped=grouped), strict=True):
        if name is not None:
            found.append(name)
        elif term.name == "*" and known is not None:
            found += known
        else:
            return None
    return found


def is_many(term: Term) -> bool:
    """Return whether a term stands for several columns."""
    return term.name == "*" or (isinstance(term, TemplateTerm) and term.template.endswith(".*"))


def unaliased(term: Term) -> tuple[Term, tuple[str, ...]]:
    """Return a term and its names."""
    return (term.term, term.names) if isinstance(term, AliasTerm) else (term, ())
