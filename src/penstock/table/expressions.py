"""Functions that make expressions: `col`, `lit`, and others. Source: PyFlink, pyflink.table.expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.doors.door import publish
from penstock.table.composing.making import term_of
from penstock.table.composing.sql_text import quoted
from penstock.table.composing.terms import CallTerm, TemplateTerm, Term, TextTerm
from penstock.table.expression import (
    Expression,
    JsonOnNull,
    TimePointUnit,
    column,
)

if TYPE_CHECKING:
    from penstock.table.types import DataType
    from penstock.table.user_functions import FunctionDefinition

__all__ = [
    "and_",
    "array",
    "atan2",
    "call",
    "call_sql",
    "coalesce",
    "col",
    "concat",
    "concat_ws",
    "convert_tz",
    "current_database",
    "current_date",
    "current_time",
    "current_timestamp",
    "current_watermark",
    "date_format",
    "e",
    "from_unixtime",
    "greatest",
    "if_then_else",
    "json_array",
    "json_object",
    "json_string",
    "lag",
    "lead",
    "least",
    "lit",
    "local_time",
    "local_timestamp",
    "log",
    "map_",
    "map_from_arrays",
    "negative",
    "not_",
    "null_of",
    "or_",
    "pi",
    "rand",
    "rand_integer",
    "row",
    "row_interval",
    "source_watermark",
    "temporal_overlaps",
    "timestamp_diff",
    "to_date",
    "to_timestamp",
    "to_timestamp_ltz",
    "unix_timestamp",
    "uuid",
    "with_all_columns",
]


def col(name: str) -> Expression:
    """Return a column of the table. `*` stands for all columns."""
    return column(name)


def lit(v: Any, data_type: DataType | str | None = None) -> Expression:
    """Return a value: None, a number, a text, bytes, a date, a time, a list or a dict. `data_type`: cast to it.

    An int is an INT if it fits, otherwise a BIGINT; a float a DOUBLE; a Decimal has its own digits.
    """
    made = Expression(term_of(v))
    return made if data_type is None else made.cast(data_type)


def null_of(data_type: DataType | str) -> Expression:
    """Return NULL of a type."""
    return lit(None, data_type)


def call(f: str | FunctionDefinition, *args: Any) -> Expression:
    """Call a function: one of the catalog or of SQL by its name, or one made by `udf` or `udtf`."""
    arguments = tuple(map(term_of, args))
    if isinstance(f, str):
        return _of(f"{f if f.isidentifier() else quoted(f)}({', '.join(['{}'] * len(arguments))})", *arguments)
    return Expression(CallTerm(f, arguments))


def call_sql(sql_expression: str) -> Expression:
    """Return an expression of SQL, as it is written."""
    if not isinstance(sql_expression, str):
        raise TypeError(f"expected an expression of SQL as text, got {sql_expression!r}")
    return Expression(TextTerm(f"({sql_expression})"))


def and_(predicate0: Any, predicate1: Any, *predicates: Any) -> Expression:
    """Return whether all are true."""
    return _joined(" AND ", (predicate0, predicate1, *predicates))


def or_(predicate0: Any, predicate1: Any, *predicates: Any) -> Expression:
    """Return whether one of them is true."""
    return _joined(" OR ", (predicate0, predicate1, *predicates))


def row_interval(rows: Any) -> Expression:
    """Return a number of rows, for windows of rows."""
    if not isinstance(rows, int) or isinstance(rows, bool) or rows < 0:
        raise ValueError(f"expected a number of rows, got {rows!r}")
    return Expression(TextTerm(f"{rows}"))


def with_all_columns() -> Expression:
    """Return all columns of the table."""
    return column("*")


def array(head: Any, *tail: Any) -> Expression:
    """Return an array of these elements."""
    return _listed("ARRAY[", (head, *tail), "]")


def map_(key: Any, value: Any, *tail: Any) -> Expression:
    """Return a map of keys and values, by turns."""
    if len(tail) % 2:
        raise ValueError(f"expected keys and values by turns, got {len(tail) + 2} arguments")
    return _listed("MAP[", (key, value, *tail), "]")


def row(head: Any, *tail: Any) -> Expression:
    """Return a row of these fields."""
    return _listed("ROW(", (head, *tail), ")")


def if_then_else(condition: Any, if_true: Any, if_false: Any) -> Expression:
    """Return the second argument if the condition is true, otherwise the third one."""
    return _of("CASE WHEN {} THEN {} ELSE {} END", condition, if_true, if_false)


def timestamp_diff(time_point_unit: TimePointUnit, time_point1: Any, time_point2: Any) -> Expression:
    """Return how many units the second time is behind the first one."""
    return _of(f"TIMESTAMPDIFF({time_point_unit.name}, {{}}, {{}})", time_point1, time_point2)


def temporal_overlaps(
    left_time_point: Any, left_temporal: Any, right_time_point: Any, right_temporal: Any
) -> Expression:
    """Return whether two periods, each a start and an end or a length, have a time in common."""
    periods = (left_time_point, left_temporal, right_time_point, right_temporal)
    return _of("(({}, {}) OVERLAPS ({}, {}))", *periods)


def log(v: Any, base: Any = None) -> Expression:
    """Return the logarithm to a base; None: the natural one."""
    return _of("LN({})", v) if base is None else _of("LOG({1}, {0})", v, base)


def json_object(on_null: JsonOnNull = JsonOnNull.NULL, *args: Any) -> Expression:
    """Return an object of JSON with these keys and values, by turns."""
    if len(args) % 2:
        raise ValueError(f"expected keys and values by turns, got {len(args)} arguments")
    pairs = ", ".join(["KEY {} VALUE {}"] * (len(args) // 2))
    return _of(f"JSON_OBJECT({pairs} {on_null.name} ON NULL)", *args)


def json_array(on_null: JsonOnNull = JsonOnNull.ABSENT, *args: Any) -> Expression:
    """Return an array of JSON with these elements."""
    return _of(f"JSON_ARRAY({', '.join(['{}'] * len(args))} {on_null.name} ON NULL)", *args)


def source_watermark() -> Expression:
    """Return the watermark of a source, in the schema of a table."""
    return Expression(TextTerm("SOURCE_WATERMARK()"))


def not_(expression: Any) -> Expression:
    """Return whether it is not true; NULL stays NULL."""
    return _of("(NOT {})", expression)


def negative(v: Any) -> Expression:
    """Return the number with the other sign."""
    return _of("(- {})", v)


def current_database() -> Expression:
    """Return the name of the current database."""
    return _called("CURRENT_DATABASE")


def current_date() -> Expression:
    """Return the date in the session's time zone."""
    return Expression(TextTerm("CURRENT_DATE"))


