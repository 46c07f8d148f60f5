"""`TablePipeline`: the insertion of a Table. Source: PyFlink, pyflink.table.TablePipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.table.composing.relation import Relation
    from penstock.table.table_environment import TableEnvironment
    from penstock.table.table_result import TableResult


class TablePipeline:
    """Rows of a Table, and the table into which they are written."""

    def __init__(self, environment: TableEnvironment, relation: Relation, path: str, overwrite: bool) -> None:
        self._environment = environment
        self.relation = relation
        """The query. Internal to the package."""
        self._path = path
        self._overwrite = overwrite

    def sql(self) -> str:
        """Return the insertion. Internal to the package."""
        return f"INSERT {'OVERWRITE' if self._overwrite else 'INTO'} {self._path} {self.relation.sql()}"

    def execute(self) -> TableResult:
        """Start the job. Raises what `TableEnvironment.execute_sql` raises."""
        return self._environment._execute_pipelines([self])

    def explain(self, *extra_details: Any) -> str:
        """Return Flink's text about the plan. Raises SqlError."""
        return self._environment._explain_pipelines([self], extra_details)

    def print_explain(self, *extra_details: Any) -> None:
        """Print Flink's text about the plan."""
        print(self.explain(*extra_details))

    def get_sink_identifier(self) -> str:
        """Return the path of the table that is written."""
        return self._path

    def __str__(self) -> str:
        return self.sql()
