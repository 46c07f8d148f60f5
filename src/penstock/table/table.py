"""`Table`: a query that is composed of calls. Source: PyFlink, pyflink.table.Table; Flink docs, "Table API".

A Table becomes SQL, which is planned for its schema, its plan or its rows: composing it starts nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.common.doors import pyflink_names
from penstock.common.doors.door import publish
from penstock.common.functions.driver_only import DriverOnly
from penstock.table.composing.relation import (
    Relation,
    RelationScope,
    known_names,
    missing_column,
    selected,
    unaliased,
)
from penstock.table.composing.sql_text import quoted
from penstock.table.composing.table_ends import TableEnds
from penstock.table.composing.terms import AliasTerm, CallTerm, ColumnTerm, Term
from penstock.table.expression import Expression
from penstock.table.window import GroupWindow, OverWindow

if TYPE_CHECKING:
    from penstock.table.table_environment import TableEnvironment
    from penstock.table.user_functions import FunctionDefinition

__all__ = ["GroupWindowedTable", "GroupedTable", "OverWindowedTable", "Table", "WindowGroupedTable"]


class Table(TableEnds, DriverOnly):
    """Rows of a query. Its columns are attributes: `table.price` is `col("price")`."""

    def __init__(self, environment: TableEnvironment, relation: Relation) -> None:
        self.environment = environment
        self.relation = relation
        """The query. Internal to the package."""

    def __getattr__(self, name: str) -> Expression:
        if name.startswith("_"):
            raise AttributeError(f"Table has no attribute {name!r}")
        known = self.relation.known
        if known is not None and name not in known:
            raise AttributeError(str(missing_column(name, known)) if known else f"Table has no attribute {name!r}")
        return Expression(ColumnTerm(name))

    # Rows and columns.

    def select(self, *fields: Expression | str) -> Table:
        """Return a table of these expressions; aggregates are those of all rows."""
        terms = _terms(fields, "select")
        self.relation.check(terms)
        return self._query(
            lambda: f"SELECT {selected(terms, RelationScope(self.relation))} FROM {self.relation.source()}",
            known_names(terms, self.relation.known),
            "select",
        )

    def alias(self, field: str, *fields: str) -> Table:
        """Rename the first columns."""
        names = (field, *fields)

        def render() -> str:
            columns = self.relation.columns()
            if len(names) > len(columns):
                raise ValueError(f"expected at most {len(columns)} names, got {', '.join(names)}")
            return self._renamed(dict(zip(columns, names, strict=False)))

        known = self.relation.known
        if known is not None:
            if len(names) > len(known):
                raise ValueError(f"the table has {len(known)} columns, got {len(names)} names: {', '.join(names)}")
            known = (*names, *known[len(names) :])
        return self._query(render, known, "alias")

    def filter(self, predicate: Expression) -> Table:
        """Return the rows for which the predicate is true."""
        (term,) = _terms((predicate,), "filter")
        self.relation.check([term])
        return self._query(
            lambda: f"SELECT * FROM {self.relation.source()} WHERE {term.sql(RelationScope(self.relation))}",
            self.relation.known,
            "filter",
        )

    def where(self, predicate: Expression) -> Table:
        """Return the rows for which the predicate is true: `filter`."""
        return self.filter(predicate)

    def distinct(self) -> Table:
        """Return each row once."""
        return self._query(lambda: f"SELECT DISTINCT * FROM {self.relation.source()}", self.relation.known, "distinct")

    def add_columns(self, *fields: Expression) -> Table:
        """Return the table with more columns. The name of a column that is there is an error: rename it before."""
        terms = _terms(fields, "add_columns")
        for term in terms:
            if self.relation.known is not None and term.name in self.relation.known:
                raise ValueError(f"the table has a column {term.name!r}: use add_or_replace_columns, or alias()")
        return self.select(Expression(ColumnTerm("*")), *map(Expression, terms))

    def add_or_replace_columns(self, *fields: Expression) -> Table:
        """Return the table with more columns, which take the places of those with their names."""
        terms = _terms(fields, "add_or_replace_columns")
        self.relation.check(terms)
        new = {term.name: term for term in terms if term.name is not None}

        def placed(columns: Sequence[str]) -> list[Term]:
            kept: list[Term] = [new.get(name) or ColumnTerm(name) for name in columns]
            return [*kept, *(term for term in terms if term.name not in columns)]

        def render() -> str:
            scope = RelationScope(self.relation)
            return f"SELECT {selected(placed(self.relation.columns()), scope)} FROM {self.relation.source()}"

        known = self.relation.known
        names = None if known is None else known_names(placed(known), known)
        return self._query(render, names, "add_or_replace_columns")

    def rename_columns(self, *fields: Expression) -> Table:
        """Return the table with other names: `col("a").alias("b")`."""
        renamed: dict[str, str] = {}
        for term in _terms(fields, "rename_columns"):
            if not isinstance(term, AliasTerm) or not isinstance(term.term, ColumnTerm):
                raise ValueError(f"expected names such as col('a').alias('b'), got {Expression(term)!r}")
            renamed[term.term.column] = term.names[0]
        self.relation.check(map(ColumnTerm, renamed))
        known = self.relation.known
        names = None if known is None else [renamed.get(name, name) for name in known]
        return self._query(lambda: self._renamed(renamed), names, "rename_columns")

    def drop_columns(self, *fields: Expression) -> Table:
        """Return the table without these columns."""
        dropped = [name for term in _terms(fields, "drop_columns") if (name := term.name) is not None]
        self.relation.check(map(ColumnTerm, dropped))

        def kept(columns: Sequence[str]) -> list[str]:
            found = [name for name in columns if name not in dropped]
            if not found:
                raise ValueError("drop_columns leaves no column")
            return found

        known = None if self.relation.known is None else kept(self.relation.known)
        return self._query(
            lambda: f"SELECT {', '.join(map(quoted, kept(self.relation.columns())))} FROM {self.relation.source()}",
            known,
            "drop_columns",
        )

    # Groups and windows.

    def group_by(self, *fields: Expression) -> GroupedTable:
        """Group the rows by these values: `select` with aggregates follows."""
        table, terms = _with_keys(self, _terms(fields, "group_by"))
        table.relation.check(terms)
        return GroupedTable(table, terms)

    def window(self, window: GroupWindow) -> GroupWindowedTable:
        """Group the rows by windows of time; `group_by` with the window's name follows."""
        if not isinstance(window, GroupWindow):
            raise TypeError(f"expected a window such as Tumble.over(...).on(...).alias('w'), got {window!r}")
        self.relation.check([window.time])
        return GroupWindowedTable(self, window)

    def over_window(self, *over_windows: OverWindow) -> OverWindowedTable:
        """Define windows of rows; `select` with `.over(col("w"))` follows."""
        for one in over_windows:
            if not isinstance(one, OverWindow):
                raise TypeError(f"expected a window such as Over.order_by(...).alias('w'), got {one!r}")
        return OverWindowedTable(self, over_windows)

    # Several tables.

    def join(self, right: Table, join_predicate: Expression | None = None) -> Table:
        """Return all pairs of rows for which the predicate is true. The names of columns must differ."""
        return self._joined("JOIN", right, join_predicate, "join")

    def left_outer_join(self, right: Table, join_predicate: Expression | None = None) -> Table:
        """Return the pairs, and the rows of this table without a pair."""
        return self._joined("LEFT JOIN", right, join_predicate, "left_outer_join")

    def right_outer_join(self, right: Table, join_predicate: Expression) -> Table:
        """Return the pairs, and the rows of the other table without a pair."""
        return self._joined("RIGHT JOIN", right, join_predicate, "right_outer_join")

    def full_outer_join(self, right: Table, join_predicate: Expression) -> Table:
        """Return the pairs, and the rows of both tables without a pair."""
        return self._joined("FULL JOIN", right, join_predicate, "full_outer_join")

    def join_lateral(
        self, table_function_call: Expression | FunctionDefinition, join_predicate: Expression | None = None
    ) -> Table:
        """Return each row with the rows that a table function gives for it."""
        return self._lateral("JOIN", table_function_call, join_predicate, "join_lateral")

    def left_outer_join_lateral(
        self, table_function_call: Expression | FunctionDefinition, join_predicate: Expression | None = None
    ) -> Table:
        """Return each row with the rows that a table function gives for it, with NULL if it gives none."""
        return self._lateral("LEFT JOIN", table_function_call, join_predicate, "left_outer_join_lateral")

    def union_all(self, right: Table) -> Table:
        """Return the rows of both tables."""
        return self._combined("UNION ALL", right, "union_all")

    def union(self, right: Table) -> Table:
        """Return the rows of both tables, each once."""
        return self._combined("UNION", right, "union")

    def minus(self, right: Table) -> Table:
        """Return the rows that the other table lacks, each once."""
        return self._combined("EXCEPT", right, "minus")

    def minus_all(self, right: Table) -> Table:
        """Return the rows, without as many as the other table has."""
        return self._combined("EXCEPT ALL", right, "minus_all")

    def intersect(self, right: Table) -> Table:
        """Return the rows of both tables, each once."""
        return self._combined("INTERSECT", right, "intersect")

    def intersect_all(self, right: Table) -> Table:
        """Return the rows that both tables have, as often as both have them."""
        return self._combined("INTERSECT ALL", right, "intersect_all")

    # Order.

    def order_by(self, *fields: Expression) -> Table:
        """Order the rows: in a stream, for the first ones by `limit`, or by a time attribute."""
        terms = _terms(fields, "order_by")
        self.relation.check(terms)
        return self._ordered(_Order(self.relation, tuple(terms)), "order_by")

    def limit(self, fetch: int, offset: int = 0) -> Table:
        """Return the first rows, behind the first `offset` of them."""
        table = self.offset(offset) if offset else self
        return table.fetch(fetch)

    def offset(self, offset: int) -> Table:
        """Leave out the first rows."""
        order = _order_of(self)
        if order.offset is not None or order.fetch is not None:
            order = _Order(self.relation, ())
        return self._ordered(order.with_bounds(offset=_count(offset), fetch=None), "offset")

    def fetch(self, fetch: int) -> Table:
        """Return the first rows."""
        order = _order_of(self)
        if order.fetch is not None:
            order = _Order(self.relation, ())
        return self._ordered(order.with_bounds(offset=order.offset, fetch=_count(fetch)), "fetch")

    # Functions of rows.

    def map(self, func: Expression | FunctionDefinition) -> Table:
        """Return the results of a scalar function; the fields of a ROW are columns. Without arguments it gets a Row."""
        call = _row_call(func, is_table_function=False)
        name, row = quoted("_row"), call.function.planned_type
        names = list(row.names) if row.root == "ROW" else ["_c0"]

        def render() -> str:
            text = call.sql(RelationScope(self.relation))
            if row.root != "ROW":
                return f"SELECT {text} AS {quoted('_c0')} FROM {self.relation.source()}"
            fields = ", ".join(f"{name}.{quoted(one)} AS {quoted(one)}" for one in row.names)
            return f"SELECT {fields} FROM (SELECT {text} AS {name} FROM {self.relation.source()})"

        return self._query(render, names, "map")

    def flat_map(self, func: Expression | FunctionDefinition) -> Table:
        """Return the rows that a table function gives for each row. Without arguments it gets a Row."""
        call = _row_call(func, is_table_function=True)
        names = list(call.function.aliases or call.function.planned_type.names)

        def render() -> str:
            columns = ", ".join(f"`_T`.{quoted(name)}" for name in names)
            return f"SELECT {columns} FROM {self.relation.source()}, {self._lateral_table(call, names)}"

        return self._query(render, names, "flat_map")

    # Internal to the package.

    def _query(self, render: Callable[[], str], known: Sequence[str] | None, call: str, *inputs: Table) -> Table:
        relations = [table.relation for table in (self, *inputs)]
        relation = Relation(self.environment, render, known=known, inputs=relations, call=call)
        return Table(self.environment, relation)

    def _renamed(self, names: dict[str, str]) -> str:
        terms: list[Term] = [
            AliasTerm(ColumnTerm(name), (names[name],)) if name in names else ColumnTerm(name)
            for name in self.relation.columns()
        ]
        return f"SELECT {selected(terms, RelationScope(self.relation))} FROM {self.relation.source()}"

    def _with(self, right: Table, call: str) -> None:
        if not isinstance(right, Table):
            raise TypeError(f"{call} needs another Table, got {right!r}")
        if right.environment is not self.environment:
            raise ValueError(f"{call} needs a table of the same TableEnvironment")

    def _joined(self, kind: str, right: Table, predicate: Expression | None, call: str) -> Table:
        self._with(right, call)
        known, others = self.relation.known, right.relation.known
        both = None if known is None or others is None else [*known, *others]
        if both is not None and (doubled := sorted({name for name in both if both.count(name) > 1})):
            raise ValueError(
                f"both tables have a column {doubled[0]!r}: rename it before, as in "
                f"right.rename_columns(col({doubled[0]!r}).alias('right_{doubled[0]}'))"
            )
        terms = [] if predicate is None else _terms((predicate,), call)
        joined = Relation(self.environment, lambda: "", known=both)
        joined.check(terms)

        def render() -> str:
            scope = RelationScope(joined)
            condition = terms[0].sql(scope) if terms else "TRUE"
            return f"SELECT * FROM {self.relation.source()} {kind} {right.relation.source()} ON {condition}"

        return self._query(render, both, call, right)

    def _lateral(self, kind: str, function: Any, predicate: Expression | None, call: str) -> Table:
        called = _row_call(function, is_table_function=True)
        names = list(called.function.aliases or called.function.planned_type.names)
        known = None if self.relation.known is None else [*self.relation.known, *names]
        terms = [] if predicate is None else _terms((predicate,), call)

        def render() -> str:
            condition = terms[0].sql(RelationScope(self.relation)) if terms else "TRUE"
            return f"SELECT * FROM {self.relation.source()} {kind} {self._lateral_table(called, names)} ON {condition}"

        return self._query(render, known, call)

    def _lateral_table(self, call: CallTerm, names: Sequence[str]) -> str:
        scope = RelationScope(self.relation)
        return f"LATERAL TABLE({call.sql(scope)}) AS `_T`({', '.join(map(quoted, names))})"

    def _combined(self, operator: str, right: Table, call: str) -> Table:
        self._with(right, call)
        known, others = self.relation.known, right.relation.known
        if known is not None and others is not None and len(known) != len(others):
            raise ValueError(f"{call} needs tables with as many columns: {', '.join(known)} and {', '.join(others)}")
        return self._query(
            lambda: f"SELECT * FROM {self.relation.source()} {operator} SELECT * FROM {right.relation.source()}",
            known,
            call,
            right,
        )

    def _ordered(self, order: _Order, call: str) -> Table:
        made = self._query(order.sql, self.relation.known, call)
        made.relation.order = order
        return made


