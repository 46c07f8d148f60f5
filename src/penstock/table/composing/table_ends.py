"""Ends of Tables: the schema, the plan, the rows, or an insertion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.table.composing.sql_text import quoted_path

if TYPE_CHECKING:
    import pandas
    import pyarrow

    from penstock.table.composing.relation import Relation
    from penstock.table.resolved_schema import ResolvedSchema, TableSchema
    from penstock.table.table_descriptor import TableDescriptor
    from penstock.table.table_environment import TableEnvironment
    from penstock.table.table_pipeline import TablePipeline
    from penstock.table.table_result import TableResult


class TableEnds:
    """Methods of Table that start the planner."""

    environment: TableEnvironment
    relation: Relation

    def get_schema(self) -> TableSchema:
        """Return the columns, for which the table is planned. Raises SqlError if the table is not valid."""
        from penstock.table.resolved_schema import TableSchema

        return TableSchema(self.relation.schema())

    def get_resolved_schema(self) -> ResolvedSchema:
        """Return the columns, for which the table is planned. Raises SqlError if the table is not valid."""
        from penstock.table.resolved_schema import ResolvedSchema

        return ResolvedSchema(self.relation.schema())

    def print_schema(self) -> None:
        """Print the columns."""
        print(self.get_resolved_schema())

    def explain(self, *extra_details: Any) -> str:
        """Return Flink's text about the plan of the table. Raises SqlError."""
        return self.environment._explain_relation(self.relation, extra_details)

    def print_explain(self, *extra_details: Any) -> None:
        """Print Flink's text about the plan of the table."""
        print(self.explain(*extra_details))

    def execute(self) -> TableResult:
        """Start the job of the table. Raises what `TableEnvironment.execute_sql` raises."""
        return self.environment._execute_relation(self.relation)

    def execute_insert(self, table_path_or_descriptor: str | TableDescriptor, overwrite: bool = False) -> TableResult:
        """Start the job that writes the rows into a table. Raises what `TableEnvironment.execute_sql` raises."""
        return self.insert_into(table_path_or_descriptor, overwrite).execute()

    def insert_into(self, table_path_or_descriptor: str | TableDescriptor, overwrite: bool = False) -> TablePipeline:
        """Return the insertion of the rows into a table, by its path or its description."""
        from penstock.table.table_pipeline import TablePipeline

        path = table_path_or_descriptor
        if not isinstance(path, str):
            path = self.environment._name_of_descriptor(path, self.relation)
        return TablePipeline(self.environment, self.relation, quoted_path(path), overwrite)

    def to_arrow(self) -> pyarrow.Table:
        """Run the query to its end, and return its rows as a table of Arrow. Not in PyFlink.

        Changes are applied: of a query that updates its rows, the last ones are returned.
        """
        from penstock.table.composing.collected_rows import arrow_table

        return arrow_table(self.execute())

    def to_pandas(self) -> pandas.DataFrame:
        """Run the query to its end, and return its rows as a DataFrame: see `to_arrow`."""
        return self.to_arrow().to_pandas()

    def __str__(self) -> str:
        """Return the name of a temporary view of the table, for SQL: f"SELECT * FROM {table}"."""
        return self.environment._name_of_relation(self.relation)

    def __repr__(self) -> str:
        return f"<Table {self.relation.sql()}>"
