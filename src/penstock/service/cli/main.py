"""The `penstock` command. It imports neither Spark nor Arrow, which would slow its start; the user's program does."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from penstock.service.cli import demo, jobs
from penstock.service.cli.cluster import cluster
from penstock.service.cli.dashboard import dashboard
from penstock.service.cli.end_sessions import end_sessions
from penstock.service.cli.explain import explain
from penstock.service.cli.logs import logs
from penstock.service.cli.prepare import prepare
from penstock.service.cli.query import query
from penstock.service.cli.run import run
from penstock.service.cli.sql import sql
from penstock.service.cli.state import state
from penstock.service.cli.top import top
from penstock.service.cli.update import update
from penstock.service.cli.version import version

_PROGRAM_FIRST = {"allow_interspersed_args": False}

_ABOUT = """
Stateful stream processing in Python, with PyFlink's API, on Apache Spark.

\b
Start here:
  penstock demo                             replay a year of flights
  penstock explain job.py                   draw the job graph and the slots it needs
  penstock run job.py                       run it on this machine
  penstock run -p 4 job.py --day monday     four subtasks of each operator; --day is the job's own
  penstock sql -e "SELECT 1 + 1"            statements of Flink's SQL; -f FILE executes a script
  penstock list                             jobs; then top, logs, savepoint, scale, update, stop, cancel JOB
  penstock state ls SAVEPOINT               contents of a savepoint or checkpoint; then state show
  penstock query JOB STATE KEY              state of a running job, as of its last completed checkpoint
  penstock cluster start                    one Spark application for many jobs; then penstock run -m HOST:PORT job.py

\b
Settings (-D KEY=VALUE, or in the job by env.configure), with their defaults:
  parallelism.default=1                     subtasks of each operator
  execution.runtime-mode=STREAMING          or BATCH, or AUTOMATIC: batch if all sources are bounded
  execution.buffer-timeout.interval=5ms     longer: more throughput; shorter: less latency
  spark.master=local[...]                   spark://host:7077, yarn, k8s://...: a cluster instead of this machine
  spark.driver.memory, spark.executor...    any setting of Spark is passed through

Linux (x86-64) and macOS need no installed Java; an installed one, 17 or newer, takes precedence.
"""


class _Commands(TyperGroup):
    """Tells a user who leaves out `run` what to type."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = super().get_command(ctx, cmd_name)
        if command is None and cmd_name.endswith(".py"):
            raise typer.BadParameter(f"{cmd_name} is a program, not a command. To run it: penstock run {cmd_name}")
        return command


app = typer.Typer(
    name="penstock",
    cls=_Commands,
    help=_ABOUT,
    no_args_is_help=True,
    add_completion=False,
    # Plain text: rich help would cost more than the rest of the start.
    rich_markup_mode=None,
    # service/cli/script.py reports errors of the user's program. Others are bugs: Python's traceback is most useful.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        version()
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version",
            is_eager=True,
            callback=_print_version,
            help="Print the versions of penstock, Python and Spark.",
        ),
    ] = False,
) -> None:
    """Define the options of `penstock` itself."""


app.command(context_settings=_PROGRAM_FIRST)(run)
app.command(context_settings=_PROGRAM_FIRST)(explain)
app.command()(sql)
app.command("list")(jobs.list_jobs)
app.command()(top)
app.command()(logs)
app.command()(jobs.savepoint)
app.command()(jobs.scale)
app.command(context_settings=_PROGRAM_FIRST)(update)
app.command()(jobs.stop)
app.command()(jobs.cancel)
app.command()(jobs.checkpoints)
app.command()(query)
app.command()(dashboard)
app.command()(end_sessions)
app.command()(prepare)
app.add_typer(state, name="state")
app.add_typer(cluster, name="cluster")
app.command(help=demo.ABOUT)(demo.demo)
app.command()(version)


def main() -> None:
    """Entry point of the script `penstock`."""
    app()


if __name__ == "__main__":
    main()
