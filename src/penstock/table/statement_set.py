"""`StatementSet`: insertions that run as one job. Source: PyFlink, pyflink.table.StatementSet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from penstock.table.planner.statements import ExplainDetail
    from penstock.table.table import Table
    from penstock.table.table_descriptor import TableDescriptor
    from penstock.table.table_pipeline import TablePipeline
    from penstock.table.table_result import TableResult


class _Environment(Protocol):
    """Methods of the table environment that a set calls."""

    def _explain_statements(self, statements: Sequence[str], details: Sequence[ExplainDetail]) -> str: ...

    def _execute_statements(self, statements: Sequence[str]) -> TableResult: ...

    def _attach_statements(self, statements: Sequence[str]) -> None: ...


class StatementSet:
    """Collects insertions, and executes them together: tables that several of them read are read once."""

    def __init__(self, environment: _Environment) -> None:
        self._environment = environment
        self._statements: list[Callable[[], str]] = []

    def add_insert_sql(self, stmt: str) -> StatementSet:
        """Add an INSERT INTO."""
        if not isinstance(stmt, str):
            raise TypeError(f"expected an insertion as text, got {stmt!r}")
        self._statements.append(lambda: stmt)
        return self

    def add_insert(
        self, target_path_or_descriptor: str | TableDescriptor, table: Table, overwrite: bool = False
    ) -> StatementSet:
        """Add the insertion of a Table into a table, by its path or its description."""
        return self.add(table.insert_into(target_path_or_descriptor, overwrite))

    def add(self, table_pipeline: TablePipeline) -> StatementSet:
        """Add an insertion that `Table.insert_into` has made."""
        self._statements.append(table_pipeline.sql)
        return self

    def explain(self, *extra_details: ExplainDetail) -> str:
        """Return Flink's text about the plan of all insertions. Raises SqlError."""
        return self._environment._explain_statements([text() for text in self._statements], extra_details)

    def print_explain(self, *extra_details: ExplainDetail) -> None:
        """Print Flink's text about the plan of all insertions."""
        print(self.explain(*extra_details))

    def execute(self) -> TableResult:
        """Start the job of all insertions, and forget them. Raises what `TableEnvironment.execute_sql` raises."""
        return self._environment._execute_statements(self._taken())

    def attach_as_datastream(self) -> None:
        """Add the insertions to the program of the StreamExecutionEnvironment, whose `execute` runs them."""
        self._environment._attach_statements(self._taken())

    def _taken(self) -> list[str]:
        if not self._statements:
            raise ValueError("the statement set is empty: call add_insert_sql or add_insert first")
        statements, self._statements = self._statements, []
        return [text() for text in statements]
