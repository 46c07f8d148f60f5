"""`StatementSet`: insertions that run as one job. Source: PyFlink, pyflink.table.StatementSet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.table.planner.statements import ExplainDetail
    from penstock.table.table_result import TableResult


class StatementSet:
    """Collects insertions, and executes them together: tables that several of them read are read once."""

    def __init__(
        self,
        explain: Callable[[Sequence[str], Sequence[ExplainDetail]], str],
        execute: Callable[[Sequence[str]], TableResult],
    ) -> None:
        self._explain = explain
        self._execute = execute
        self._statements: list[str] = []

    def add_insert_sql(self, stmt: str) -> StatementSet:
        """Add an INSERT INTO."""
        if not isinstance(stmt, str):
            raise TypeError(f"expected an insertion as text, got {stmt!r}")
        self._statements.append(stmt)
        return self

    def explain(self, *extra_details: ExplainDetail) -> str:
        """Return Flink's text about the plan of all insertions. Raises SqlError."""
        return self._explain(self._statements, extra_details)

    def execute(self) -> TableResult:
        """Start the job of all insertions, and forget them. Raises what `TableEnvironment.execute_sql` raises."""
        if not self._statements:
            raise ValueError("the statement set is empty: call add_insert_sql first")
        statements, self._statements = self._statements, []
        return self._execute(statements)