@dataclass(frozen=True)
class _Order:
    """ORDER BY, OFFSET and FETCH, which belong to one query."""

    relation: Relation
    terms: tuple[Term, ...]
    offset: int | None = None
    fetch: int | None = None

    def with_bounds(self, offset: int | None, fetch: int | None) -> _Order:
        """Return the same order of other rows."""
        return _Order(self.relation, self.terms, offset, fetch)

    def sql(self) -> str:
        """Return the query."""
        text = f"SELECT * FROM {self.relation.source()}"
        if self.terms:
            scope = RelationScope(self.relation)
            text += f" ORDER BY {', '.join(term.sql(scope) for term in self.terms)}"
        if self.offset is not None:
            text += f" OFFSET {self.offset} ROWS"
        return text if self.fetch is None else f"{text} FETCH NEXT {self.fetch} ROWS ONLY"


class GroupedTable:
    """Rows in groups."""

    def __init__(self, table: Table, keys: Sequence[Term], windows: Sequence[GroupWindow] = ()) -> None:
        self._table = table
        self._keys = list(keys)
        self._windows = {window.name: window for window in windows}

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise pyflink_names.missing_method(type(self), name)

    def select(self, *fields: Expression | str) -> Table:
        """Return a row for each group: of keys, aggregates, and start and end of the window."""
        terms = _terms(fields, "select")
        relation = self._table.relation
        relation.check(terms, list(self._windows))

        def render() -> str:
            scope = RelationScope(relation, self._windows)
            keys = ", ".join(key.sql(scope) for key in self._keys)
            groups = f" GROUP BY {keys}" if keys else ""
            return f"SELECT {selected(terms, scope, grouped=True)} FROM {relation.source()}{groups}"

        return self._table._query(render, known_names(terms, None, grouped=True), "select")


