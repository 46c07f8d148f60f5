"""Expressions as JSON: read with limits, so that a text from outside costs no more than its length.

A field is `{"field": "amount"}`, a constant `{"value": 500}`, an operation `{"op": ">", "args": [..., ...]}`, and
`is_in` is `{"op": "in", "args": [..., {"values": [1, 2]}]}`. What does not fit is refused with its position.
"""

from __future__ import annotations

import json
from typing import Any

from penstock.cep import expressions
from penstock.cep.errors import MalformedPatternError
from penstock.cep.expressions import Expression

LENGTH_MAX = 1_000_000
"""Length of the JSON text, in characters."""


def expression_to_json(expression: Expression) -> str:
    """Return the expression as JSON text. Raises MalformedPatternError for anything else."""
    if not isinstance(expression, Expression):
        raise MalformedPatternError(f"expected an expression, got {type(expression).__name__} {expression!r:.100}")
    return json.dumps(written(expression), allow_nan=False)


def expression_from_json(text: str | bytes) -> Expression:
    """Return the expression in a JSON text. Raises MalformedPatternError, with the position, if there is none."""
    return read(tree_of(text, "the expression"), "$")


def tree_of(text: Any, what: str) -> Any:
    """Return what a JSON text says, as dicts, lists and constants. Raises MalformedPatternError, about `what`."""
    if not isinstance(text, str | bytes):
        raise MalformedPatternError(f"{what} is a JSON text, got {type(text).__name__} {text!r:.100}")
    if len(text) > LENGTH_MAX:
        raise MalformedPatternError(f"{what} as JSON has at most {LENGTH_MAX} characters, got {len(text)}")
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as e:
        raise MalformedPatternError(f"{what} is not valid JSON: {e}") from None


def written(expression: Expression) -> dict[str, Any]:
    """Return the expression as a tree of dicts, lists and constants."""
    symbol, operands = expression.symbol, expression.operands
    if symbol in (expressions.FIELD, expressions.VALUE):
        return {symbol: operands[0]}
    if symbol == expressions.IN:
        return {"op": symbol, "args": [written(operands[0]), {"values": list(operands[1])}]}
    return {"op": symbol, "args": [written(operand) for operand in operands]}


def read(tree: Any, where: str, depth: int = 1) -> Expression:
    """Return the expression that a tree means, which is at `where` of a text. Raises MalformedPatternError."""
    if depth > expressions.DEPTH_MAX:
        raise MalformedPatternError(f"{where}: an expression has a depth of at most {expressions.DEPTH_MAX}")
    if isinstance(tree, dict):
        match tree:
            case {"field": name, **rest} if not rest:
                return expressions.field(name)
            case {"value": value, **rest} if not rest:
                return expressions.operand(value)
            case {"op": str(symbol), "args": list(operands), **rest} if not rest:
                return _operation(symbol, operands, where, depth)
    raise MalformedPatternError(
        f'{where}: expected {{"field": ...}}, {{"value": ...}} or {{"op": ..., "args": [...]}}, got {tree!r:.100}'
    )


def _operation(symbol: str, operands: list[Any], where: str, depth: int) -> Expression:
    count = 1 if symbol in expressions.UNARY else 2
    known = (*expressions.BINARY, *expressions.UNARY, expressions.IN)
    if symbol not in known:
        raise MalformedPatternError(f"{where}: expected one of the operations {', '.join(known)}, got {symbol!r:.100}")
    if len(operands) != count:
        raise MalformedPatternError(f"{where}: '{symbol}' takes {count} arguments, got {len(operands)}")
    left = read(operands[0], f"{where}.args[0]", depth + 1)
    if symbol == expressions.IN:
        match operands[1]:
            case {"values": list(values), **rest} if not rest:
                return left.is_in(values)
        raise MalformedPatternError(f'{where}.args[1]: expected {{"values": [...]}}, got {operands[1]!r:.100}')
    if count == 1:
        return Expression(symbol, left)
    return Expression(symbol, left, read(operands[1], f"{where}.args[1]", depth + 1))


def _no_constant(text: str) -> None:
    """Refuse NaN and infinities, which JSON lacks."""
    raise ValueError(f"{text} is not JSON")
