"""`penstock update`: give a running job new functions, between two of its records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penstock.service.cli.jobs import Job, print_result, request_update
from penstock.service.cli.options import (
    Arguments,
    ConfFile,
    Parallelism,
    PyFlink,
    Settings,
    check_misplaced_options,
    program_context,
    settings_in,
    settings_of,
)
from penstock.service.cli.script import run_for_graphs

Program = Annotated[
    Path,
    typer.Argument(
        metavar="PROGRAM", exists=True, dir_okay=False, readable=True, show_default=False, help="The new Python file."
    ),
]


def update(
    context: typer.Context,
    job: Job,
    program: Program,
    arguments: Arguments = None,
    parallelism: Parallelism = None,
    settings: Settings = None,
    conf_file: ConfFile = None,
    allow_non_restored: Annotated[
        bool,
        typer.Option(
            "--allow-non-restored-state", "-n", help="Allow state that the old functions have and the new ones do not."
        ),
    ] = False,
    pyflink: PyFlink = False,
) -> None:
    """Give a running job the functions of PROGRAM, without restarting it.

    PROGRAM must have the same operators, by uid. Its functions take over at the barrier of a checkpoint: records before
    it meet the old functions, records after it the new ones. Use the -p and -D with which the job was started.


      penstock update flights new_flights.py
    """
    # Imported here, so that `penstock --help` stays fast.
    from penstock.service.client.update_executor import UpdateExecutor

    check_misplaced_options(context, program, arguments or [])
    executor = UpdateExecutor()
    with program_context(settings_in(conf_file) | settings_of(parallelism, settings), pyflink, executor):
        run_for_graphs(program, arguments or [], lambda: executor.graphs)
    print_result(lambda: request_update(job, executor.program_for, allow_non_restored))