def current_time() -> Expression:
    """Return the time of day in the session's time zone."""
    return Expression(TextTerm("CURRENT_TIME"))


def current_timestamp() -> Expression:
    """Return the current point in time."""
    return Expression(TextTerm("CURRENT_TIMESTAMP"))


def local_time() -> Expression:
    """Return the time of day in the session's time zone."""
    return Expression(TextTerm("LOCALTIME"))


def local_timestamp() -> Expression:
    """Return the timestamp in the session's time zone."""
    return Expression(TextTerm("LOCALTIMESTAMP"))


def current_watermark(rowtimeAttribute: Any) -> Expression:  # noqa: N803
    """Return the watermark of a time attribute."""
    return _called("CURRENT_WATERMARK", rowtimeAttribute)


def to_date(date_str: Any, format: Any = None) -> Expression:
    """Return the date of a text."""
    return _called("TO_DATE", date_str, format)


def to_timestamp(timestamp_str: Any, format: Any = None) -> Expression:
    """Return the timestamp of a text."""
    return _called("TO_TIMESTAMP", timestamp_str, format)


def to_timestamp_ltz(*args: Any) -> Expression:
    """Return the point in time of a number and its precision, or of a text."""
    return _called("TO_TIMESTAMP_LTZ", *args)


def date_format(timestamp: Any, format: Any) -> Expression:
    """Return the text of a time, by a pattern of Java."""
    return _called("DATE_FORMAT", timestamp, format)


