"""PyFlink's module path of tables: environments, Tables, expressions, and functions of the program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.common.doors.door import publish, resolve_on_use
from penstock.common.types import Row, RowKind
from penstock.table.types import DataTypes

if TYPE_CHECKING:
    from penstock.table.changelog_mode import ChangelogMode
    from penstock.table.environment_settings import EnvironmentSettings
    from penstock.table.explain_detail import ExplainDetail
    from penstock.table.expression import Expression as Expression
    from penstock.table.resolved_schema import ResolvedSchema, TableSchema
    from penstock.table.schema import Schema
    from penstock.table.statement_set import StatementSet
    from penstock.table.stream_table_environment import StreamTableEnvironment
    from penstock.table.table import GroupedTable, GroupWindowedTable, OverWindowedTable, Table, WindowGroupedTable
    from penstock.table.table_config import TableConfig
    from penstock.table.table_descriptor import FormatDescriptor, TableDescriptor
    from penstock.table.table_environment import TableEnvironment
    from penstock.table.table_pipeline import TablePipeline
    from penstock.table.table_result import ResultKind, TableResult
    from penstock.table.user_functions import FunctionContext, ScalarFunction, TableFunction

__all__ = [
    "ChangelogMode",
    "DataTypes",
    "EnvironmentSettings",
    "ExplainDetail",
    "FormatDescriptor",
    "FunctionContext",
    "GroupWindowedTable",
    "GroupedTable",
    "OverWindowedTable",
    "ResolvedSchema",
    "ResultKind",
    "Row",
    "RowKind",
    "ScalarFunction",
    "Schema",
    "StatementSet",
    "StreamTableEnvironment",
    "Table",
    "TableConfig",
    "TableDescriptor",
    "TableEnvironment",
    "TableFunction",
    "TablePipeline",
    "TableResult",
    "TableSchema",
    "WindowGroupedTable",
]
_MODULES = {
    "ChangelogMode": "changelog_mode",
    "EnvironmentSettings": "environment_settings",
    "ExplainDetail": "explain_detail",
    "Expression": "expression",
    "FormatDescriptor": "table_descriptor",
    "FunctionContext": "udf",
    "GroupWindowedTable": "table",
    "GroupedTable": "table",
    "OverWindowedTable": "table",
    "ResolvedSchema": "resolved_schema",
    "ResultKind": "table_result",
    "ScalarFunction": "udf",
    "Schema": "schema",
    "StatementSet": "statement_set",
    "StreamTableEnvironment": "stream_table_environment",
    "Table": "table",
    "TableConfig": "table_config",
    "TableDescriptor": "table_descriptor",
    "TableEnvironment": "table_environment",
    "TableFunction": "udf",
    "TablePipeline": "table_pipeline",
    "TableResult": "table_result",
    "TableSchema": "resolved_schema",
    "WindowGroupedTable": "table",
}
"""Names whose modules are imported when they are first used: files need DataTypes alone."""

publish(__name__, ["DataTypes"])
resolve_on_use(__name__, _MODULES, publishes=True)
