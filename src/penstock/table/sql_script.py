"""Executes the statements of a script, one after the other, and prints what they give."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator

from penstock.common.job_client import JobClient
from penstock.table.planner.errors import SqlError, UnsupportedPlanError
from penstock.table.planner.statements import Statement, split_statements
from penstock.table.query_options import RESULT_MODE, value_of
from penstock.table.result_printer import ResultMode, print_rows
from penstock.table.table_environment import TableEnvironment
from penstock.table.table_result import ResultKind

_MODES = {"TABLE": ResultMode.TABLE, "CHANGELOG": ResultMode.CHANGELOG, "TABLEAU": ResultMode.CHANGELOG}
"""Flink's modes; its tableau prints a changelog."""
_ENDS = ("QUIT", "EXIT")
_SET_OF_CLIENTS = re.compile(r"(\s*)BEGIN\s+STATEMENT\s+SET\s*;", re.IGNORECASE)
"""How Flink's SQL client begins a set of statements."""


class SqlScript:
    """Runs statements in an environment. `name`: of the script, for errors. `mode`: None: by the option of Flink.

    `announce`: called with a line about each job that starts.
    """

    def __init__(
        self,
        environment: TableEnvironment,
        name: str,
        mode: ResultMode | None = None,
        announce: Callable[[str], None] = lambda line: print(line, file=sys.stderr),
    ) -> None:
        self._environment = environment
        self._name = name
        self._mode = mode
        self._announce = announce
        self._jobs: list[tuple[str, JobClient]] = []

    def run(self, text: str) -> None:
        """Execute all statements, up to QUIT. The jobs of insertions run on: `wait` waits for them.

        Raises SqlError or UnsupportedPlanError, whose message begins with script, line and column, and the errors of
        jobs.
        """
        for statement in split_statements(text):
            if statement.sql.upper() in _ENDS:
                return
            try:
                self._execute(placed(text, statement))
            except (SqlError, UnsupportedPlanError) as error:
                line = getattr(error, "line", 0) or statement.line
                column = getattr(error, "column", 0)
                place = f"{self._name}, line {line}" + (f", column {column}" if column else "")
                raise type(error)(f"{place}: {error}") from error

    def wait(self) -> None:
        """Wait for the end of all jobs. Raises the error of the first that fails."""
        for _, client in self._jobs:
            client.get_job_execution_result().result()

    def running(self) -> Iterator[str]:
        """Return a line for each job that still runs: its id and the statement that has started it."""
        for name, client in self._jobs:
            if not client.get_job_execution_result().done():
                yield f"job {client.get_job_id()} '{name}'"

    def _execute(self, sql: str) -> None:
        result = self._environment.execute_sql(_SET_OF_CLIENTS.sub(r"\1EXECUTE STATEMENT SET BEGIN", sql, count=1))
        client = result.get_job_client()
        name = " ".join(sql.split())
        short = name if len(name) <= 60 else f"{name[:57]}..."
        if client is not None:
            self._jobs.append((short, client))
        if client is not None and not result.is_changelog:
            self._announce(f"job {client.get_job_id()} runs: {short}")
            return
        mode = self._mode or _MODES[value_of(self._environment.get_config().to_dict(), RESULT_MODE)]
        if result.get_result_kind() is ResultKind.SUCCESS:
            if mode is not ResultMode.JSON:
                print("OK")
            return
        with result.collect() as rows:
            print_rows(
                rows,
                result.get_column_names(),
                result.get_column_types(),
                mode=mode,
                is_changelog=result.is_changelog,
                zone=result.zone,
            )


def placed(text: str, statement: Statement) -> str:
    """Return a statement behind as many lines and columns as in its script: so errors have the script's places."""
    lines = text.split("\n")[: statement.line]
    column = lines[-1].find(statement.sql.split("\n", 1)[0])
    return "\n" * (statement.line - 1) + " " * max(column, 0) + statement.sql
