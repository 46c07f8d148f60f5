"""Expressions: conditions on the fields of an event that are data rather than code.

`field("amount") > 500` builds a tree of a closed language: fields, constants, comparisons, arithmetic on numbers, tests
of texts and lists, and, or, not. A tree is printed in plans, sent as JSON, and evaluated on a record without `eval`.
A None makes the result of what it is compared or combined with unknown, which is None, too; `&`, `|` and `~` follow
SQL's three-valued logic, and a condition holds if its value is True. `json_form` reads and writes trees.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from penstock.cep.errors import MalformedPatternError
from penstock.common.types import Row

Evaluate: TypeAlias = Callable[[Any], Any]

TEXT_LENGTH_MAX = 10_000
"""Of a constant, in characters."""
LIST_LENGTH_MAX = 10_000
"""Of the constants of `is_in`."""
INTEGER_BITS_MAX = 256
NODES_MAX = 1_000
DEPTH_MAX = 50
"""Of a tree: evaluating it takes as many nested calls."""

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": operator.mod,
}
TEXTS: dict[str, Callable[[Any, Any], Any]] = {
    "starts_with": str.startswith,
    "ends_with": str.endswith,
    "contains": operator.contains,
}
LOGIC = ("and", "or")
BINARY = {*COMPARISONS, *ARITHMETIC, *TEXTS, *LOGIC}
UNARY = {"not", "is_null"}
FIELD, VALUE, IN = "field", "value", "in"


class Expression:
    """A value that is computed from the fields of an event. Start with `field` and combine with operators.

    Operators: `== != < <= > >=`, `+ - * / %` on numbers, `& | ~` for and, or, not (in parentheses: they bind tighter
    than comparisons), and the methods below. Each raises MalformedPatternError if an operand is not an expression,
    None, a bool, an int, a float or a str, or if the expression becomes too large.
    """

    __slots__ = ("depth", "nodes", "operands", "symbol")

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, symbol: str, *operands: Any) -> None:
        self.symbol = symbol
        self.operands = operands
        parts = [operand for operand in operands if isinstance(operand, Expression)]
        self.nodes = 1 + sum(part.nodes for part in parts)
        self.depth = 1 + max((part.depth for part in parts), default=0)
        if self.nodes > NODES_MAX or self.depth > DEPTH_MAX:
            raise MalformedPatternError(
                f"an expression has at most {NODES_MAX} parts and a depth of {DEPTH_MAX}, got {self.nodes} and "
                f"{self.depth}: split it into several conditions"
            )

    def __eq__(self, other: object) -> Expression:  # type: ignore[override]
        return Expression("==", self, operand(other))

    def __ne__(self, other: object) -> Expression:  # type: ignore[override]
        return Expression("!=", self, operand(other))

    def __lt__(self, other: object) -> Expression:
        return Expression("<", self, operand(other))

    def __le__(self, other: object) -> Expression:
        return Expression("<=", self, operand(other))

    def __gt__(self, other: object) -> Expression:
        return Expression(">", self, operand(other))

    def __ge__(self, other: object) -> Expression:
        return Expression(">=", self, operand(other))

    def __add__(self, other: object) -> Expression:
        return Expression("+", self, operand(other))

    def __radd__(self, other: object) -> Expression:
        return Expression("+", operand(other), self)

    def __sub__(self, other: object) -> Expression:
        return Expression("-", self, operand(other))

    def __rsub__(self, other: object) -> Expression:
        return Expression("-", operand(other), self)

    def __mul__(self, other: object) -> Expression:
        return Expression("*", self, operand(other))

    def __rmul__(self, other: object) -> Expression:
        return Expression("*", operand(other), self)

    def __truediv__(self, other: object) -> Expression:
        return Expression("/", self, operand(other))

    def __rtruediv__(self, other: object) -> Expression:
        return Expression("/", operand(other), self)

    def __mod__(self, other: object) -> Expression:
        return Expression("%", self, operand(other))

    def __rmod__(self, other: object) -> Expression:
        return Expression("%", operand(other), self)

    def __and__(self, other: object) -> Expression:
        return Expression("and", self, operand(other))

    def __rand__(self, other: object) -> Expression:
        return Expression("and", operand(other), self)

    def __or__(self, other: object) -> Expression:
        return Expression("or", self, operand(other))

    def __ror__(self, other: object) -> Expression:
        return Expression("or", operand(other), self)

    def __invert__(self) -> Expression:
        return Expression("not", self)

    def is_null(self) -> Expression:
        """Return whether the value is None."""
        return Expression("is_null", self)

    def is_not_null(self) -> Expression:
        """Return whether the value is not None."""
        return ~self.is_null()

    def is_in(self, values: Iterable[Any]) -> Expression:
        """Return whether the value equals one of `values`, which are constants."""
        constants = tuple(constant(value) for value in values)
        if len(constants) > LIST_LENGTH_MAX:
            raise MalformedPatternError(f"is_in() takes at most {LIST_LENGTH_MAX} values, got {len(constants)}")
        return Expression(IN, self, constants)

    def starts_with(self, prefix: object) -> Expression:
        """Return whether the value is a text that begins with `prefix`."""
        return Expression("starts_with", self, operand(prefix))

    def ends_with(self, suffix: object) -> Expression:
        """Return whether the value is a text that ends with `suffix`."""
        return Expression("ends_with", self, operand(suffix))

    def contains(self, part: object) -> Expression:
        """Return whether the value is a text that contains `part`."""
        return Expression("contains", self, operand(part))

    def evaluate(self, record: Any) -> Any:
        """Compute the value for one record: a dict, a Row, or an object with the fields as attributes.

        Raises what the record raises for a field that it lacks, and TypeError for values that cannot be compared or
        computed with. Use `compiled` to evaluate many records.
        """
        return self.compiled()(record)

    def compiled(self) -> Evaluate:
        """Return a function of a record that computes the value."""
        return _compiled(self)

    def __bool__(self) -> bool:
        raise MalformedPatternError(
            f"{self!r} has a value for each event, not now: combine expressions with &, | and ~ rather than `and`, `or` "
            "and `not`, and compare them one pair at a time"
        )

    def __repr__(self) -> str:
        return _text(self)

    def __reduce__(self) -> tuple[type[Expression], tuple[Any, ...]]:
        return Expression, (self.symbol, *self.operands)


def field(name: str) -> Expression:
    """Return the field `name` of an event: an item of a dict, a field of a Row, else an attribute.

    Raises MalformedPatternError if `name` is not a text, is empty, or begins with an underscore.
    """
    if not isinstance(name, str) or not name or name.startswith("_") or len(name) > TEXT_LENGTH_MAX:
        raise MalformedPatternError(f"expected the name of a field that does not begin with '_', got {name!r:.100}")
    return Expression(FIELD, name)


def operand(value: object) -> Expression:
    """Return an expression as it is, and a constant as an expression."""
    return value if isinstance(value, Expression) else Expression(VALUE, constant(value))


def constant(value: object) -> None | bool | int | float | str:
    """Return a constant that expressions may contain. Raises MalformedPatternError for another value."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, str) and len(value) <= TEXT_LENGTH_MAX:
        return str(value)
    if isinstance(value, int) and value.bit_length() <= INTEGER_BITS_MAX:
        return int(value)
    raise MalformedPatternError(
        "an expression takes None, bool, int, finite float and str as constants, of at most "
        f"{TEXT_LENGTH_MAX} characters or {INTEGER_BITS_MAX} bits; got {type(value).__name__} {value!r:.100}"
    )


