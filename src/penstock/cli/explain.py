"""`penstock explain`: draw the job graph of a program, without running it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import typer

from penstock.cli.options import Arguments, Job, Parallelism, PyFlink, Settings, prepare
from penstock.cli.script import run_script

if TYPE_CHECKING:
    from penstock.cli.drawing import Graph


def explain(
    job: Job,
    arguments: Arguments = None,
    parallelism: Parallelism = None,
    settings: Settings = None,
    pyflink: PyFlink = False,
) -> None:
    """Draw the job graph of JOB: its operators, the partitioning between them, the slots it needs.

    JOB runs up to the point of execution; Spark is not started. Each level of the drawing is one Spark stage.

    
      penstock explain job.py
      penstock explain -p 4 job.py --input access.log
    """
    prepare(parallelism, settings, pyflink)
    with recorded_plans() as plans:
        try:
            run_script(job, arguments or [])
        except (typer.Exit, SystemExit):
            # Without results, a program may well fail after its first execute().
            if not plans:
                raise
    if not plans:
        typer.echo(f"{job} executes nothing: it has to call env.execute() or execute_and_collect()", err=True)
        raise typer.Exit(1)

    from rich.console import Console

    from penstock.cli.drawing import draw

    for graph in plans:
        draw(graph, Console(highlight=False))


def recorded_plans() -> AbstractContextManager[Sequence[Graph]]:
    """Context manager in which environments record the job graph of each execute() instead of running it."""
    from penstock.datastream.stream_execution_environment import plan_only

    plans: AbstractContextManager[Sequence[Graph]] = plan_only()
    return plans
