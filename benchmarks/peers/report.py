"""Prints the results as a table with ratios, and writes them as JSON."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.peers.cases import FIGURES, PEERS, Case

# A job below this share of the offered rate has a growing backlog: its latency depends on the duration of the run.
KEPT_UP = 0.95


@dataclass
class Result:
    """All runs of one case; `error` if it failed."""

    case: Case
    runs: list[dict[str, Any]] = field(default_factory=list)
    error: str = ""

    def median(self, name: str) -> float | None:
        """Return the median over the runs, None if there is no such figure."""
        values = [run[name] for run in self.runs if run.get(name) is not None]
        return statistics.median(values) if values else None

    @property
    def keeps_up(self) -> bool:
        """Whether it processed the offered rate."""
        return not self.case.rate or (self.median("records_per_s") or 0) >= KEPT_UP * self.case.rate

    def as_dict(self) -> dict[str, Any]:
        names = ("records_per_s", "p50_ms", "p90_ms", "p99_ms")
        medians = {name: self.median(name) for name in names if self.median(name) is not None}
        case = self.case
        told = {"figure": case.figure, "peer": case.peer, "variant": case.variant, "rate": case.rate, **medians}
        return {**told, "keeps_up": self.keeps_up, "runs": self.runs, **({"error": self.error} if self.error else {})}


def best_of(results: Iterable[Result]) -> Result | None:
    """Return the fastest; at a given rate, the lowest p99 of those that kept up, else of all."""
    able = [result for result in results if result.runs]
    if not able:
        return None
    if not able[0].case.rate:
        return max(able, key=lambda result: result.median("records_per_s") or 0)
    return min(able, key=lambda result: (not result.keeps_up, result.median("p99_ms") or float("inf")))


def groups(results: Sequence[Result]) -> dict[tuple[str, int], dict[str, list[Result]]]:
    """Group by figure and rate, then by peer."""
    grouped: dict[tuple[str, int], dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        grouped[result.case.figure, result.case.rate][result.case.peer].append(result)
    return grouped


def print_report(results: Sequence[Result], yardstick: Sequence[float], missing: dict[str, str]) -> None:
    """Print the figures, each peer's best first, and their ratio to penstock's best."""
    console = Console(width=None if Console().is_terminal else 130)
    told = " and ".join(f"{rate:,.0f}" for rate in yardstick)
    console.print(f"\nThe yardstick was {told} records/s on one core, before and after.")
    for peer, reason in missing.items():
        console.print(f"{peer}: skipped. {reason}", style="yellow")
    for (figure, rate), peers in groups(results).items():
        latency = bool(rate)
        table = Table(title=f"{figure}. {FIGURES[figure]}" + (f", {rate:,} records/s" if rate else ""))
        for heading in ("", "variant", *(("p50 ms", "p99 ms", "records/s") if latency else ("records/s", "runs"))):
            table.add_column(heading, justify="left" if heading in ("", "variant") else "right")
        table.add_column("penstock / it", justify="right")
        own = best_of(peers.get("penstock", ()))
        for peer in PEERS:
            best = best_of(peers.get(peer, ()))
            for result in sorted(peers.get(peer, ()), key=lambda result: result is not best):
                row = _row(result, latency)
                table.add_row(peer, result.case.variant, *row, ratio(own, result), style="bold" * (result is best))
        console.print(table)
    for result in results:
        if result.error:
            console.print(f"{result.case.title}: {result.error}", style="yellow", markup=False)


def ratio(own: Result | None, other: Result) -> str:
    """Return penstock's rate, or p99, relative to the other's. Above 1 is better for a rate, below 1 for a latency."""
    name = "p99_ms" if other.case.rate else "records_per_s"
    ours, theirs = own.median(name) if own else None, other.median(name)
    if other.case.peer == "penstock" or ours is None or not theirs:
        return ""
    share = ours / theirs
    return f"{share:,.0f}" if share >= 100 else f"{share:.3g}"


def _row(result: Result, latency: bool) -> list[str]:
    if not result.runs:
        return ["failed", *[""] * (2 if latency else 1)]
    rate = result.median("records_per_s") or 0
    if not latency:
        return [f"{rate:,.0f}", str(len(result.runs))]
    quantiles = [result.median(name) for name in ("p50_ms", "p99_ms")]
    told = [f"{value:,.1f}" if value is not None else "" for value in quantiles]
    return [*told, f"{rate:,.0f}" if result.keeps_up else f"only {rate:,.0f}"]
