"""Expressions of a plan as operators have them: bound to functions when the operator is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow

from penstock.engine.runtime.task.context import OperatorContext
from penstock.table.functions.columns import Column
from penstock.table.functions.registry import Context
from penstock.table.logical_types import LogicalType
from penstock.table.operators.rows.python_calls import PythonCall, open_calls
from penstock.table.planner.expressions import Expressions
from penstock.table.planner.flat_expressions import flattened
from penstock.table.planner.rex_nodes import AnyRexNode, RexCall, RexInputRef
from penstock.table.planner.rex_trees import nodes_of


class RowExpressions:
    """Expressions over the columns of one or two batches. Picklable before `open`.

    `zone`: the session's time zone. `functions`: the user's, by the names that plans have. `sql`: the part of the query
    that has the expressions, for errors. Raises UnsupportedPlanError for a function that is not supported.
    """

    def __init__(
        self,
        expressions: Sequence[AnyRexNode],
        *,
        zone: str = "UTC",
        functions: Mapping[str, PythonCall] | None = None,
        sql: str = "",
    ) -> None:
        self._expressions = tuple(expressions)
        self._zone = zone
        called = called_functions(self._expressions)
        self._functions = {name: one for name, one in (functions or {}).items() if name in called}
        self.sql = sql
        self._bound: Expressions | None = None
        self.inputs = input_columns(self._expressions)
        """The positions of the columns that they read."""
        # Raises the error of a function that is not supported.
        self._bind()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_bound": None, "_expressions": flattened(self._expressions)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({**state, "_expressions": state["_expressions"].expressions()})

    def open(self, context: OperatorContext) -> None:
        """Bind the functions, and open those of the user. Called in the task, since only names of others travel."""
        self._bind()
        if self._functions:
            open_calls(self._functions.values(), context)

    def close(self) -> None:
        """Close the user's functions."""
        for function in self._functions.values():
            function.close()

    def _bind(self) -> None:
        self._bound = Expressions(self._expressions, self._functions, self.sql)

    @property
    def types(self) -> list[LogicalType]:
        """The types of the results."""
        assert self._bound is not None, "open() comes first"
        return self._bound.types

    def evaluate(self, columns: Sequence[Column], rows: int, *, now_ms: int, watermark_ms: int | None) -> list[Column]:
        """Return a column for each expression: an array, or a scalar if it is the same in all rows."""
        assert self._bound is not None, "open() comes first"
        return self._bound.evaluate(columns, self.context(rows, now_ms=now_ms, watermark_ms=watermark_ms))

    def context(self, rows: int, *, now_ms: int, watermark_ms: int | None) -> Context:
        """Return the context that functions get with their columns."""
        return Context(rows=rows, zone=self._zone, now_us=now_ms * 1000, watermark_ms=watermark_ms)

    def mask(self, columns: Sequence[Column], rows: int, *, now_ms: int, watermark_ms: int | None) -> Any:
        """Return the rows for which the single expression is true, as an Arrow array; None: it is true for all."""
        (found,) = self.evaluate(columns, rows, now_ms=now_ms, watermark_ms=watermark_ms)
        if isinstance(found, pyarrow.Scalar):
            return None if found.as_py() else pyarrow.repeat(pyarrow.scalar(False), rows)
        found = found.fill_null(False) if found.null_count else found
        return None if found.true_count == rows else found


def open_all(context: OperatorContext, *expressions: RowExpressions | None) -> None:
    """Open the expressions of an operator, which closes them at its end. None stands for one that it lacks."""
    for one in expressions:
        if one is not None:
            one.open(context)


def close_all(*expressions: RowExpressions | None) -> None:
    """Close the expressions of an operator."""
    for one in expressions:
        if one is not None:
            one.close()


def input_columns(expressions: Sequence[AnyRexNode]) -> frozenset[int]:
    """Return the positions of the columns that expressions read."""
    return frozenset(node.index for node in nodes_of(expressions) if isinstance(node, RexInputRef))


def called_functions(expressions: Sequence[AnyRexNode]) -> frozenset[str]:
    """Return the names of functions that are not Flink's, in lower case, as Flink looks them up."""
    calls = (node for node in nodes_of(expressions) if isinstance(node, RexCall) and not node.is_built_in)
    return frozenset(call.name.lower() for call in calls)
