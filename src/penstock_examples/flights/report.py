"""The output of the demo: progress while it runs, tables at the end."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from penstock_examples.flights.disorder import Disorder
from penstock_examples.flights.flights import Reports
from penstock_examples.flights.job import SOURCE, Settings
from penstock_examples.flights.kill import Kill
from penstock_examples.flights.ledger import Balance, Ledger
from penstock_examples.flights.records import (
    ARRIVAL,
    CANCELLED,
    DEPARTURE,
    DIVERTED,
    LOST_SIGHT,
    MINUTE_MS,
    AirportWindow,
)

_REFRESH_S = 0.25
_SHOWN = 5


@contextmanager
def progress(client: Any, total: int, console: Console) -> Iterator[None]:
    """Context manager that shows a bar with the source's record counter.

    Without a counter the bar only shows activity; a batched job reports no counter before its end.
    """
    over = threading.Event()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("running", total=None)

        def follow() -> None:
            read = ReadSoFar()
            while not over.wait(_REFRESH_S):
                source = client.get_metrics().get(SOURCE)
                if source is not None:
                    read.update(client.get_vertex_metrics()[0].subtasks)
                    bar.update(task, total=total, completed=read.count, description=_moment(source))

        thread = threading.Thread(target=follow, name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def announce(console: Console) -> Callable[[int], None]:
    """Return a function that announces which worker is about to be killed."""
    then = "The job restarts from its newest checkpoint …"
    return lambda pid: console.print(f"Killing worker {pid} (kill -9). {then}")


class ReadSoFar:
    """Number of records read by the source across restarts, which reset its counters. Records reread count again."""

    def __init__(self) -> None:
        self._before: Counter[int] = Counter()
        self._last: Counter[int] = Counter()

    def update(self, reports: list[Any]) -> None:
        """Update from the counters of the source's subtasks."""
        for report in reports:
            count = report.operators[0].records_out
            if count < self._last[report.subtask]:
                self._before[report.subtask] += self._last[report.subtask]
            self._last[report.subtask] = count

    @property
    def count(self) -> int:
        """Return the number of reports read."""
        return self._before.total() + self._last.total()


def _moment(source: dict[str, int | float]) -> str:
    watermark = source.get("currentInputWatermark", 0)
    if not 0 < watermark < 2**53:
        return "reports"
    return f"{datetime.fromtimestamp(watermark / 1000, UTC):%d %b %Y}"


def show_input(reports: Reports, disorder: Disorder, console: Console) -> None:
    """Print the number of reports, missing data, and out-of-orderness."""
    columns = reports.columns
    outcomes = Counter(columns["outcome"])
    kinds = Counter(columns["kind"])
    without = sum(tailnum is None for tailnum in columns["tailnum"])
    console.print(
        f"[bold]Flights out of New York, 2013[/bold]: {kinds[DEPARTURE]:,} departures"
        f" ({outcomes[CANCELLED]:,} canceled, {without:,} of these without an aircraft),"
        f" {kinds[ARRIVAL]:,} arrivals ({outcomes[DIVERTED]:,} diverted, {outcomes[LOST_SIGHT]:,} without an arrival)."
    )
    behind = ", ".join(f"{count:,} by over {_span(mark)}" for mark, count in disorder.behind.items())
    console.print(
        f"As reported, {len(reports) - disorder.in_order:,} of {len(reports):,} are out of order: {behind};"
        f" at most by {_span(disorder.most_ms // MINUTE_MS)}."
    )


def show_result(ledger: Ledger, settings: Settings, seconds: float, console: Console) -> None:
    """Print the books, the airports and the aircraft."""
    windows, aircraft = ledger.windows_book(), ledger.aircraft_book()
    mode = "BATCH" if settings.batched else "STREAMING"
    waiting = "" if settings.batched else f", out-of-orderness {_span(settings.bound_ms // MINUTE_MS)}"
    console.print(
        f"\n[bold]{mode}[/bold], parallelism {settings.parallelism}{waiting}:"
        f" {windows.read:,} reports in {seconds:.1f} s, {windows.read / seconds:,.0f} a second\n"
    )
    for table in (_books(windows, aircraft), _airports(list(ledger.windows.values())), _aircraft(ledger)):
        console.print(table, "")
    again = ledger.firings - len(ledger.windows)
    console.print(f"{len(ledger.windows):,} windows; late reports corrected their results {again:,} times.")


