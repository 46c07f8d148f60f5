"""`TableEnvironment` and `StreamTableEnvironment`: SQL statements, and the jobs that they start.

Source: PyFlink, pyflink.table.TableEnvironment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.common.configuration import Configuration
from penstock.common.doors import pyflink_names
from penstock.common.functions.driver_only import DriverOnly
from penstock.table.environment_settings import EnvironmentSettings
from penstock.table.logical_types import STRING
from penstock.table.table_config import TableConfig

if TYPE_CHECKING:
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
    from penstock.table.planner.planner import Planner
    from penstock.table.planner.statements import ExplainDetail
    from penstock.table.statement_set import StatementSet
    from penstock.table.table_result import TableResult

_JOB_OPTIONS = ("execution.", "parallelism.", "pipeline.", "restart-strategy.", "state.", "spark.", "penstock.")
"""Beginnings of the options of jobs, which the planner does not read."""
_MODE = "execution.runtime-mode"


class TableEnvironment(DriverOnly):
    """Executes statements of Flink's SQL. Statements about tables are planned by Flink's planner, in a process.

    The process starts with the first statement. A query or an insertion starts a job.
    """

    def __init__(self, environment: StreamExecutionEnvironment, settings: EnvironmentSettings) -> None:
        self._environment = environment
        self._settings = settings
        self._config = TableConfig(settings.get_configuration().to_dict())
        self._planner: Planner | None = None
        self._known_options: dict[str, str] = {}

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise pyflink_names.missing_method(type(self), name)

    @staticmethod
    def create(environment_settings: EnvironmentSettings) -> TableEnvironment:
        """Return a new environment, whose jobs are its own."""
        from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment

        if not isinstance(environment_settings, EnvironmentSettings):
            raise TypeError(f"expected EnvironmentSettings, got {environment_settings!r}")
        return TableEnvironment(StreamExecutionEnvironment.get_execution_environment(), environment_settings)

    def get_config(self) -> TableConfig:
        """Return the options, which later statements are planned by."""
        return self._config

    def execute_sql(self, stmt: str) -> TableResult:
        """Execute one statement: about tables, views and options, an insertion, or a query.

        An insertion and a query start a job and return at once: `wait()` for the first, `collect()` or `print()` for
        the second. Raises SqlError for an invalid statement, UnsupportedPlanError for one that can't be executed (both
        name what it is), PlannerError if there is no planner, and what `StreamExecutionEnvironment.execute` raises.
        """
        from penstock.table.planner.statements import explain_statement
        from penstock.table.table_result import ResultKind, TableResult

        _check_text(stmt)
        planner = self._synchronized()
        if (found := explain_statement(stmt)) is not None:
            text = self._explained([found.statement], found.details)
            return TableResult.of_rows(("result",), [STRING], [(text,)], ResultKind.SUCCESS_WITH_CONTENT)
        result = planner.execute(stmt)
        if result.plan is not None:
            return self._run(planner, result.plan, result.result_table)
        self._read_options(planner, stmt)
        success = result.columns in ((), ("result",)) and result.rows in ((), (("OK",),))
        kind = ResultKind.SUCCESS if success else ResultKind.SUCCESS_WITH_CONTENT
        return TableResult.of_rows(result.columns, [STRING] * len(result.columns), result.rows, kind)

    def explain_sql(self, stmt: str, *extra_details: ExplainDetail) -> str:
        """Return Flink's text about the plan of a query or an insertion, and the operators that execute it.

        Raises SqlError.
        """
        _check_text(stmt)
        return self._explained([stmt], extra_details)

    def create_statement_set(self) -> StatementSet:
        """Return a set of insertions that run as one job."""
        from penstock.table.statement_set import StatementSet

        return StatementSet(self._explained, self._executed)

    def list_tables(self) -> list[str]:
        """Return the names of tables and views of the current database, in order."""
        return self._names("SHOW TABLES")

    def list_views(self) -> list[str]:
        """Return the names of views of the current database."""
        return self._names("SHOW VIEWS")

    def list_catalogs(self) -> list[str]:
        """Return the names of catalogs."""
        return self._names("SHOW CATALOGS")

    def list_databases(self) -> list[str]:
        """Return the names of databases of the current catalog."""
        return self._names("SHOW DATABASES")

    def use_catalog(self, catalog_name: str) -> None:
        """Make a catalog the current one."""
        self.execute_sql(f"USE CATALOG {_quoted(catalog_name)}")

    def use_database(self, database_name: str) -> None:
        """Make a database the current one."""
        self.execute_sql(f"USE {_quoted(database_name)}")

    def get_current_catalog(self) -> str:
        """Return the name of the current catalog."""
        return self._names("SHOW CURRENT CATALOG")[0]

    def get_current_database(self) -> str:
        """Return the name of the current database."""
        return self._names("SHOW CURRENT DATABASE")[0]

    def drop_temporary_view(self, view_path: str) -> bool:
        """Drop a temporary view. Return whether there was one."""
        if view_path not in self._names("SHOW VIEWS"):
            return False
        self.execute_sql(f"DROP TEMPORARY VIEW {view_path}")
        return True

    def drop_temporary_table(self, table_path: str) -> bool:
        """Drop a temporary table. Return whether there was one."""
        if table_path not in self._names("SHOW TABLES"):
            return False
        self.execute_sql(f"DROP TEMPORARY TABLE {table_path}")
        return True

    # Internal to the package.

    def _explained(self, statements: Sequence[str], details: Sequence[ExplainDetail]) -> str:
        from penstock.table.execution.explanation import explained
        from penstock.table.planner.errors import UnsupportedPlanError

        planner = self._synchronized()
        text = planner.explain(statements, details)
        options = self._config.to_dict()
        configuration = Configuration()
        configuration.add_all(self._environment.configuration_of_job())
        for key, value in options.items():
            if key.startswith(_JOB_OPTIONS):
                configuration.set_string(key, value)
        configuration.set_string(_MODE, "STREAMING")
        try:
            plan = planner.compile_plan(statements)
        except UnsupportedPlanError as error:
            return f"{text}\n== Execution ==\nThis can't be executed: {error}\n"
        return f"{text}\n{explained(plan, configuration, options=options, secrets=planner.secrets)}"

    def _executed(self, statements: Sequence[str]) -> TableResult:
        """Start the job of several insertions."""
        planner = self._synchronized()
        return self._run(planner, planner.compile_plan(statements), None)

    def _names(self, statement: str) -> list[str]:
        return [str(row[0]) for row in self._synchronized().execute(statement).rows]

    def _synchronized(self) -> Planner:
        """Return the planner, with the options as they are now."""
        options = self._planner_options()
        if self._planner is None:
            from penstock.table.planner.planner import Planner

            self._planner = Planner(options)
        else:
            for key, value in options.items():
                if self._known_options.get(key) != value:
                    self._planner.execute(f"SET '{_escaped(key)}' = '{_escaped(value)}'")
        self._known_options = options
        return self._planner

    def _planner_options(self) -> dict[str, str]:
        options = {"table.local-time-zone": "UTC", **self._config.to_dict()}
        return {key: value for key, value in options.items() if key == _MODE or not key.startswith(_JOB_OPTIONS)}

    def _read_options(self, planner: Planner, stmt: str) -> None:
        """Take over options that a statement has set."""
        words = stmt.split(None, 1)
        if words and words[0].upper().rstrip(";") in ("SET", "RESET"):
            for key, value in planner.execute("SET").rows:
                if key is not None and value is not None:
                    self._config.set(key, value)
                    self._known_options[key] = value

    def _run(self, planner: Planner, plan: Any, result_table: str | None) -> TableResult:
        from penstock.table.execution.jobs import start

        return start(
            self._environment,
            planner,
            plan=plan,
            result_table=result_table,
            config=self._config,
            settings=self._settings,
        )


class StreamTableEnvironment(TableEnvironment):
    """A table environment whose jobs have the settings of a StreamExecutionEnvironment."""

    @staticmethod
    def create(  # type: ignore[override]
        stream_execution_environment: StreamExecutionEnvironment | None = None,
        environment_settings: EnvironmentSettings | None = None,
    ) -> StreamTableEnvironment:
        """Return a new environment for tables and streams of one program."""
        from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment

        settings = environment_settings or EnvironmentSettings.in_streaming_mode()
        if not isinstance(settings, EnvironmentSettings):
            raise TypeError(f"expected EnvironmentSettings, got {settings!r}")
        given = stream_execution_environment or StreamExecutionEnvironment.get_execution_environment()
        return StreamTableEnvironment(given, settings)


def _check_text(stmt: object) -> None:
    if not isinstance(stmt, str):
        raise TypeError(f"expected a statement as text, got {stmt!r}")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _escaped(text: str) -> str:
    return text.replace("'", "''")
