"""Expressions of analysts: `delay is not None and delay > 60 and airport in ("JFK", "LGA")`.

The text comes from people who may not run code here. It is parsed by Python's own grammar, and only these forms are
accepted: fields of a record, constants, comparisons, `and`, `or`, `not`, arithmetic with numbers, `x if y else z`, and
calls of abs, len, max, min and round. There are no attributes, no subscripts, no powers, and no arithmetic with texts,
which could use memory without bound.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from numbers import Real
from typing import Any

LENGTH_MAX = 500
"""Most characters of an expression: with the forms above, this bounds the work per record."""

Fields = Mapping[str, Any]
Evaluate = Callable[[Fields], Any]


class ExpressionError(ValueError):
    """The text is not an expression of this language."""


@lru_cache(maxsize=1024)
def compiled(text: str, names: frozenset[str]) -> Evaluate:
    """Return a function that evaluates `text` for the fields of a record, whose names are `names`.

    Raises ExpressionError for a text outside of the language. The function raises TypeError or ZeroDivisionError if the
    values of a record don't fit.
    """
    if len(text) > LENGTH_MAX:
        raise ExpressionError(f"an expression has at most {LENGTH_MAX} characters, this one {len(text)}")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ExpressionError(f"{text!r} is not an expression: {error}") from None
    return _Compiler(names).compile(tree.body)


def _number(call: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def of_numbers(left: Any, right: Any) -> Any:
        if not (isinstance(left, Real) and isinstance(right, Real)):
            raise TypeError(f"arithmetic is for numbers, not for {left!r:.40} and {right!r:.40}")
        return call(left, right)

    return of_numbers


_ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: _number(operator.add),
    ast.Sub: _number(operator.sub),
    ast.Mult: _number(operator.mul),
    ast.Div: _number(operator.truediv),
    ast.FloorDiv: _number(operator.floordiv),
    ast.Mod: _number(operator.mod),
}
_COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda item, group: item in group,
    ast.NotIn: lambda item, group: item not in group,
}
_UNARY: dict[type, Callable[[Any], Any]] = {ast.Not: operator.not_, ast.USub: operator.neg}
_FUNCTIONS: dict[str, Callable[..., Any]] = {"abs": abs, "len": len, "max": max, "min": min, "round": round}
_CONSTANTS = (bool, int, float, str, type(None))


class _Compiler:
    """Turns a tree into nested functions; a form without a method `_of_…` is refused."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def compile(self, node: ast.expr) -> Evaluate:
        form = getattr(self, f"_of_{type(node).__name__.lower()}", None)
        if form is None:
            raise ExpressionError(f"{ast.unparse(node)!r:.80} may not be used in an expression")
        evaluate: Evaluate = form(node)
        return evaluate

    def _of_constant(self, node: ast.Constant) -> Evaluate:
        value = node.value
        if not isinstance(value, _CONSTANTS):
            raise ExpressionError(f"constants are numbers, texts, True, False and None, not {value!r}")
        return lambda fields: value

    def _of_name(self, node: ast.Name) -> Evaluate:
        name = node.id
        if name not in self._names:
            raise ExpressionError(f"there is no field {name!r}; there are {', '.join(sorted(self._names))}")
        return lambda fields: fields[name]

    def _of_tuple(self, node: ast.Tuple) -> Evaluate:
        items = [self.compile(item) for item in node.elts]
        return lambda fields: tuple(item(fields) for item in items)

    def _of_boolop(self, node: ast.BoolOp) -> Evaluate:
        parts = [self.compile(part) for part in node.values]
        if isinstance(node.op, ast.And):
            return lambda fields: all(part(fields) for part in parts)
        return lambda fields: any(part(fields) for part in parts)

    def _of_unaryop(self, node: ast.UnaryOp) -> Evaluate:
        operand, call = self.compile(node.operand), _allowed(_UNARY, node.op, node)
        return lambda fields: call(operand(fields))

    def _of_binop(self, node: ast.BinOp) -> Evaluate:
        left, right = self.compile(node.left), self.compile(node.right)
        call = _allowed(_ARITHMETIC, node.op, node)
        return lambda fields: call(left(fields), right(fields))

    def _of_compare(self, node: ast.Compare) -> Evaluate:
        operands = [self.compile(operand) for operand in (node.left, *node.comparators)]
        calls = [_allowed(_COMPARISONS, op, node) for op in node.ops]

        def evaluate(fields: Fields) -> bool:
            left = operands[0](fields)
            for call, operand in zip(calls, operands[1:], strict=True):
                right = operand(fields)
                if not call(left, right):
                    return False
                left = right
            return True

        return evaluate

    def _of_ifexp(self, node: ast.IfExp) -> Evaluate:
        test, body, other = self.compile(node.test), self.compile(node.body), self.compile(node.orelse)
        return lambda fields: body(fields) if test(fields) else other(fields)

    def _of_call(self, node: ast.Call) -> Evaluate:
        if not isinstance(node.func, ast.Name) or node.func.id not in _FUNCTIONS or node.keywords:
            raise ExpressionError(f"{ast.unparse(node)!r:.80} may not be called; {', '.join(_FUNCTIONS)} may")
        call, arguments = _FUNCTIONS[node.func.id], [self.compile(argument) for argument in node.args]
        return lambda fields: call(*[argument(fields) for argument in arguments])


def _allowed(table: dict[type, Callable[..., Any]], form: ast.AST, node: ast.expr) -> Callable[..., Any]:
    if type(form) not in table:
        raise ExpressionError(f"{ast.unparse(node)!r:.80} may not be used in an expression")
    return table[type(form)]
