"""`penstock demo`: the flights that left New York in 2013."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from penstock.common.errors import PenstockError
from penstock.service.cli.interrupts import EXIT_CODE, Interrupts, abandon_jvm


class Mode(StrEnum):
    """Execution modes of the demo."""

    PIPELINED = "pipelined"
    BATCHED = "batched"
    BOTH = "both"


ABOUT = """
Replay the flights that left New York in 2013, in the order in which they were reported.

Computes windows of delay per airport, and follows late aircraft from flight to flight. After a third of the
reports one of its workers is killed, and the job recovers from its latest checkpoint. At the end the demo shows that no
report was lost or counted twice. See docs/flights.md.

\b
  penstock demo                                      streaming; some reports are too late for their windows
  penstock demo --mode both --out-of-orderness max   no report is late, so both modes return the same
  penstock demo --events 50000 -p 1                  a month, in one subtask
"""

_BATCHED = {Mode.PIPELINED: [False], Mode.BATCHED: [True], Mode.BOTH: [False, True]}


def demo(
    mode: Annotated[Mode, typer.Option(help="Pipelined, batched, or both in turn.")] = Mode.PIPELINED,
    parallelism: Annotated[int, typer.Option("--parallelism", "-p", min=1, help="Subtasks of each operator.")] = 2,
    out_of_orderness: Annotated[
        str, typer.Option(metavar="MINUTES|max", help="Bound of out-of-orderness; max admits all reports.")
    ] = "60",
    events: Annotated[
        int | None, typer.Option(min=1, show_default=False, help="Number of reports; default: the whole year.")
    ] = None,
    kill: Annotated[bool, typer.Option(help="Pipelined: kill -9 one of the workers part-way.")] = True,
) -> None:
    """Replay the flights that left New York in 2013, in the order in which they were reported."""
    bound = _minutes(out_of_orderness)
    # Printed before the imports below, which take a second, or several the first time.
    typer.echo("The flights that left New York in 2013. Loading …")
    from rich.console import Console

    from penstock.common.configuration import Configuration
    from penstock.service.client.context_environment import ContextEnvironment, as_context
    from penstock.service.client.executor_loader import load_executor
    from penstock_examples.flights.demo import run_demo

    try:
        # No lines about the job: the demo prints its own.
        context = ContextEnvironment(Configuration(), load_executor(Configuration(), is_watched=True))
        with Interrupts(), as_context(context):
            run_demo(
                Console(highlight=False),
                _BATCHED[mode],
                parallelism=parallelism,
                bound_minutes=bound,
                first=events,
                kill=kill,
            )
    except KeyboardInterrupt:
        abandon_jvm()
        raise typer.Exit(EXIT_CODE) from None
    except PenstockError as error:
        typer.echo(f"penstock.{type(error).__name__}: {error}", err=True)
        raise typer.Exit(1) from None


def _minutes(text: str) -> int | None:
    if text == "max":
        return None
    if not text.isdecimal():
        raise typer.BadParameter(f"expected a number of minutes or max, got {text!r}", param_hint="--out-of-orderness")
    return int(text)
