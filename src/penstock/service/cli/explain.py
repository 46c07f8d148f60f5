"""`penstock explain`: draw the job graph of a program, without running it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.service.cli.options import (
    Arguments,
    ConfFile,
    Job,
    Parallelism,
    PyFlink,
    Settings,
    check_misplaced_options,
    program_context,
    settings_in,
    settings_of,
)
from penstock.service.cli.script import run_for_graphs

if TYPE_CHECKING:
    from penstock.service.client.plan_executor import PlanExecutor

AsJson = Annotated[
    bool, typer.Option("--json", help="Print each job graph as a JSON object, like REST's /jobs/:jobid/plan.")
]


def explain(
    context: typer.Context,
    job: Job,
    arguments: Arguments = None,
    parallelism: Parallelism = None,
    settings: Settings = None,
    conf_file: ConfFile = None,
    pyflink: PyFlink = False,
    as_json: AsJson = False,
) -> None:
    """Draw the job graph of JOB: its operators, the partitioning between them, the slots it needs.

    JOB runs up to the point of execution; Spark is not started. Each level of the drawing is one Spark stage. A line
    that starts with "plan:" says what a pass of the plan has changed in the program, and one with "iteration:" what
    runs in each superstep of a structured iteration, and what is read once.
    Reports what would keep the job from starting: settings, functions that can't be pickled, too many slots.

    
      penstock explain job.py
      penstock explain -p 4 job.py --input access.log
      penstock explain --json job.py
    """
    # Imported here, so that `penstock --help` stays fast.
    from penstock.service.client.plan_executor import PlanExecutor

    check_misplaced_options(context, job, arguments or [])
    executor = PlanExecutor()
    with program_context(settings_in(conf_file) | settings_of(parallelism, settings), pyflink, executor):
        run_for_graphs(job, arguments or [], lambda: executor.graphs)
    if not executor.graphs:
        typer.echo(f"{job} executes no job: it has to call env.execute() or execute_and_collect()", err=True)
        raise typer.Exit(1)

    if as_json:
        _write_plans(executor)
    else:
        from rich.console import Console

        from penstock.engine.plan.iterations_shown import texts_of_iterations
        from penstock.service.cli.drawing import draw

        for graph in executor.graphs:
            console = Console(highlight=False)
            draw(graph, console)
            for text in texts_of_iterations(graph):
                console.print(f"iteration: {text}", style="dim")
            for change in graph.changes:
                console.print(f"plan: {change.pass_name}: {change.text}", style="dim")
    for warning in executor.warnings:
        typer.echo(f"warning: {warning}", err=True)
    for fault in executor.faults:
        typer.echo(f"penstock.{type(fault).__name__}: {fault}", err=True)
    if executor.faults:
        raise typer.Exit(1)


def _write_plans(executor: PlanExecutor) -> None:
    import json

    from penstock.common.job_id import JobID
    from penstock.service.rest.job_paths import plan_of

    for graph in executor.graphs:
        changes = [{"pass": change.pass_name, "change": change.text} for change in graph.changes]
        typer.echo(json.dumps({**plan_of(str(JobID.generate()), graph), "changes": changes}))
