"""The complete demo: read, run, show, check."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from rich.console import Console

from penstock.common.errors import PenstockError
from penstock_examples.flights.disorder import Disorder, disorder
from penstock_examples.flights.flights import Reports, read_reports
from penstock_examples.flights.job import Settings, build, counts_by_feed
from penstock_examples.flights.kill import Kill
from penstock_examples.flights.ledger import Ledger
from penstock_examples.flights.records import MINUTE_MS
from penstock_examples.flights.report import announce, progress, show_input, show_kill, show_result

_CHECKPOINT_INTERVAL_MS = 1_000


class DifferentResultsError(PenstockError):
    """Two runs that must be equal differ."""


def run_demo(
    console: Console, batched: list[bool], parallelism: int, bound_minutes: int | None, first: int | None, kill: bool
) -> None:
    """Run the flights once per entry of `batched`, and print the results.

    In STREAMING mode the job takes a checkpoint every second; with `kill`, one of its workers is killed part-way.

    `bound_minutes`: bound of out-of-orderness; None: large enough to admit all reports, in which case all runs must
    return the same results. `first`: number of reports, instead of the whole year. Raises AccountingError if a report
    is missing or duplicated, DifferentResultsError if results differ that must be equal.
    """
    with console.status("Reading the flights …"):
        reports = read_reports().first(first)
        spread = disorder(reports)
    show_input(reports, spread, console)
    bound_ms = spread.most_ms if bound_minutes is None else bound_minutes * MINUTE_MS
    ledgers = [
        _run(console, reports, Settings(mode, parallelism, bound_ms, 0 if mode else _CHECKPOINT_INTERVAL_MS), kill)
        for mode in batched
    ]
    if len(ledgers) > 1 and _must_agree(spread, bound_ms):
        if any(ledger.rows() != ledgers[0].rows() for ledger in ledgers):
            raise DifferentResultsError("STREAMING and BATCH gave different results, although no report was late")
        console.print(f"Both modes gave the same {len(ledgers[0].rows()):,} results, row for row.")


def _must_agree(spread: Disorder, bound_ms: int) -> bool:
    return bound_ms >= spread.most_ms


def _run(console: Console, reports: Reports, settings: Settings, kills: bool) -> Ledger:
    ledger = Ledger(reports.columns["id"])
    began = time.monotonic()
    mode = "BATCH" if settings.batched else "STREAMING"
    kills = kills and not settings.batched
    announced = " After a third of the reports the demo kills one of its workers (kill -9)." if kills else ""
    console.print(f"\nStarting Spark and the job, {mode}.{announced}")
    with console.status("Starting …"):
        collected: Any = build(counts_by_feed(reports), settings).execute_and_collect("flights of 2013")
    with contextlib.ExitStack() as stack:
        results = stack.enter_context(collected)
        client = results.get_job_client()
        stack.enter_context(progress(client, len(reports), console))
        kill = stack.enter_context(Kill(client, len(reports), announce(console))) if kills else None
        for name, value in results:
            ledger.enter(name, value)
            if kill is not None:
                kill.result()
    show_result(ledger, settings, time.monotonic() - began, console)
    if kill is not None:
        show_kill(kill, ledger, console)
    ledger.check(restarted=kill is not None and kill.pid is not None)
    return ledger