def show_kill(kill: Kill, ledger: Ledger, console: Console) -> None:
    """Print how the job recovered from the kill."""
    if kill.pid is None:
        console.print("The stream ended before a worker could be killed: with more --events there is time for that.")
        return
    books = ledger.windows_book(), ledger.aircraft_book()
    lost, doubled = sum(book.lost for book in books), sum(book.doubled for book in books)
    console.print(
        f"[bold]Worker {kill.pid} was killed[/bold] (kill -9) when {kill.read:,} reports were read;"
        f" the job recovered from checkpoint {kill.checkpoint_id}."
        f" The first record was read again after {_seconds(kill.flowing_s)},"
        f" the first result came after {_seconds(kill.results_s)}."
        f" Reports lost: {lost:,}, doubled: {doubled:,}."
    )
    if ledger.reopened:
        console.print(f"Event time was reset. Closed windows opened again by late reports: {len(ledger.reopened):,}.")


def _books(windows: Balance, aircraft: Balance) -> Table:
    title = "Each report is counted once in each book"
    columns = ("book", "read", "processed", "late", "no aircraft", "lost", "doubled")
    table = _table(title, *columns)
    for name, balance in (("windows of airports", windows), ("following aircraft", aircraft)):
        table.add_row(name, *(f"{count:,}" for count in balance))
    return table


def _airports(windows: list[AirportWindow]) -> Table:
    """The busiest airports. Each report is in two windows, so the sums use every second window."""
    reports: Counter[tuple[str, str]] = Counter()
    delayed: Counter[tuple[str, str]] = Counter()
    delays: Counter[tuple[str, str]] = Counter()
    worst: dict[tuple[str, str], AirportWindow] = {}
    for window in windows:
        key = window.kind, window.airport
        if window.start_ms % (window.end_ms - window.start_ms) == 0:
            reports[key] += window.reports
            delayed[key] += window.delayed
            delays[key] += window.delay_sum
        if key not in worst or (window.delay_sum, -window.start_ms) > (worst[key].delay_sum, -worst[key].start_ms):
            worst[key] = window
    columns = ("airport", "flights", "mean", "worst two hours (UTC)", "flights", "mean", "longest")
    table = _table("Minutes of delay", *columns)
    for kind, word in ((DEPARTURE, "from"), (ARRIVAL, "to")):
        for key in sorted((key for key in worst if key[0] == kind), key=lambda key: (-reports[key], key))[:_SHOWN]:
            window = worst[key]
            cells = (
                f"{word} {key[1]}",
                f"{reports[key]:,}",
                f"{delays[key] / max(1, delayed[key]):.1f}",
                f"{datetime.fromtimestamp(window.start_ms / 1000, UTC):%d %b %H:%M}",
                f"{window.reports}",
                f"{window.delay_sum / max(1, window.delayed):.0f}",
                f"{window.worst}",
            )
            table.add_row(*cells)
    return table


def _aircraft(ledger: Ledger) -> Table:
    late = sum(log.delay_sum for log in ledger.logs)
    brought = sum(log.brought_sum for log in ledger.logs)
    chains: defaultdict[int, int] = defaultdict(int)
    for log in ledger.logs:
        chains[log.longest_chain] += 1
    share = brought / max(1, late)
    title = f"{len(ledger.logs):,} aircraft left {late // 60:,} hours late, {share:.0%} of it by earlier flights"
    columns = ("aircraft", "departures", "hours late", "by earlier flights", "most in a row")
    table = _table(title, *columns)
    for log in sorted(ledger.logs, key=lambda log: (-log.brought_sum, log.tailnum))[:_SHOWN]:
        cells = (
            log.tailnum,
            f"{log.departures:,}",
            f"{log.delay_sum / 60:.1f}",
            f"{log.brought_sum / 60:.1f}",
            f"{log.longest_chain}",
        )
        table.add_row(*cells)
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.show_edge = table.pad_edge = False
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left", no_wrap=True)
    return table


def _seconds(seconds: float | None) -> str:
    return "the end" if seconds is None else f"{seconds:.1f} s"


def _span(minutes: int) -> str:
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h" + (f" {minutes % 60} min" if minutes % 60 else "")
