"""`penstock run`: run a job's file."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from penstock.service.cli.interrupts import EXIT_CODE, Interrupts, abandon_jvm
from penstock.service.cli.options import (
    AllowDuplicates,
    AllowNonRestored,
    Arguments,
    AsJson,
    Cluster,
    ConfFile,
    Detached,
    FlinksFiles,
    FromState,
    Job,
    KeepSession,
    Master,
    Parallelism,
    PyFlink,
    Python,
    Quiet,
    RestPort,
    Settings,
    check_misplaced_options,
    program_context,
    settings_in,
    settings_of,
)
from penstock.service.cli.script import run_script

_REST_PORTS = "8081-8099,0"
"""Flink's default port, and further ones for jobs that run at the same time."""


def run(
    context: typer.Context,
    job: Job,
    arguments: Arguments = None,
    parallelism: Parallelism = None,
    master: Master = None,
    settings: Settings = None,
    conf_file: ConfFile = None,
    pyflink: PyFlink = False,
    from_state: FromState = None,
    allow_non_restored: AllowNonRestored = False,
    allow_duplicates: AllowDuplicates = False,
    keep_session: KeepSession = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    rest_port: RestPort = None,
    cluster: Cluster = None,
    detached: Detached = False,
    python: Python = False,
    flinks_files: FlinksFiles = None,
) -> None:
    """Run JOB as `python JOB` would, with defaults from the command line.

    Settings in the job take precedence over -p and -D. Options go before JOB; arguments after it are the job's own.
    Messages about the job's start, progress (on a terminal) and end go to standard error.

    
      penstock run job.py
      penstock run -p 4 job.py --input access.log
      penstock run -D execution.runtime-mode=BATCH -D spark.driver.memory=4g job.py
      penstock run --master spark://host:7077 job.py
      penstock run -s latest -p 8 job.py
      penstock run -m localhost:8081 job.py
      penstock run --pyflink word_count.py
    """
    defaults = settings_in(conf_file) | settings_of(
        parallelism,
        settings,
        from_state=from_state,
        allow_non_restored=allow_non_restored,
        allow_duplicates=allow_duplicates,
        master=master,
        keep_session=keep_session,
        rest_port=rest_port,
        cluster=cluster,
        detached=detached,
    )
    check_misplaced_options(context, job, arguments or [], "execution.state-recovery.path" in defaults)
    if detached and defaults.get("execution.target") != "remote":
        raise typer.BadParameter(
            "only a cluster can run the job after its program has ended: name one with -m HOST:PORT (penstock cluster "
            "start)",
            param_hint="-d",
        )
    if not _run(job, arguments=arguments or [], defaults=defaults, pyflink=pyflink, quiet=quiet, as_json=as_json):
        _warn_that_nothing_ran(job)


def _run(job: Path, arguments: list[str], defaults: dict[str, str], pyflink: bool, quiet: bool, as_json: bool) -> int:
    """Run the program and return how many jobs it executed. Raises typer.Exit after Ctrl-C."""
    # Imported here, so that `penstock --help` stays fast.
    from penstock.service.cli.watched_executor import WatchedExecutor

    try:
        with (
            Interrupts() as interrupts,
            WatchedExecutor(
                job.name, quiet, as_json, is_interrupted=lambda: interrupts.has_come, rest_ports=_REST_PORTS
            ) as executor,
            program_context(defaults, pyflink, executor),
        ):
            run_script(job, arguments)
    except KeyboardInterrupt as interrupt:
        abandon_jvm()
        for note in getattr(interrupt, "__notes__", ()):
            typer.echo(note, err=True)
        raise typer.Exit(EXIT_CODE) from None
    return executor.jobs


def _warn_that_nothing_ran(job: Path) -> None:
    # A program that only writes a savepoint executes no job.
    if "penstock.state_processor" not in sys.modules:
        typer.echo(
            f"{job.name} has ended without executing a job: call env.execute() or execute_and_collect() to run its "
            "streams",
            err=True,
        )
