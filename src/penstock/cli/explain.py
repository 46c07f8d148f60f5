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
    """Draw what JOB would run: its operators, how records go between them, the slots it needs.

    JOB is run up to where it would execute; no Spark is started. Each level of the drawing is one stage of Spark.

    
      penstock explain job.py
      penstock explain -p 4 job.py --input access.log
    """
    prepare(parallelism, settings, pyflink)
    with recorded_plans() as plans:
        try:
            run_script(job, arguments or [])
        except (typer.Exit, SystemExit):
            # Without results to go on with, a program may well fail after its first execute().
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
    """While it is open, environments record the job graph of each execute() instead of running it."""
    from penstock.datastream.stream_execution_environment import plan_only

    plans: AbstractContextManager[Sequence[Graph]] = plan_only()
    return plans