class GroupWindowedTable:
    """Rows in windows: `group_by` follows."""

    def __init__(self, table: Table, window: GroupWindow) -> None:
        self._table = table
        self._window = window

    def group_by(self, *fields: Expression) -> WindowGroupedTable:
        """Group by the window, `col("w")`, and perhaps by columns."""
        terms = _terms(fields, "group_by")
        if not any(isinstance(term, ColumnTerm) and term.column == self._window.name for term in terms):
            raise ValueError(f"group_by needs the window, col({self._window.name!r}), among its keys")
        table, terms = _with_keys(self._table, terms)
        table.relation.check(terms, [self._window.name])
        return WindowGroupedTable(table, terms, [self._window])


class WindowGroupedTable(GroupedTable):
    """Rows in groups of a window."""


class OverWindowedTable:
    """Rows with windows of rows around them: `select` follows."""

    def __init__(self, table: Table, windows: Sequence[OverWindow]) -> None:
        self._table = table
        self._windows = {window.name: window for window in windows}

    def select(self, *fields: Expression | str) -> Table:
        """Return a row for each row: of columns, and aggregates over windows."""
        terms = _terms(fields, "select")
        relation = self._table.relation
        relation.check(terms)

        def render() -> str:
            scope = RelationScope(relation, over=self._windows)
            return f"SELECT {selected(terms, scope)} FROM {relation.source()}"

        return self._table._query(render, known_names(terms, relation.known), "select")


