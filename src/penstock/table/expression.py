"""`Expression`: what is computed of a table's columns. Source: PyFlink, pyflink.table.Expression.

An expression is composed without the planner: it becomes SQL, and is checked, when a table is planned.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, NoReturn

from penstock.common.doors.door import publish
from penstock.table.composing.aggregates import AggregateMethods
from penstock.table.composing.collections import CollectionMethods
from penstock.table.composing.json import (
    JsonExistsOnError,
    JsonMethods,
    JsonOnNull,
    JsonQueryOnEmptyOrError,
    JsonQueryWrapper,
    JsonType,
    JsonValueOnEmptyOrError,
)
from penstock.table.composing.making import term_of
from penstock.table.composing.numbers import NumberMethods
from penstock.table.composing.sql_text import check_name, type_text
from penstock.table.composing.terms import (
    AliasTerm,
    ColumnTerm,
    FieldTerm,
    OrderTerm,
    OverTerm,
    QueryTerm,
    TemplateTerm,
    Term,
    TextTerm,
    ValueTerm,
)
from penstock.table.composing.texts import TextMethods
from penstock.table.composing.times import TimeMethods

if TYPE_CHECKING:
    from penstock.table.types import DataType

__all__ = [
    "JsonExistsOnError",
    "JsonOnNull",
    "JsonQueryOnEmptyOrError",
    "JsonQueryWrapper",
    "JsonType",
    "JsonValueOnEmptyOrError",
    "TimeIntervalUnit",
    "TimePointUnit",
]


class TimeIntervalUnit(enum.Enum):
    """Units to which times are rounded, and that are extracted of them."""

    YEAR = 0
    YEAR_TO_MONTH = 1
    QUARTER = 2
    MONTH = 3
    WEEK = 4
    DAY = 5
    DAY_TO_HOUR = 6
    DAY_TO_MINUTE = 7
    DAY_TO_SECOND = 8
    HOUR = 9
    SECOND = 10
    HOUR_TO_MINUTE = 11
    HOUR_TO_SECOND = 12
    MINUTE = 13
    MINUTE_TO_SECOND = 14


class TimePointUnit(enum.Enum):
    """Units of differences between times."""

    YEAR = 0
    MONTH = 1
    DAY = 2
    HOUR = 3
    MINUTE = 4
    SECOND = 5
    QUARTER = 6
    WEEK = 7
    MILLISECOND = 8
    MICROSECOND = 9


class Expression(
    NumberMethods, TextMethods, TimeMethods, CollectionMethods, JsonMethods, AggregateMethods
):  # Each family of methods is a file of its own.
    """A column, a value, or a function of them: `col("price") * 2`, `col("name").upper_case`.

    Its operators are those of Python, with `&`, `|` and `~` for AND, OR and NOT. Attributes that are not methods are
    fields of a row: `col("address").city`.
    """

    def __init__(self, term: Term) -> None:
        super().__init__(term)

    # Operators.

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return self._made("({} = {})", other)

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return self._made("({} <> {})", other)

    def __lt__(self, other: Any) -> Expression:
        return self._made("({} < {})", other)

    def __gt__(self, other: Any) -> Expression:
        return self._made("({} > {})", other)

    def __le__(self, other: Any) -> Expression:
        return self._made("({} <= {})", other)

    def __ge__(self, other: Any) -> Expression:
        return self._made("({} >= {})", other)

    def __and__(self, other: Any) -> Expression:
        return self._made("({} AND {})", other)

    def __or__(self, other: Any) -> Expression:
        return self._made("({} OR {})", other)

    def __rand__(self, other: Any) -> Expression:
        return self._made("({1} AND {0})", other)

    def __ror__(self, other: Any) -> Expression:
        return self._made("({1} OR {0})", other)

    def __invert__(self) -> Expression:
        return self._made("({} IS NOT TRUE)")

    def __add__(self, other: Any) -> Expression:
        return self._made("({} || {})" if self._is_text(other) else "({} + {})", other)

    def __radd__(self, other: Any) -> Expression:
        return self._made("({1} || {0})" if self._is_text(other) else "({1} + {0})", other)

    def __sub__(self, other: Any) -> Expression:
        return self._made("({} - {})", other)

    def __rsub__(self, other: Any) -> Expression:
        return self._made("({1} - {0})", other)

    def __mul__(self, other: Any) -> Expression:
        return self._made("({} * {})", other)

    def __rmul__(self, other: Any) -> Expression:
        return self._made("({1} * {0})", other)

    def __truediv__(self, other: Any) -> Expression:
        return self._made("({} / {})", other)

    def __rtruediv__(self, other: Any) -> Expression:
        return self._made("({1} / {0})", other)

    def __mod__(self, other: Any) -> Expression:
        return self._made("MOD({}, {})", other)

    def __rmod__(self, other: Any) -> Expression:
        return self._made("MOD({1}, {0})", other)

    def __pow__(self, other: Any) -> Expression:
        return self._made("POWER({}, {})", other)

    def __rpow__(self, other: Any) -> Expression:
        return self._made("POWER({1}, {0})", other)

    def __neg__(self) -> Expression:
        return self._made("(- {})")

    def __abs__(self) -> Expression:
        return self._made("ABS({})")

    def __getitem__(self, index: Any) -> Expression:
        return self.at(index)

    def __iter__(self) -> NoReturn:
        raise TypeError(f"{self!r} has no elements before a query runs")

    def __hash__(self) -> int:
        return id(self)

    def __bool__(self) -> bool:
        raise TypeError(
            f"whether {self!r} is true is known for each row alone: write & for and, | for or, ~ for not, with "
            "parentheses around comparisons"
        )

    def __getattr__(self, name: str) -> Expression:
        if name.startswith("_"):
            raise AttributeError(f"Expression has no attribute {name!r}")
        return self.get(name)

    def __repr__(self) -> str:
        from penstock.table.composing.shown import shown

        return shown(self.term)

    # Names, types and places.

    def alias(self, name: str, *extra_names: str) -> Expression:
        """Name the column; several names are those of the columns of a table function."""
        for one in (name, *extra_names):
            check_name(one, "a column")
        return self._of_term(AliasTerm(self.term, (name, *extra_names)))

    def cast(self, data_type: DataType | str) -> Expression:
        """Convert the values to a type; a value that can't be converted is an error of the job."""
        return self._cast("CAST", data_type)

    def try_cast(self, data_type: DataType | str) -> Expression:
        """Convert the values to a type; a value that can't be converted becomes NULL."""
        return self._cast("TRY_CAST", data_type)

    def _cast(self, function: str, data_type: Any) -> Expression:
        from penstock.table.declared_types import logical_type

        kind = TextTerm(type_text(logical_type(data_type)))
        return self._of_term(TemplateTerm(f"{function}({{}} AS {{}})", (self.term, kind)))

    @property
    def asc(self) -> Expression:
        """Order rows by this, the least first."""
        return self._of_term(OrderTerm(self.term, "ASC"))

    @property
    def desc(self) -> Expression:
        """Order rows by this, the largest first."""
        return self._of_term(OrderTerm(self.term, "DESC"))

    @property
    def distinct(self) -> Expression:
        """Aggregate each value once: `col("a").count.distinct`. Raises TypeError for what is not an aggregate."""
        if not isinstance(self.term, TemplateTerm) or not self.term.is_aggregate:
            raise TypeError(f"distinct follows an aggregate, as in col('a').count.distinct; got {self!r}")
        return self._of_term(TemplateTerm(self.term.template, self.term.arguments, is_distinct=True))

    def over(self, alias: Expression) -> Expression:
        """Aggregate over a window of rows: the name that it has in `over_window`."""
        return self._of_term(OverTerm(self.term, term_of(alias)))

    def in_(self, first_element_or_table: Any, *remaining_elements: Any) -> Expression:
        """Return whether the value is one of these, or of the rows of a table with one column."""
        relation = getattr(first_element_or_table, "relation", None)
        if relation is not None and not isinstance(first_element_or_table, Expression):
            return self._of_term(TemplateTerm("({} IN ({}))", (self.term, QueryTerm(relation))))
        elements = (first_element_or_table, *remaining_elements)
        return self._made(f"({{}} IN ({', '.join(['{}'] * len(elements))}))", *elements)

    def get(self, name_or_index: str | int) -> Expression:
        """Return a field of a row, by its name. Raises TypeError for a place: columns have no places in SQL."""
        if not isinstance(name_or_index, str):
            raise TypeError(f"expected the name of a field, got {name_or_index!r}")
        return self._of_term(FieldTerm(self.term, name_or_index))

    @property
    def flatten(self) -> Expression:
        """Return all fields of a row as columns."""
        return self._of_term(TemplateTerm("{}.*", (self.term,)))

    def as_argument(self, name: str) -> Expression:
        """Make this the argument of a function by its name: `name => value`."""
        return self._of_term(TemplateTerm("{} => {}", (TextTerm(name), self.term)))

    def _is_text(self, other: Any) -> bool:
        """As in Flink, `+` with a text joins texts; here the other side has to be seen to be one."""
        mine = self.term.value if isinstance(self.term, ValueTerm) else None
        term = getattr(other, "term", None)
        theirs = term.value if isinstance(term, ValueTerm) else other
        return isinstance(mine, str) or isinstance(theirs, str)


def column(name: str) -> Expression:
    """Return the expression of a column."""
    check_name(name, "a column")
    return Expression(ColumnTerm(name))


# Patterns of events have a class of the same name, so this one is not among the names of the module.
publish(__name__, [*__all__, "Expression"])
