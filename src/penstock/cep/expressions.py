"""Expressions: conditions on the fields of an event that are data rather than code.

`field("amount") > 500` builds a tree of a closed language: fields, constants, comparisons, arithmetic on numbers, tests
of texts and lists, and, or, not. A tree is printed in plans, sent as JSON, and evaluated on a record without `eval`.
A None makes the result of what it is compared or combined with unknown, which is None, too; `&`, `|` and `~` follow
SQL's three-valued logic, and a condition holds if its value is True. `evaluation` computes values, `json_form` reads
and writes trees.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from penstock.cep.errors import MalformedPatternError

TEXT_LENGTH_MAX = 10_000
"""Length of a constant, in characters."""
LIST_LENGTH_MAX = 10_000
"""Number of the constants of `is_in`."""
INTEGER_BITS_MAX = 256
NODES_MAX = 1_000
DEPTH_MAX = 50
"""Depth of a tree: its evaluation takes as many nested calls."""

FIELD, VALUE, IN = "field", "value", "in"
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
ARITHMETIC = ("+", "-", "*", "/", "%")
TEXTS = ("starts_with", "ends_with", "contains")
LOGIC = ("and", "or")
BINARY = (*COMPARISONS, *ARITHMETIC, *TEXTS, *LOGIC)
UNARY = ("not", "is_null")


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
        self.nodes: int = 1 + sum(part.nodes for part in parts)
        self.depth: int = 1 + max((part.depth for part in parts), default=0)
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
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            raise MalformedPatternError(f"is_in() takes a list of values, got {values!r:.100}")
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

    def __bool__(self) -> bool:
        raise MalformedPatternError(
            f"{self!r} has a value for each event, not now: combine expressions with &, | and ~ rather than `and`, "
            "`or` and `not`, and compare them one pair at a time"
        )

    def __repr__(self) -> str:
        return _text(self)

    def __reduce__(self) -> tuple[type[Expression], tuple[Any, ...]]:
        return Expression, (self.symbol, *self.operands)


def field(name: str) -> Expression:
    """Return the field `name` of an event: an item of a dict, a field of a Row, else an attribute.

    Raises MalformedPatternError if `name` is not a text, is empty, or begins with an underscore.
    """
    given: object = name
    if not isinstance(given, str) or not name or name.startswith("_") or len(name) > TEXT_LENGTH_MAX:
        raise MalformedPatternError(f"expected the name of a field that does not begin with '_', got {name!r:.100}")
    return Expression(FIELD, name)


def operand(value: object) -> Expression:
    """Return an expression as it is, and a constant as an expression."""
    return value if isinstance(value, Expression) else Expression(VALUE, constant(value))


def constant(value: object) -> bool | int | float | str | None:
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