def convert_tz(date_str: Any, tz_from: Any, tz_to: Any) -> Expression:
    """Return the text of a time in another zone."""
    return _called("CONVERT_TZ", date_str, tz_from, tz_to)


def from_unixtime(unixtime: Any, format: Any = None) -> Expression:
    """Return the text of seconds since the epoch."""
    return _called("FROM_UNIXTIME", unixtime, format)


def unix_timestamp(date_str: Any = None, format: Any = None) -> Expression:
    """Return seconds since the epoch."""
    return _called("UNIX_TIMESTAMP", date_str, format)


def map_from_arrays(key: Any, value: Any) -> Expression:
    """Return a map of an array of keys and one of values."""
    return _called("MAP_FROM_ARRAYS", key, value)


def pi() -> Expression:
    """Return pi."""
    return _called("PI")


def e() -> Expression:
    """Return e."""
    return _called("E")


def rand(seed: Any = None) -> Expression:
    """Return a random number from 0 to 1."""
    return _called("RAND", seed)


def rand_integer(bound: Any, seed: Any = None) -> Expression:
    """Return a random integer from 0 to the bound, which is excluded."""
    return _called("RAND_INTEGER", bound, seed)


def atan2(y: Any, x: Any) -> Expression:
    """Return the arc tangent of a coordinate."""
    return _called("ATAN2", y, x)


def concat(first: Any, *args: Any) -> Expression:
    """Return all texts as one."""
    return _called("CONCAT", first, *args)


def concat_ws(separator: Any, first: Any, *args: Any) -> Expression:
    """Return all texts as one, with a separator between them."""
    return _called("CONCAT_WS", separator, first, *args)


def uuid() -> Expression:
    """Return a random UUID."""
    return _called("UUID")


def coalesce(*args: Any) -> Expression:
    """Return the first value that is not NULL."""
    return _called("COALESCE", *args)


def greatest(*args: Any) -> Expression:
    """Return the largest value."""
    return _called("GREATEST", *args)


def least(*args: Any) -> Expression:
    """Return the least value."""
    return _called("LEAST", *args)


def json_string(value: Any) -> Expression:
    """Return the JSON of a value."""
    return _called("JSON_STRING", value)


def lag(expr: Any, offset: Any = 1, default: Any = None) -> Expression:
    """Return the value of an earlier row of a window of rows."""
    return _called("LAG", expr, offset, default)


def lead(expr: Any, offset: Any = 1, default: Any = None) -> Expression:
    """Return the value of a later row of a window of rows."""
    return _called("LEAD", expr, offset, default)


def _of(template: str, *arguments: Any) -> Expression:
    return Expression(TemplateTerm(template, tuple(map(_term, arguments))))


def _term(value: Any) -> Term:
    return value if isinstance(value, Term) else term_of(value)


def _called(name: str, *arguments: Any) -> Expression:
    """Return a call. None at the end: arguments that are not given."""
    given = list(arguments)
    while given and given[-1] is None:
        given.pop()
    return _of(f"{name}({', '.join(['{}'] * len(given))})", *given)


def _listed(start: str, elements: tuple[Any, ...], end: str) -> Expression:
    return _of(f"{start}{', '.join(['{}'] * len(elements))}{end}", *elements)


def _joined(operator: str, predicates: tuple[Any, ...]) -> Expression:
    return _of(f"({operator.join(['{}'] * len(predicates))})", *predicates)


CURRENT_ROW = Expression(TextTerm("CURRENT ROW"))
"""The current row, as the end of a window of rows."""
CURRENT_RANGE = Expression(TextTerm("CURRENT RANGE"))
"""The rows with the time of the current one, as the end of a window of rows."""
UNBOUNDED_ROW = Expression(TextTerm("UNBOUNDED ROW"))
"""All rows before, as the start of a window of rows."""
UNBOUNDED_RANGE = Expression(TextTerm("UNBOUNDED RANGE"))
"""All rows before by their times, as the start of a window of rows."""

publish(__name__, __all__)
