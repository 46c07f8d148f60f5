"""PyFlink's module path of tables: `TableEnvironment` executes Flink's SQL; `DataTypes` describe columns of files."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock.common.doors import pyflink_names
from penstock.common.doors.door import publish
from penstock.table.types import DataTypes

if TYPE_CHECKING:
    from penstock.table.environment_settings import EnvironmentSettings
    from penstock.table.statement_set import StatementSet
    from penstock.table.table_config import TableConfig
    from penstock.table.table_environment import StreamTableEnvironment, TableEnvironment
    from penstock.table.table_result import ResultKind, TableResult

__all__ = [
    "DataTypes",
    "EnvironmentSettings",
    "ResultKind",
    "StatementSet",
    "StreamTableEnvironment",
    "TableConfig",
    "TableEnvironment",
    "TableResult",
]
_MODULES = {
    "EnvironmentSettings": "environment_settings",
    "ResultKind": "table_result",
    "StatementSet": "statement_set",
    "StreamTableEnvironment": "table_environment",
    "TableConfig": "table_config",
    "TableEnvironment": "table_environment",
    "TableResult": "table_result",
}
"""Names whose modules are imported when they are first used: files need DataTypes alone."""


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        found = getattr(import_module(f"penstock.table.{_MODULES[name]}"), name)
        globals()[name] = found
        publish(__name__, [name])
        return found
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # The import system drops the text of an AttributeError.
    raise ImportError(f"penstock has no {name} in {__name__}: {pyflink_names.reason('pyflink.table')}", name=__name__)


publish(__name__, ["DataTypes"])
