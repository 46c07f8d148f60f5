"""Evaluates trees of `sql_expressions` by calling the functions on columns, as an operator will that has a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
from tests.unit.table.sql_expressions import Invocation, Literal, Name, Tree, parse_list

from penstock.table.functions.arrow_types import arrow_type
from penstock.table.functions.calls import call, result_type
from penstock.table.functions.casts import cast
from penstock.table.functions.errors import InvalidCallError
from penstock.table.functions.json_constructors import RAW_JSON
from penstock.table.functions.registry import Context
from penstock.table.logical_types import LogicalType, decimal, parse


class Typed(NamedTuple):
    column: Any
    type: LogicalType


UserFunction = Callable[[Sequence[Typed]], Typed]
_RAW_JSON_CALLS = {"JSON_OBJECT", "JSON_ARRAY", "JSON"}


class Evaluator:
    def __init__(
        self,
        fields: Mapping[str, Typed],
        *,
        zone: str = "UTC",
        rows: int = 1,
        functions: Mapping[str, UserFunction] | None = None,
    ) -> None:
        self._fields = fields
        self._context = Context(rows=rows, zone=zone)
        self._functions = functions or {}

    def all(self, text: str) -> list[Typed]:
        return [self.value(tree) for tree in parse_list(text)]

    def value(self, tree: Tree) -> Typed:
        if isinstance(tree, Literal):
            return _literal(tree)
        if isinstance(tree, Name):
            if tree.name in self._fields:
                return self._fields[tree.name]
            return self.value(Invocation(tree.name, ()))
        return self._call(tree)

    def _call(self, tree: Invocation) -> Typed:
        name = tree.name.upper()
        arguments = [self.value(operand) for operand in tree.operands]
        if tree.name in self._functions:
            return self._functions[tree.name](arguments)
        if name in ("JSON_OBJECT", "JSON_ARRAY"):
            arguments = [
                one._replace(type=RAW_JSON)
                if isinstance(operand, Invocation) and operand.name in _RAW_JSON_CALLS
                else one
                for one, operand in zip(arguments, tree.operands, strict=True)
            ]
        columns, types = [one.column for one in arguments], [one.type for one in arguments]
        if name in ("CAST", "TRY_CAST"):
            assert tree.type is not None
            target = tree.type.with_nullability(types[0].nullable or name == "TRY_CAST" or types[0].root == "NULL")
            return Typed(call(name, columns, types, result=target, context=self._context), target)
        if tree.type is not None:
            columns, types = [*columns, pa.scalar(None)], [*types, tree.type]
        result = result_type(name, types, columns)
        return Typed(call(name, columns, types, result=result, context=self._context), result)


def evaluate(text: str, zone: str = "UTC", **fields: tuple[str, list[Any]]) -> list[Any]:
    """Return the values of an expression over columns: `evaluate("a + 1", a=("INT", [1, None]))`."""
    columns = {}
    for name, (type_, values) in fields.items():
        kind = parse(type_)
        columns[name] = Typed(pa.array(values, arrow_type(kind)), kind)
    rows = max([len(one.column) for one in columns.values()], default=1)
    (result,) = Evaluator(columns, zone=zone, rows=rows).all(text)
    if isinstance(result.column, pa.Scalar):
        return [result.column.as_py()]
    found: list[Any] = result.column.to_pylist()
    return found


def type_of(text: str, **fields: str) -> str:
    """Return the type of an expression over columns of these types."""
    columns = {name: Typed(pa.nulls(1, arrow_type(parse(kind))), parse(kind)) for name, kind in fields.items()}
    (result,) = Evaluator(columns).all(text)
    return str(result.type)


def _literal(tree: Literal) -> Typed:
    if tree.kind == "word":
        if tree.text == "NULL":
            return Typed(pa.scalar(None), LogicalType("NULL"))
        return Typed(pa.scalar(tree.text == "TRUE"), LogicalType("BOOLEAN", nullable=False))
    if tree.kind == "number":
        return _number(tree.text)
    if tree.kind == "symbol":
        return Typed(pa.scalar(tree.text), LogicalType("SYMBOL", nullable=False))
    text = tree.text[tree.text.index("'") + 1 : -1].replace("''", "'")
    if tree.kind == "string":
        return Typed(pa.scalar(text), LogicalType("CHAR", length=len(text), nullable=False))
    if tree.kind == "binary":
        data = bytes.fromhex(text)
        return Typed(pa.scalar(data, pa.binary()), LogicalType("BINARY", length=len(data), nullable=False))
    if tree.kind == "INTERVAL":
        return _interval(text, tree.type)
    precision = len(text.partition(".")[2]) if tree.kind != "DATE" else 0
    type_ = LogicalType(tree.kind, precision=precision, nullable=False)
    return Typed(cast(pa.scalar(text), LogicalType("VARCHAR", length=len(text)), type_), type_)


def _number(text: str) -> Typed:
    if "e" in text.lower():
        return Typed(pa.scalar(float(text), pa.float64()), LogicalType("DOUBLE", nullable=False))
    if "." in text:
        value = Decimal(text)
        digits = max(len(value.as_tuple().digits), -int(value.as_tuple().exponent))
        type_ = decimal(digits, -int(value.as_tuple().exponent)).with_nullability(False)
        return Typed(pa.scalar(value, pa.decimal128(type_.precision, type_.scale)), type_)
    small = -(2**31) <= int(text) < 2**31
    return Typed(
        pa.scalar(int(text), pa.int32() if small else pa.int64()),
        LogicalType("INT" if small else "BIGINT", nullable=False),
    )


def _interval(text: str, type_: LogicalType | None) -> Typed:
    assert type_ is not None
    unit = type_.resolution.partition("(")[0].strip().upper()
    if type_.root == "INTERVAL_MONTH":
        years, _, months = text.partition("-")
        amount = int(years) * 12 + int(months or 0) if "YEAR" in unit else int(text)
        return Typed(pa.scalar(amount, pa.int32()), type_.with_nullability(False))
    millis = {"SECOND": 1000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": 86_400_000}
    if unit not in millis:
        raise InvalidCallError(f"the interval {text} {type_} is not supported by the tests")
    return Typed(pa.scalar(int(Decimal(text) * millis[unit]), pa.duration("ms")), type_.with_nullability(False))