def _text(expression: Expression) -> str:
    symbol, operands = expression.symbol, expression.operands
    if symbol == FIELD:
        return str(operands[0])
    if symbol == VALUE:
        return repr(operands[0])
    left = _text(operands[0])
    if symbol == IN:
        return f"{left} in [{', '.join(map(repr, operands[1]))}]"
    if symbol == "not":
        return f"not {left}"
    if symbol == "is_null":
        return f"{left} is null"
    text = f"{left} {symbol} {_text(operands[1])}"
    return f"({text})" if symbol in LOGIC or symbol in ARITHMETIC else text


def _compiled(expression: Expression) -> Evaluate:
    symbol, operands = expression.symbol, expression.operands
    if symbol == FIELD:
        return _field(operands[0])
    if symbol == VALUE:
        value = operands[0]
        return lambda record: value
    left = _compiled(operands[0])
    if symbol == IN:
        return _contained(left, operands[1])
    if symbol == "is_null":
        return lambda record: left(record) is None
    if symbol == "not":
        return lambda record: None if (value := _truth(left(record))) is None else not value
    right = _compiled(operands[1])
    if symbol == "and":
        return _both(left, right)
    if symbol == "or":
        return _either(left, right)
    compute = _checked(symbol)
    if operands[1].symbol == VALUE and (value := operands[1].operands[0]) is not None:
        return lambda record: None if (first := left(record)) is None else compute(first, value)
    return _combined(left, right, compute)


def _field(name: str) -> Evaluate:
    def value(record: Any) -> Any:
        if type(record) is dict or isinstance(record, (dict, Row)):
            return record[name]
        return getattr(record, name)

    return value


def _contained(left: Evaluate, constants: tuple[Any, ...]) -> Evaluate:
    among = frozenset(constants) - {None}

    def contained(record: Any) -> bool | None:
        value = left(record)
        return None if value is None else value in among

    return contained


def _combined(left: Evaluate, right: Evaluate, compute: Callable[[Any, Any], Any]) -> Evaluate:
    def combined(record: Any) -> Any:
        first, second = left(record), right(record)
        return None if first is None or second is None else compute(first, second)

    return combined


def _both(left: Evaluate, right: Evaluate) -> Evaluate:
    def both(record: Any) -> bool | None:
        first = _truth(left(record))
        if first is False:
            return False
        second = _truth(right(record))
        return second if first or second is False else None

    return both


def _either(left: Evaluate, right: Evaluate) -> Evaluate:
    def either(record: Any) -> bool | None:
        first = _truth(left(record))
        if first:
            return True
        second = _truth(right(record))
        return second if first is False or second else None

    return either


def _truth(value: Any) -> bool | None:
    if value is None or value is True or value is False:
        return value
    # NumPy's bool, among others.
    if type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    raise TypeError(f"&, | and ~ combine conditions, got the value {value!r:.100} of type {type(value).__name__}")


def _checked(symbol: str) -> Callable[[Any, Any], Any]:
    if symbol in COMPARISONS:
        return COMPARISONS[symbol]
    compute = TEXTS.get(symbol) or ARITHMETIC[symbol]
    texts = symbol in TEXTS

    def checked(first: Any, second: Any) -> Any:
        # A text times a number, or a format, would make values of any size.
        if isinstance(first, str) is not texts or isinstance(second, str) is not texts or isinstance(first, bytes):
            kind = "texts" if texts else "numbers"
            raise TypeError(f"'{symbol}' takes {kind}, got {first!r:.100} and {second!r:.100}")
        return compute(first, second)

    return checked
