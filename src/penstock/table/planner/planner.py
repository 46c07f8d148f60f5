"""`Planner`: the tables, views and functions of a program, and the plans of its statements, by Flink's planner."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from penstock.common.configuration import Configuration
from penstock.hosts.spark.driver.session import keeps_session
from penstock.table.logical_types import LogicalType, parse
from penstock.table.planner.compiled_plan import CompiledPlan, read_plan
from penstock.table.planner.errors import SqlError
from penstock.table.planner.jars import planner_directory
from penstock.table.planner.kept_planner import KeptPlanners
from penstock.table.planner.near_names import COLUMN, FUNCTION, TABLE, Names, with_near_names
from penstock.table.planner.plan_files import PlanStatement, plan_statement
from penstock.table.planner.plan_text import plan_text
from penstock.table.planner.planner_process import PlannerProcess
from penstock.table.planner.preparation import launch, prepare_in_background
from penstock.table.planner.refusals import sql_error
from penstock.table.planner.secret_options import SecretOptions
from penstock.table.planner.statements import ExplainDetail, check_statement, only_asks
from penstock.table.query_options import FORCE_RECOMPILE, value_of

_OF_PYFLINK = "The dependency of 'flink-python' is not present"
_ids = itertools.count(1)


@dataclass(frozen=True)
class StatementResult:
    """The result of a statement: rows of text, or the plan of a job."""

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str | None, ...], ...] = ()
    plan: CompiledPlan | None = None
    result_table: str | None = None
    """For a query: the identifier of the sink that its rows go to."""


def shared_process(keep: bool | None = None) -> PlannerProcess:
    """Return the planner's process of this program, which its first request starts or takes over.

    `keep`: whether it stays for the next program; None: as Spark's JVM, at a terminal and in notebooks. Raises
    PlannerError if there are no jars or no Java.
    """
    return _process(keeps_session(Configuration(), os.environ) if keep is None else keep)


@cache
def _process(keep: bool) -> PlannerProcess:
    directory = planner_directory(os.environ)
    one = launch(directory, os.environ)
    prepare_in_background(one, directory, os.environ)
    command = one.full_command
    kept = None
    if keep and hasattr(os, "pidfd_open"):
        # Without a directory for its socket, the process ends with the program.
        with contextlib.suppress(OSError, ValueError):
            kept = KeptPlanners(command, os.environ)
    return PlannerProcess(command, kept=kept)


class Planner:
    """A table environment of Flink's that plans and executes nothing. Nothing is started before the first statement.

    `options`: options by Flink's names. Any connector can be planned: whether it exists is not checked here.
    """

    def __init__(self, options: Mapping[str, str] | None = None, process: PlannerProcess | None = None) -> None:
        self.secrets = SecretOptions()
        """Values of options that are secrets; the planner and its plans have references."""
        self._options = {key: self.secrets.hide_option("SET", key, value) for key, value in (options or {}).items()}
        self._given = process
        self.environment = str(next(_ids))
        """The name of the environment in requests to the process."""
        self._opened = 0
        self._log: list[dict[str, Any]] = []
        """Requests that changed the environment, in order: a new process gets them, too."""

    def execute(self, sql: str) -> StatementResult:
        """Execute a statement about the catalog or an option, or plan a query or an insertion.

        COMPILE PLAN writes a plan, and EXECUTE PLAN returns that of a file; then the caller runs it.

        Raises SqlError if the statement is invalid, UnsupportedPlanError if its plan has a part that is not supported,
        PlannerError if the planner is unavailable.
        """
        check_statement(sql)
        if (of_file := plan_statement(sql)) is not None:
            return self._plan_of_file(of_file)
        sql = self.secrets.hide(sql)
        answer = self._request(sql, {"operation": "execute", "sql": sql})
        if "plan" in answer:
            return StatementResult(plan=self._read(answer["plan"], [sql]), result_table=answer.get("result"))
        if not only_asks(sql):
            self._log.append({"operation": "execute", "sql": sql})
        rows = tuple(tuple(row) for row in answer.get("rows", ()))
        return StatementResult(columns=tuple(answer.get("columns", ())), rows=rows)

    def _plan_of_file(self, statement: PlanStatement) -> StatementResult:
        force = statement.statement is not None and value_of(self._options_that_are_set(), FORCE_RECOMPILE)
        text = statement.existing(force=force)
        if text is None:
            assert statement.statement is not None
            text = self.compile_plan([statement.statement]).text
            statement.write(text)
        if statement.executes:
            return StatementResult(plan=read_plan(text))
        return StatementResult(columns=("result",), rows=(("OK",),))

    def _options_that_are_set(self) -> dict[str, str | None]:
        return {str(key): value for key, value in self.execute("SET").rows}

    def compile_plan(self, statements: Sequence[str]) -> CompiledPlan:
        """Return the plan of several insertions or queries as one job. Raises what `execute` raises."""
        checked = self._checked(statements)
        answer = self._request(";\n".join(checked), {"operation": "compile", "statements": checked})
        return self._read(answer["plan"], checked)

    def explain(self, statements: Sequence[str], details: Sequence[ExplainDetail] = ()) -> str:
        """Return Flink's text about the plan of a query, or of several insertions as one job. Raises SqlError.

        Flink's needs a library of PyFlink for a plan with functions in Python: of such a plan, only the optimized one
        is shown.
        """
        checked = self._checked(statements)
        request = {"operation": "explain", "statements": checked, "details": list(details)}
        try:
            return str(self._request(";\n".join(checked), request)["text"])
        except SqlError as error:
            if _OF_PYFLINK not in str(error):
                raise
        return plan_text(self.compile_plan(statements))

    def schema(self, sql: str) -> list[tuple[str, LogicalType, str]]:
        """Return name, type and Flink's text of the type of each column of a query. Raises SqlError."""
        check_statement(sql)
        sql = self.secrets.hide(sql)
        answer = self._request(sql, {"operation": "schema", "sql": sql})
        return [(name, parse(text), shown) for name, text, shown in answer["rows"]]

    def create_function(
        self,
        name: str,
        argument_types: Sequence[LogicalType] | None,
        result_type: LogicalType,
        *,
        deterministic: bool = True,
        is_table_function: bool = False,
        is_system: bool = True,
    ) -> None:
        """Make a Python function known by name. A table function's result is a ROW.

        `argument_types`: None: any. `is_system`: plans call it by that name; otherwise it is one of the catalog, whose
        name may have a catalog and a database, and plans call it by its full name.
        """
        request = {
            "operation": "function",
            "name": name,
            "kind": "TABLE" if is_table_function else "SCALAR",
            "arguments": None if argument_types is None else [str(one) for one in argument_types],
            "system": is_system,
            "result": str(result_type),
            "deterministic": deterministic,
        }
        self._request(name, request)
        self._log.append(request)

    def close(self) -> None:
        """Forget the environment; the process stays for others."""
        if self._opened and self._opened == self._process.started and self._process.pid is not None:
            self._process.request("close", environment=self.environment)
        self._opened = 0
        self._log.clear()

    def _read(self, plan: str, statements: Sequence[str]) -> CompiledPlan:
        origin = json.dumps([self._options, self._log, list(statements)], sort_keys=True)
        return replace(read_plan(plan), origin=hashlib.sha256(origin.encode()).hexdigest())

    def _checked(self, statements: Sequence[str]) -> list[str]:
        for sql in statements:
            check_statement(sql)
        return [self.secrets.hide(sql) for sql in statements]

    @property
    def _process(self) -> PlannerProcess:
        return self._given if self._given is not None else shared_process()

    def _request(self, sql: str, request: Mapping[str, Any]) -> dict[str, Any]:
        process = self._process
        process.start()
        if self._opened != process.started:
            self._answer("", {"operation": "open", "options": self._options})
            for former in self._log:
                self._answer(former.get("sql", ""), former)
            self._opened = process.started
        try:
            return self._answer(sql, request)
        except SqlError as error:
            names: dict[str, Names] = {TABLE: self._tables, FUNCTION: self._functions}
            names[COLUMN] = partial(self._columns_in, sql)
            message = with_near_names(str(error), names)
            raise SqlError(message, line=error.line, column=error.column) from None

    def _tables(self) -> list[str]:
        return self._first_cells("SHOW TABLES")

    def _functions(self) -> list[str]:
        return self._first_cells("SHOW FUNCTIONS")

    def _columns_in(self, sql: str) -> list[str]:
        """Return the columns of all tables that a statement names."""
        words = sql.lower()
        tables = [table for table in self._tables() if table.lower() in words]
        return [column for table in tables for column in self._first_cells(f"DESCRIBE `{table}`")]

    def _first_cells(self, sql: str) -> list[str]:
        try:
            answer = self._answer(sql, {"operation": "execute", "sql": sql})
        except SqlError:
            # A view may name a table that is gone: that is not the error that the user must see.
            return []
        return [str(row[0]) for row in answer.get("rows", ())]

    def _answer(self, sql: str, request: Mapping[str, Any]) -> dict[str, Any]:
        answer = self._process.request(**{**request, "environment": self.environment})
        if not answer["ok"]:
            raise sql_error(sql, answer["causes"])
        return answer
