"""Draw charts as markup: lines over time, and columns of stacked parts. Colors are classes of pages.css."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from penstock.common.text.markup import Markup, element, joined

_WIDTH, _HEIGHT = 1000, 100
"""Units of the drawing, which is stretched to the size of its place; texts are outside of it."""
_SLICES_MAX = 60
"""Most places of a chart that show their values under the pointer."""
_STEPS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 8.0, 10.0)
_COLUMN_MAX = 100
"""Largest width (pixels) of a column: the texts at its ends need as much."""
_DAY_MS = 24 * 3_600_000


@dataclass(frozen=True)
class Line:
    """A line of a chart. `cls`: its color; `values`: one for each time, None: unknown then."""

    name: str
    cls: str
    values: Sequence[float | None]


@dataclass(frozen=True)
class Chart:
    """A chart of lines over time. `label`: formats a value; `full`: the value at the top, None: fits the lines.

    `from_zero`: whether the bottom is zero, and not the lowest value.
    """

    title: str
    lines: Sequence[Line]
    label: Callable[[float], str]
    full: float | None = None
    from_zero: bool = True


def time_chart(chart: Chart, times_ms: Sequence[int], troubles_ms: Sequence[int] = (), trouble: str = "") -> Markup:
    """Draw lines over these times. `troubles_ms`: times to mark in red, each of which is a `trouble`."""
    known = [value for line in chart.lines for value in line.values if value is not None]
    low = 0.0 if chart.from_zero or not known else min(known)
    high = chart.full if chart.full is not None else _top(low, max(known, default=0.0))
    first_ms, last_ms = times_ms[0], max(times_ms[-1], times_ms[0] + 1)

    def x(at_ms: float) -> float:
        return _WIDTH * (at_ms - first_ms) / (last_ms - first_ms)

    def y(value: float) -> float:
        return _HEIGHT * (1 - (value - low) / ((high - low) or 1.0))

    paths = [
        element("path", d=_path([(x(at_ms), y(v)) for at_ms, v in _known(times_ms, line)]), cls=f"line {line.cls}")
        for line in chart.lines
    ]
    marks = [
        element("path", d=f"M{x(at_ms):.1f},0 V{_HEIGHT}", cls="trouble")
        for at_ms in troubles_ms
        if first_ms <= at_ms <= last_ms
    ]
    grid = element("path", d=f"M0,0 H{_WIDTH} M0,{_HEIGHT / 2} H{_WIDTH} M0,{_HEIGHT} H{_WIDTH}", cls="grid")
    drawn = element("svg", grid, *marks, *paths, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", preserveAspectRatio="none")
    heights = [element("span", chart.label(value)) for value in (high, (low + high) / 2, low)]
    moments = [element("span", _moment(at_ms, first_ms, last_ms)) for at_ms in (first_ms, last_ms)]
    return element(
        "figure",
        element("figcaption", element("b", chart.title), _keys(chart), _key_of_trouble(trouble) if marks else None),
        element(
            "div",
            element("div", *heights, cls="heights"),
            element("div", drawn, _slices(chart, times_ms), cls="plot"),
            cls="drawn",
        ),
        element("div", *moments, cls="moments"),
        cls="chart",
    )


def _known(times_ms: Sequence[int], line: Line) -> list[tuple[int, float]]:
    return [(at_ms, value) for at_ms, value in zip(times_ms, line.values, strict=True) if value is not None]


def _path(points: Sequence[tuple[float, float]]) -> str:
    if len(points) == 1:
        # A single point is drawn as a short line: a line of no length would not be visible.
        (x, y) = points[0]
        points = [(x - 4, y), (x + 4, y)]
    return " ".join(f"{'L' if index else 'M'}{x:.1f},{y:.1f}" for index, (x, y) in enumerate(points))


def _keys(chart: Chart) -> Markup:
    keys = []
    for line in chart.lines:
        newest = next((value for value in reversed(line.values) if value is not None), None)
        text = "–" if newest is None else chart.label(newest)
        keys.append(
            element("span", element("i", line.name, title=line.name), element("b", text), cls=f"key {line.cls}")
        )
    return joined(*keys)


def _key_of_trouble(trouble: str) -> Markup:
    return element("span", element("i", trouble), cls="key trouble")


def _slices(chart: Chart, times_ms: Sequence[int]) -> Markup:
    """Cover the chart with places that show, under the pointer, the time and the values there."""
    count = min(_SLICES_MAX, len(times_ms))
    slices = []
    for number in range(count):
        index = round(number * (len(times_ms) - 1) / max(1, count - 1))
        values = [
            element("span", f"{line.name} {chart.label(value)}", cls=f"key {line.cls}")
            for line in chart.lines
            if (value := line.values[index]) is not None
        ]
        reading = element("div", element("b", _moment(times_ms[index], times_ms[0], times_ms[-1])), *values)
        slices.append(element("div", reading, cls="slice late" if number > count / 2 else "slice"))
    return element("div", *slices, cls="slices")


def _top(low: float, high: float) -> float:
    """Return the value at the top: a round number above the highest value."""
    if low:
        return high if high > low else low + 1
    if high <= 0:
        return 1.0
    size: float = 10.0 ** math.floor(math.log10(high))
    return next((step * size for step in _STEPS if step * size >= high), 10.0 * size)


def _moment(at_ms: int, first_ms: int, last_ms: int) -> str:
    form = "%Y-%m-%d %H:%M" if last_ms - first_ms > _DAY_MS else "%H:%M:%S"
    return datetime.fromtimestamp(at_ms / 1000).strftime(form)


@dataclass(frozen=True)
class Column:
    """A column of a chart: `id` is what a click chooses; `parts`: their values, from the bottom up."""

    id: int
    parts: Sequence[float]


def column_chart(
    title: str, names: Sequence[str], columns: Sequence[Column], label: Callable[[float], str], chosen: int
) -> Markup:
    """Draw columns that name a checkpoint, for selection. `names`: of the parts, in the colors from `c1` on."""
    high = _top(0.0, max((sum(one.parts) for one in columns), default=0.0))
    keys = [element("span", element("i", name), cls=f"key c{number}") for number, name in enumerate(names, 1)]
    drawn = []
    for one in columns:
        parts = [
            element("i", cls=f"c{number}", style=f"height: {100 * part / high:.1f}%")
            for number, part in enumerate(one.parts, 1)
        ]
        values = ", ".join(f"{name} {label(part)}" for name, part in zip(names, one.parts, strict=True))
        drawn.append(
            element(
                "button",
                *reversed(parts),
                cls="stack chosen" if one.id == chosen else "stack",
                data_checkpoint=one.id,
                title=f"checkpoint {one.id}: {values}",
            )
        )
    heights = [element("span", label(value)) for value in (high, high / 2, 0.0)]
    ends = [element("span", f"checkpoint {one.id}") for one in [*columns[:1], *columns[1:][-1:]]]
    # Few columns are not as wide as the chart.
    width = f"max-width: {_COLUMN_MAX * len(columns)}px"
    return element(
        "figure",
        element("figcaption", element("b", title), *keys),
        element(
            "div",
            element("div", *heights, cls="heights"),
            element("div", *drawn, cls="plot columns", style=width),
            cls="drawn",
        ),
        element("div", element("div", *ends, style=width), cls="moments"),
        cls="chart",
    )
