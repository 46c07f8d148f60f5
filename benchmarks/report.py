"""The report: a table for the terminal, and the same as Markdown for docs/internals/measurements.md."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from benchmarks.catalogue import TITLES
from benchmarks.goals import Bound
from benchmarks.results import Row

_HEADINGS = ("", "figure", "measured", "from – to", "of the yardstick", "to reach", "here", "")


def show(rows: list[Row], console: Console) -> None:
    """Print the table, a section per item."""
    table = Table(*_HEADINGS, box=None, pad_edge=False)
    for column in (2, 3, 4, 5, 6):
        table.columns[column].justify = "right"
    item = 0
    for row in rows:
        if row.item != item:
            item = row.item
            table.add_section()
            table.add_row(f"[bold]{item}  {TITLES[item]}[/bold]")
        table.add_row(*_cells(row))
    console.print(table)


def as_markdown(rows: list[Row]) -> str:
    """Return the table as Markdown."""
    lines = ["| item | what | " + " | ".join(_HEADINGS[1:]) + " |", "|" + " --- |" * (len(_HEADINGS) + 1)]
    lines += [f"| {row.item} | " + " | ".join(_cells(row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _cells(row: Row) -> tuple[str, ...]:
    goal = row.goal
    if row.value is None:
        return row.name, goal.figure, "failed", "", "", "", "", (row.error or "")[:80]
    sign = "≥" if goal.bound is Bound.AT_LEAST else "≤"
    verdict = {None: "", True: "reached", False: "missed"}[row.reached]
    return (
        row.name,
        _named(goal.figure),
        f"{number(row.value)} {goal.unit}",
        f"{number(row.spread[0])} – {number(row.spread[1])}" if row.spread is not None else "",
        f"{row.share:.3g}" if row.share is not None and "records" in goal.unit else "",
        f"{sign} {number(goal.to_reach)}" if goal.to_reach is not None else "",
        f"{sign} {number(row.to_reach_here)}" if row.to_reach_here is not None and goal.scaled else "",
        verdict,
    )


def _named(figure: str) -> str:
    """Return the name of a figure without its unit, which is shown with the number."""
    for unit in ("_per_s", "_ms", "_mb", "_s"):
        figure = figure.removesuffix(unit)
    return {"mb": "payload"}.get(figure, figure).replace("_", " ")


def number(value: float) -> str:
    """Format with three significant digits and thousands separators."""
    if abs(value) >= 1000:
        digits = len(str(int(abs(value)))) - 3
        return f"{round(value, -digits):,.0f}"
    return f"{value:.3g}"