def _terms(fields: Sequence[Any], call: str) -> list[Term]:
    if not fields:
        raise ValueError(f"{call} needs at least one expression")
    terms: list[Term] = []
    for field in fields:
        if isinstance(field, str) and call == "select":
            terms.append(ColumnTerm(field))
        elif isinstance(field, Expression):
            terms.append(field.term)
        else:
            raise TypeError(f"{call} needs expressions such as col('a'), got {field!r}")
    return terms


def _with_keys(table: Table, terms: list[Term]) -> tuple[Table, list[Term]]:
    """Return the table with keys that have names as columns, and the keys."""
    named = [term for term in terms if isinstance(term, AliasTerm)]
    if named:
        table = table.add_columns(*map(Expression, named))
    keys: list[Term] = [ColumnTerm(term.names[0]) if isinstance(term, AliasTerm) else term for term in terms]
    return table, keys


def _row_call(function: Any, *, is_table_function: bool) -> CallTerm:
    """Return the call of a function; one without arguments gets the whole row."""
    if isinstance(function, Expression):
        term, names = unaliased(function.term)
        if not isinstance(term, CallTerm):
            raise TypeError(f"expected the call of a function made by udf or udtf, got {function!r}")
        if term.function.is_table_function != is_table_function:
            raise _other_kind(term.function, is_table_function)
        return CallTerm(term.function.alias(*names), term.arguments) if names else term
    if not hasattr(function, "planned_type"):
        raise TypeError(f"expected a function made by {'udtf' if is_table_function else 'udf'}, got {function!r}")
    if function.is_table_function != is_table_function:
        raise _other_kind(function, is_table_function)
    return CallTerm(function.taking_rows(), ())


def _other_kind(function: FunctionDefinition, is_table_function: bool) -> TypeError:
    expected = ("udf", "udtf")[is_table_function]
    return TypeError(f"expected a function made by {expected}, got {function!r}")


def _order_of(table: Table) -> _Order:
    return table.relation.order or _Order(table.relation, ())


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"expected a number of rows, got {value!r}")
    return value


publish(__name__, __all__)
