"""`penstock demo`: the flights that left New York in 2013."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from penstock.common.errors import PenstockError


class Mode(StrEnum):
    """Which way the demo runs."""

    PIPELINED = "pipelined"
    BATCHED = "batched"
    BOTH = "both"


ABOUT = """
Replay the flights that left New York in 2013, in the order in which they were reported.

Windows of delay for each airport, and late aircraft followed from flight to flight. Part-way one of its workers is
killed, and the stream goes on from its last checkpoint. In the end every report is accounted for. docs/flights.md
tells how it is done.

\b
  penstock demo                                      a stream; who reports too late misses the windows
  penstock demo --mode both --out-of-orderness max   nothing is late, so both modes give the same
  penstock demo --events 50000 -p 1                  a month, in one subtask
"""

_BATCHED = {Mode.PIPELINED: [False], Mode.BATCHED: [True], Mode.BOTH: [False, True]}


def demo(
    mode: Annotated[Mode, typer.Option(help="As a stream, as a batch job, or one after the other.")] = Mode.PIPELINED,
    parallelism: Annotated[int, typer.Option("--parallelism", "-p", min=1, help="Subtasks of each operator.")] = 2,
    out_of_orderness: Annotated[
        str, typer.Option(metavar="MINUTES|max", help="How long to wait for reports out of order; max admits them all.")
    ] = "60",
    events: Annotated[
        int | None, typer.Option(min=1, show_default=False, help="Only so many reports, not the whole year.")
    ] = None,
    kill: Annotated[bool, typer.Option(help="As a stream: kill -9 one of its workers part-way.")] = True,
) -> None:
    """Replay the flights that left New York in 2013, in the order in which they were reported."""
    bound = _minutes(out_of_orderness)
    from rich.console import Console

    from penstock_examples.flights.demo import run_demo

    try:
        run_demo(Console(highlight=False), _BATCHED[mode], parallelism, bound, events, kill)
    except PenstockError as error:
        typer.echo(f"penstock.{type(error).__name__}: {error}", err=True)
        raise typer.Exit(1) from None


def _minutes(text: str) -> int | None:
    if text == "max":
        return None
    if not text.isdecimal():
        raise typer.BadParameter(f"{text!r} is neither a number of minutes nor max", param_hint="--out-of-orderness")
    return int(text)
