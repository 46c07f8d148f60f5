"""`penstock top`: a screen about a running job, refreshed every second."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.common.errors import JobError, PenstockError
from penstock.common.text.one_line import on_one_line
from penstock.common.text.quantities import as_duration, as_event_time, as_rate, as_size, is_live
from penstock.common.time.wall_clock import now_ms
from penstock.service.cli.decision import as_decision
from penstock.service.cli.jobs import query_figures, waiting

if TYPE_CHECKING:
    from rich.console import RenderableType

    from penstock.service.cluster.running_jobs import RunningJob

_EVERY_S = 1.0
# Headings of two lines, so that the table fits into 80 columns. Time neither busy nor back-pressured is idle.
_COLUMNS = ("operators", "tasks", "in", "out", "busy", "back\npressure", "event\ntime")
_OPERATORS_WIDTH = 24
_RATES = ((10_000_000, 1_000_000, "M/s"), (100_000, 1_000, "k/s"))
"""Rates from the first number on are shown in units of the second, in at most eight characters."""
_DATE = len("2013-01-01")
_SKEW_PERCENT_MIN = 50
"""Skew (percent) below which no line about it is shown."""
_FAILURE_LINES = 5
"""Lines shown of the end of a traceback."""
_LINE_MAX = 200
"""Most characters of such a line: the value that a function was called with may be long."""

Job = Annotated[
    str | None,
    typer.Argument(
        metavar="[JOB]", show_default=False, help="Id of the job, a prefix of it, or its name; default: the only one."
    ),
]
Once = Annotated[bool, typer.Option("--once", help="Print one screen and exit; the default without a terminal.")]


def top(job: Job = None, once: Once = False) -> None:
    """Show a running job, refreshed every second: rates, load, back pressure, failures. Ctrl-C ends it.

    
      penstock top
      penstock top flights --once
    """
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False)
    try:
        running = _find(job)
        shown = screens(running)
        with waiting():
            first = next(shown)
        if once or not sys.stdout.isatty():
            console.print(first)
            return
        with Live(console=console, screen=True, auto_refresh=False) as live:
            for each in chain([first], shown):
                live.update(each, refresh=True)
    except KeyboardInterrupt:
        return
    except PenstockError as error:
        typer.echo(f"penstock.{type(error).__name__}: {error}", err=True)
        raise typer.Exit(1) from None


def _find(job: str | None) -> RunningJob:
    from penstock.service.cli.local_clusters import hint_at_waiting_jobs, running_job
    from penstock.service.cluster.running_jobs import JobRegistry

    if job is not None:
        return running_job(job)
    jobs = JobRegistry().jobs()
    if len(jobs) == 1:
        return jobs[0]
    if not jobs:
        raise JobError(f"no job of this user runs on this machine{hint_at_waiting_jobs()}")
    names = "\n".join(f"  {one.job_id}  {on_one_line(one.name)}" for one in jobs)
    raise JobError(f"several jobs run: name one by its id:\n{names}")


def screens(job: RunningJob) -> Iterator[RenderableType]:
    """Yield a screen per second, each from two samples of the job. Raises JobError when the job stops answering."""
    before = _sample(job)
    while True:
        time.sleep(_EVERY_S)
        after = _sample(job)
        yield screen(on_one_line(job.name), job_id=job.job_id, started_ms=job.started_ms, before=before, after=after)
        before = after


def _sample(job: RunningJob) -> dict[str, Any]:
    figures: dict[str, Any] = json.loads(query_figures(job))
    return {**figures, "at_ms": now_ms()}


def screen(name: str, job_id: str, started_ms: int, before: dict[str, Any], after: dict[str, Any]) -> RenderableType:
    """Return the screen for two samples of a job, each with its time in `at_ms`."""
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    now_ms, ms = after["at_ms"], max(1, after["at_ms"] - before["at_ms"])
    totals = after["totals"]
    lines = [
        f"{job_id[:8]} '{name}' {after['status'].lower()} for {as_duration(now_ms - started_ms)}, "
        f"{after['restarts']} restart{'s'[: after['restarts'] != 1]}",
        f"in {totals['records_in']:,} ({as_rate(_growth(before, after, 'records_in') * 1000 / ms)}), "
        f"out {totals['records_out']:,} ({as_rate(_growth(before, after, 'records_out') * 1000 / ms)})",
    ]
    if totals["watermark"] is not None:
        lines.append(f"event time {as_event_time(now_ms - totals['watermark'], now_ms)}")
    checkpoint = after["checkpoint"]
    if checkpoint is not None:
        lines.append(
            f"checkpoint {checkpoint['checkpoint_id']} {_since_end(checkpoint, now_ms)} ago, took "
            f"{checkpoint['duration_ms']:,} ms, {as_size(checkpoint['total_bytes'])}"
        )
    failed = after.get("failed_checkpoint")
    if failed is not None:
        lines.append(
            f"checkpoint {failed['checkpoint_id']} failed {_since_end(failed, now_ms)} ago, with "
            f"{failed['acknowledged']} of {failed['of_subtasks']} subtasks: {failed['failure']}"
        )
    if after.get("autoscaled") is not None:
        lines.append(as_decision(after["autoscaled"], now_ms))
    lines += failure_lines(after.get("failures", ()), now_ms)
    lines += [_initializing(vertex) for vertex in after["vertices"] if vertex["initializing"]]
    lines += chain.from_iterable(_skewed(vertex) for vertex in after["vertices"])
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True)
    for index, column in enumerate(_COLUMNS):
        if index:
            table.add_column(column, justify="right", no_wrap=True)
        else:
            table.add_column(column, overflow="fold", min_width=_OPERATORS_WIDTH)
    earlier = {vertex["name"]: vertex for vertex in before["vertices"]}
    for vertex in after["vertices"]:
        table.add_row(*_row(earlier.get(vertex["name"], vertex), vertex, now_ms, ms))
    # Names given by users may contain brackets, which must not be read as markup.
    return Group(Text("\n".join(lines)), table)


def _since_end(checkpoint: dict[str, Any], now_ms: int) -> str:
    return as_duration(now_ms - checkpoint["triggered_ms"] - checkpoint["duration_ms"])


def _initializing(vertex: dict[str, Any]) -> str:
    what = f"{vertex['initializing']} of {vertex['parallelism']} subtasks of {vertex['name']} INITIALIZING"
    if not vertex["files_to_restore"]:
        return what
    return (
        f"{what}: {as_size(vertex['restored_bytes'])} of {as_size(vertex['bytes_to_restore'])} restored, "
        f"{vertex['restored_files']} of {vertex['files_to_restore']} files"
    )


def _skewed(vertex: dict[str, Any]) -> Iterator[str]:
    from penstock.common.values.decoding import converted
    from penstock.engine.jobmaster.metrics import records_of, skew
    from penstock.engine.rpc.messages import TaskReport

    counts = [records_of(one) for one in converted(vertex["subtasks"], list[TaskReport])]
    percent = skew(counts)
    if percent >= _SKEW_PERCENT_MIN:
        yield (
            f"skew {percent:.0f}% at {vertex['name']}: of {sum(counts):,} records one of {len(counts)} subtasks "
            f"had {max(counts):,}"
        )


def _row(before: dict[str, Any], after: dict[str, Any], now_ms: int, ms: int) -> Iterator[str]:
    yield after["name"]
    yield str(after["parallelism"])
    for counter, place in (("records_in", 0), ("records_out", -1)):
        counts = [sample["operators"][place][counter] if sample["operators"] else 0 for sample in (before, after)]
        yield _short_rate(max(0, counts[1] - counts[0]) * 1000 / ms)
    spent = [max(0, after[kind] - before[kind]) for kind in ("busy_ms", "idle_ms", "back_pressured_ms")]
    for part in (spent[0], spent[2]):
        yield f"{part / sum(spent):.0%}" if sum(spent) else "-"
    watermarks = [operator["watermark"] for operator in after["operators"]]
    lowest = min(watermarks, default=None)
    if lowest is None or abs(lowest) >= 2**62:
        yield "-"
    else:
        lag_ms = now_ms - lowest
        yield f"-{as_duration(lag_ms)}" if is_live(lag_ms) else as_event_time(lag_ms, now_ms)[:_DATE]


def _short_rate(per_second: float) -> str:
    for least, unit, name in _RATES:
        if per_second >= least:
            return f"{per_second / unit:,.0f}{name}"
    return as_rate(per_second)


def _growth(before: dict[str, Any], after: dict[str, Any], counter: str) -> int:
    # A restart resets the counters to zero.
    return max(0, int(after["totals"][counter]) - int(before["totals"][counter]))


def failure_lines(failures: Sequence[dict[str, Any]], now_ms: int) -> Iterator[str]:
    """Format failures, newest first. `failures` are JobFailures as a job answers them, oldest first."""
    for index, failure in enumerate(reversed(failures)):
        head = f"failed {as_duration(now_ms - failure['at_ms'])} ago by {failure['error']}"
        # Without the markers below lines of code (`~~~^^^`), which cost lines and add little.
        lines = [_cut(line) for line in failure["text"].splitlines() if line.strip(" ^~")]
        if index or len(lines) < 2:
            yield ": ".join([head, *(line.strip() for line in lines[-1:])])
            continue
        yield f"{head}:"
        # The first line says where it failed, the last ones why; the frames in between matter less.
        if len(lines) > _FAILURE_LINES + 1:
            lines[1:-_FAILURE_LINES] = ["  …"]
        yield from (f"  {line}" for line in lines)


def _cut(line: str) -> str:
    return line if len(line) <= _LINE_MAX else f"{line[:_LINE_MAX]}…"
