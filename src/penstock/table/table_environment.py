"""`TableEnvironment`: SQL statements and Tables, and the jobs that they start.

Source: PyFlink, pyflink.table.TableEnvironment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.common.configuration import Configuration
from penstock.common.doors import pyflink_names
from penstock.common.functions.driver_only import DriverOnly
from penstock.table.composing.catalog_methods import CatalogMethods
from penstock.table.composing.table_makers import TableMakers
from penstock.table.environment_settings import EnvironmentSettings
from penstock.table.logical_types import STRING, LogicalType
from penstock.table.query_options import ZONE, check_set
from penstock.table.table_config import TableConfig

if TYPE_CHECKING:
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
    from penstock.table.composing.relation import Relation
    from penstock.table.planner.planner import Planner
    from penstock.table.planner.statements import ExplainDetail
    from penstock.table.statement_set import StatementSet
    from penstock.table.table_pipeline import TablePipeline
    from penstock.table.table_result import TableResult
    from penstock.table.user_functions import FunctionDefinition

_JOB_OPTIONS = ("execution.", "parallelism.", "pipeline.", "restart-strategy.", "state.", "spark.", "penstock.")
"""Beginnings of the options of jobs, which the planner does not read."""
_MODE = "execution.runtime-mode"
T = TypeVar("T")


class TableEnvironment(CatalogMethods, TableMakers, DriverOnly):
    """Executes statements of Flink's SQL, and Tables. Flink's planner plans them, in a process.

    The process starts with the first statement; composing Tables starts nothing. A query or an insertion starts a job.
    """

    def __init__(self, environment: StreamExecutionEnvironment, settings: EnvironmentSettings) -> None:
        super().__init__()
        self._environment = environment
        self._settings = settings
        self._config = TableConfig(settings.get_configuration().to_dict())
        self._planner: Planner | None = None
        self._known_options: dict[str, str] = {}

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name == "functions":
                # Its module imports columns, which an environment without functions does not need.
                from penstock.table.function_catalog import FunctionCatalog

                self.functions = FunctionCatalog(self._synchronized, self._current)
                return self.functions
            raise pyflink_names.missing_method(type(self), name)

    @staticmethod
    def create(environment_settings: EnvironmentSettings | Configuration) -> TableEnvironment:
        """Return a new environment, whose jobs are its own."""
        from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment

        if isinstance(environment_settings, Configuration):
            environment_settings = EnvironmentSettings.new_instance().with_configuration(environment_settings).build()
        if not isinstance(environment_settings, EnvironmentSettings):
            raise TypeError(f"expected EnvironmentSettings, got {environment_settings!r}")
        return TableEnvironment(StreamExecutionEnvironment.get_execution_environment(), environment_settings)

    def get_config(self) -> TableConfig:
        """Return the options, which later statements are planned by."""
        return self._config

    def execute_sql(self, stmt: str) -> TableResult:
        """Execute one statement: about tables, views, functions and options, an insertion, or a query.

        An insertion and a query start a job and return at once: `wait()` for the first, `collect()` or `print()` for
        the second. Raises SqlError for an invalid statement, UnsupportedPlanError for one that can't be executed (both
        name what it is), PlannerError if there is no planner, and what `StreamExecutionEnvironment.execute` raises.
        """
        from penstock.table.planner.function_statements import describe_function, function_statement
        from penstock.table.planner.statements import explain_statement
        from penstock.table.table_result import ResultKind, TableResult

        _check_text(stmt)
        check_set(stmt)
        planner = self._synchronized()
        if (of_function := function_statement(stmt)) is not None and self.functions.execute(of_function):
            return TableResult.of_rows(["result"], [STRING], [("OK",)], ResultKind.SUCCESS)
        if (described := describe_function(stmt)) is not None and (rows := self.functions.describe(described)):
            columns = ("info name", "info value")
            return TableResult.of_rows(columns, [STRING, STRING], rows, ResultKind.SUCCESS_WITH_CONTENT)
        if (found := explain_statement(stmt)) is not None:
            text = self._explain_statements([found.statement], found.details)
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
        return self._explain_statements([stmt], extra_details)

    def create_statement_set(self) -> StatementSet:
        """Return a set of insertions that run as one job."""
        from penstock.table.statement_set import StatementSet

        return StatementSet(self)

    def add_python_file(self, file_path: str) -> None:
        """Send a module to the workers: see `StreamExecutionEnvironment.add_python_file`."""
        self._environment.add_python_file(file_path)

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Send an archive to the workers: see `StreamExecutionEnvironment.add_python_archive`."""
        self._environment.add_python_archive(archive_path, target_dir)

    def set_python_requirements(self, requirements_file_path: str, requirements_cache_dir: str | None = None) -> None:
        """Install packages for the job: see `StreamExecutionEnvironment.set_python_requirements`."""
        self._environment.set_python_requirements(requirements_file_path, requirements_cache_dir)

    # Internal to the package.

    def _explain_statements(self, statements: Sequence[str], details: Sequence[ExplainDetail]) -> str:
        """Return Flink's text about the plan of several statements, and the operators that execute it."""
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
        functions = self.functions.calls if "functions" in self.__dict__ else {}
        shown = explained(plan, configuration, options=options, secrets=planner.secrets, functions=functions)
        return f"{text}\n{shown}"

    def _execute_statements(self, statements: Sequence[str]) -> TableResult:
        """Start the job of several insertions."""
        planner = self._synchronized()
        return self._run(planner, planner.compile_plan(statements), None)

    def _attach_statements(self, statements: Sequence[str]) -> None:
        """Add several insertions to the program of the StreamExecutionEnvironment."""
        planner = self._synchronized()
        self._attach(planner, planner.compile_plan(statements), None)

    def _execute_relation(self, relation: Relation) -> TableResult:
        """Start the job of a Table."""
        with self._blaming(relation):
            sql = relation.sql()
            planner = self._synchronized()
            result = planner.execute(sql)
        assert result.plan is not None
        return self._run(planner, result.plan, result.result_table)

    def _explain_relation(self, relation: Relation, details: Sequence[ExplainDetail]) -> str:
        """Return Flink's text about the plan of a Table."""
        with self._blaming(relation):
            return self._explain_statements([relation.sql()], details)

    def _execute_pipelines(self, pipelines: Sequence[TablePipeline]) -> TableResult:
        """Start the job of insertions of Tables."""
        with self._blaming(*(one.relation for one in pipelines)):
            return self._execute_statements([one.sql() for one in pipelines])

    def _explain_pipelines(self, pipelines: Sequence[TablePipeline], details: Sequence[ExplainDetail]) -> str:
        """Return Flink's text about the plan of insertions of Tables."""
        with self._blaming(*(one.relation for one in pipelines)):
            return self._explain_statements([one.sql() for one in pipelines], details)

    def _schema_of(self, relation: Relation) -> list[tuple[str, LogicalType, str]]:
        """Return name, type and shown type of each column of a Table."""
        with self._blaming(relation):
            sql = relation.sql()
            return self._synchronized().schema(sql)

    def _function_name(self, function: FunctionDefinition, row_names: tuple[str, ...] | None) -> str:
        """Return the name of a function that an expression calls, quoted."""
        return self.functions.inline(function, row_names)

    def _rows_of(self, statement: str) -> list[tuple[str | None, ...]]:
        """Execute a statement that starts no job, and return its rows."""
        return list(self._synchronized().execute(statement).rows)

    @property
    def _tables(self) -> TableEnvironment:
        return self

    @contextmanager
    def _blaming(self, *relations: Relation) -> Iterator[None]:
        """Let errors name the call of the program that made the part of the query that is wrong."""
        from penstock.table.composing.blame import blamed
        from penstock.table.planner.errors import SqlError

        try:
            yield
        except SqlError as error:
            found = blamed(error, relations, lambda sql: self._synchronized().schema(sql))
            if found is error:
                raise
            raise found from None

    def _current(self) -> tuple[str, str]:
        return self.get_current_catalog(), self.get_current_database()

    def _synchronized(self) -> Planner:
        """Return the planner, with the options as they are now, and with what Tables need."""
        options = self._planner_options()
        if self._planner is None:
            from penstock.table.planner.planner import Planner

            self._planner = Planner(options)
        else:
            for key, value in options.items():
                if self._known_options.get(key) != value:
                    self._planner.execute(f"SET '{_escaped(key)}' = '{_escaped(value)}'")
        self._known_options = options
        if "functions" in self.__dict__:
            self.functions.flush(self._planner)
        while self._pending:
            # One that fails is not tried again.
            self._planner.execute(self._pending.pop(0))
        return self._planner

    def _planner_options(self) -> dict[str, str]:
        options = {ZONE.key: ZONE.default, **self._config.to_dict()}
        return {key: value for key, value in options.items() if key == _MODE or not key.startswith(_JOB_OPTIONS)}

    def _read_options(self, planner: Planner, stmt: str) -> None:
        """Take over options that a statement has set or reset."""
        words = stmt.split(None, 1)
        if not words or (word := words[0].upper().rstrip(";")) not in ("SET", "RESET"):
            return
        if word == "RESET":
            key = words[1].strip().rstrip(";").strip().strip("'") if len(words) > 1 else None
            initial = self._settings.get_configuration().to_dict()
            self._config.reset(initial, key or None)
            self._known_options = self._planner_options()
        for key, value in planner.execute("SET").rows:
            if key is not None and value is not None:
                self._config.set(key, value)
                self._known_options[key] = value

    def _attach(self, planner: Planner, plan: Any, result_table: str | None) -> Any:
        """Add a plan to the program of the StreamExecutionEnvironment. Return the rows of a query, on columns."""
        from penstock.table.execution.jobs import attach

        return self._given(attach, planner, plan, result_table)

    def _run(self, planner: Planner, plan: Any, result_table: str | None) -> TableResult:
        from penstock.table.execution.jobs import start

        return self._given(start, planner, plan, result_table)

    def _given(self, use: Callable[..., T], planner: Planner, plan: Any, result_table: str | None) -> T:
        """Return what `use` makes of a plan in this environment."""
        return use(
            self._environment,
            planner,
            plan=plan,
            result_table=result_table,
            config=self._config,
            settings=self._settings,
            functions=self.functions.calls,
        )


def _check_text(stmt: object) -> None:
    if not isinstance(stmt, str):
        raise TypeError(f"expected a statement as text, got {stmt!r}")


def _escaped(text: str) -> str:
    return text.replace("'", "''")


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # PyFlink has both classes in this module; the other one imports streams.
        if name == "StreamTableEnvironment":
            from penstock.table.stream_table_environment import StreamTableEnvironment

            return StreamTableEnvironment
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
