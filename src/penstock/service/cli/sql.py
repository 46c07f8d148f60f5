"""`penstock sql`: execute statements of Flink's SQL from the terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.service.cli.interrupts import EXIT_CODE, Interrupts, abandon_jvm
from penstock.service.cli.options import (
    Cluster,
    ConfFile,
    Detached,
    KeepSession,
    Master,
    Parallelism,
    Quiet,
    RestPort,
    Settings,
    program_context,
    settings_in,
    settings_of,
)

if TYPE_CHECKING:
    from penstock.table.sql_script import SqlScript

_REST_PORTS = "8081-8099,0"
_MODES = ("table", "changelog", "json")
_STANDARD_INPUT = Path("-")
File = Annotated[
    Path | None,
    typer.Option(
        "--file", "-f", metavar="FILE", show_default=False, help="A script of statements; `-`: standard input."
    ),
]
Text = Annotated[
    list[str] | None,
    typer.Option("--execute", "-e", metavar="SQL", show_default=False, help="Statements; may be repeated."),
]
Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="MODE",
        show_default=False,
        help="How rows of queries are printed: `table`, those left at the end (default); `changelog`, each change when "
        "it comes; `json`, the same as lines of JSON.",
    ),
]


def sql(
    file: File = None,
    execute: Text = None,
    output: Output = None,
    parallelism: Parallelism = None,
    master: Master = None,
    settings: Settings = None,
    conf_file: ConfFile = None,
    keep_session: KeepSession = None,
    quiet: Quiet = False,
    rest_port: RestPort = None,
    cluster: Cluster = None,
    detached: Detached = False,
) -> None:
    """Execute statements of Flink's SQL, one after the other; those of -f come first.

    Queries print their rows on standard output. Insertions start jobs, and the command waits for their end. Ctrl-C
    lists what still runs.

    
      penstock sql -e "SELECT 1 + 1"
      penstock sql -f flights.sql
      penstock sql -f tables.sql -e "SELECT * FROM flights" -o json
      penstock sql -f pipeline.sql -m localhost:8081 -d
    """
    if file is None and not execute:
        raise typer.BadParameter("name a script with -f FILE, or write statements with -e SQL")
    if output is not None and output not in _MODES:
        raise typer.BadParameter(f"expected one of {', '.join(_MODES)}, got {output!r}", param_hint="-o")
    defaults = settings_in(conf_file) | settings_of(
        parallelism,
        settings,
        master=master,
        keep_session=keep_session,
        rest_port=rest_port,
        cluster=cluster,
        detached=detached,
    )
    if detached and defaults.get("execution.target") != "remote":
        raise typer.BadParameter("only a cluster runs jobs without this command: name one with -m", param_hint="-d")
    keep_planner(defaults, os.environ)
    scripts = [] if file is None else [("<stdin>" if file == _STANDARD_INPUT else str(file), _text_of(file))]
    scripts += [("-e", text) for text in execute or []]
    _run(scripts, output, defaults, quiet=quiet, detached=detached)


def keep_planner(settings: Mapping[str, str], environ: MutableMapping[str, str]) -> None:
    """Let the planner's process be kept as Spark's is: its own setting is the variable."""
    keep = settings.get("penstock.spark.keep-session")
    if keep is not None:
        environ["PENSTOCK_KEEP_SESSION"] = keep.lower()


def _run(
    scripts: list[tuple[str, str]], output: str | None, defaults: dict[str, str], *, quiet: bool, detached: bool
) -> None:
    # Imported here, so that `penstock --help` stays fast.
    from penstock.service.cli.early_start import EarlyStart

    of_tables = {key: value for key, value in defaults.items() if key.startswith(("table.", "sql-client."))}
    of_jobs = {key: value for key, value in defaults.items() if key not in of_tables}
    early = EarlyStart([text for _, text in scripts], of_jobs)
    from penstock.common.errors import PenstockError
    from penstock.service.cli.watched_executor import WatchedExecutor
    from penstock.table import EnvironmentSettings, TableEnvironment
    from penstock.table.result_printer import ResultMode
    from penstock.table.sql_script import SqlScript

    begun: list[SqlScript] = []
    try:
        with (
            Interrupts() as interrupts,
            WatchedExecutor(
                "planning",
                quiet,
                False,
                is_interrupted=lambda: interrupts.has_come,
                rest_ports=_REST_PORTS,
                first_job_id=early.job_id,
                in_lines=True,
            ) as executor,
            program_context(of_jobs, False, executor),
        ):
            environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
            for key, value in of_tables.items():
                environment.get_config().set(key, value)
            mode = None if output is None else ResultMode(output)
            for name, text in scripts:
                script = SqlScript(environment, name, mode, announce=lambda line: None)
                begun.append(script)
                script.run(text)
            if not detached:
                for script in begun:
                    script.wait()
    except KeyboardInterrupt:
        _list_running(begun, is_remote=defaults.get("execution.target") == "remote")
        abandon_jvm()
        raise typer.Exit(EXIT_CODE) from None
    except PenstockError as error:
        typer.echo("\n".join([str(error), *getattr(error, "__notes__", ())]), err=True)
        early.settle()
        raise typer.Exit(1) from None
    early.settle()


def _list_running(scripts: list[SqlScript], *, is_remote: bool) -> None:
    lines = [line for script in scripts for line in script.running()]
    if not lines:
        return
    ends = "keep running in the cluster: penstock cancel ID ends one" if is_remote else "end with this command"
    typer.echo(f"still running, and {ends}:", err=True)
    for line in lines:
        typer.echo(f"  {line}", err=True)


def _text_of(file: Path) -> str:
    if file == _STANDARD_INPUT:
        return sys.stdin.read()
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"cannot read {file}: {error}", param_hint="-f") from None
