"""Draw a job's graph, with its figures, as SVG: from left to right, or from top to bottom on a phone's narrow page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean
from textwrap import wrap

from penstock.common.text.markup import Markup, element, joined
from penstock.common.text.quantities import as_event_time, as_rate, is_live
from penstock.common.time.wall_clock import now_ms
from penstock.service.dashboard.job_figures import VertexFigures

_WIDTH, _HEIGHT = 232, 148
_ALONG, _ACROSS = 84, 26
"""Gaps: between levels, where an edge has its name, and between the vertices of a level."""
_DOWN = 40
_GUTTER = 26
"""Gaps of the drawing from top to bottom: between two vertices, and next to them."""
_MARGIN = 12
_NAME_MAX, _STRATEGY_MOST = 29, 11
_NAME_LINES, _NAME_Y, _LINE = 2, 26, 17
_LAST_Y = _HEIGHT - 11
_NAME_FITS = 25
"""Letters of a wide font that fit into a box. Longer texts are condensed."""
_BAR_X, _BAR_WIDTH = 106, 72
_LATE_MS = 10_000


@dataclass(frozen=True)
class _Place:
    x: float
    y: float


def drawing(vertices: Sequence[VertexFigures], selected: str = "", down: bool = False) -> Markup:
    """Draw the graph. `selected`: the id of the chosen vertex. `down`: from top to bottom."""
    places = _below(vertices) if down else _beside(vertices)
    width = max((place.x for place in places.values()), default=0) + _WIDTH + _MARGIN
    height = max((place.y for place in places.values()), default=0) + _HEIGHT + _MARGIN
    draw = _edge_down if down else _edge_along
    edges = [
        draw(places[one.source], places[vertex.id], _shortened(one.strategy.lower(), _STRATEGY_MOST))
        for vertex in vertices
        for one in vertex.inputs
        if one.source in places
    ]
    boxes = [_box(vertex, places[vertex.id], vertex.id == selected) for vertex in vertices]
    return element(
        "svg",
        *edges,
        *boxes,
        cls="graph down" if down else "graph along",
        viewBox=f"0 0 {width:g} {height:g}",
        # At most 1.5 times the normal size: readable on a wall display, and a small job does not fill the screen.
        style=f"max-width: {1.5 * width:g}px",
        role="img",
        preserveAspectRatio="xMinYMid",
        aria_label="the job graph",
    )


def _beside(vertices: Sequence[VertexFigures]) -> dict[str, _Place]:
    """Place each level in a column. Vertices are sorted by the position of their inputs, so that few edges cross."""
    levels: dict[int, list[VertexFigures]] = {}
    for vertex in vertices:
        levels.setdefault(vertex.level, []).append(vertex)
    longest = max((len(level) for level in levels.values()), default=0)
    middle: dict[str, float] = {}
    places = {}
    for number, level in sorted(levels.items()):
        level.sort(key=lambda vertex: mean([middle.get(one.source, 0.0) for one in vertex.inputs] or [0.0]))
        first = (longest - len(level)) / 2
        for index, vertex in enumerate(level):
            middle[vertex.id] = first + index
            x, y = _MARGIN + number * (_WIDTH + _ALONG), _MARGIN + (first + index) * (_HEIGHT + _ACROSS)
            places[vertex.id] = _Place(x, y)
    return places


def _below(vertices: Sequence[VertexFigures]) -> dict[str, _Place]:
    """Place all vertices in one column, with space next to it for edges that skip vertices."""
    ordered = sorted(vertices, key=lambda vertex: vertex.level)
    row = {vertex.id: index for index, vertex in enumerate(ordered)}
    passes = any(row[vertex.id] - row.get(one.source, 0) > 1 for vertex in ordered for one in vertex.inputs)
    x = _MARGIN + (_GUTTER if passes else 0)
    return {vertex.id: _Place(x, _MARGIN + index * (_HEIGHT + _DOWN)) for index, vertex in enumerate(ordered)}


def _edge_along(source: _Place, target: _Place, strategy: str) -> Markup:
    x1, y1, x2, y2 = source.x + _WIDTH, source.y + _HEIGHT / 2, target.x, target.y + _HEIGHT / 2
    bend = (x2 - x1) / 2
    path = f"M{x1:g},{y1:g} C{x1 + bend:g},{y1:g} {x2 - bend:g},{y2:g} {x2 - 7:g},{y2:g}"
    # At the end of the edge, where those of several receivers are apart, on the side opposite to its origin.
    beside = y2 + 18 if y1 < y2 else y2 - 8
    name = element("text", strategy, x=x2 - _ALONG / 2, y=beside, text_anchor="middle", cls="strategy")
    return joined(element("path", d=path), _tip(x2, y2, down=False), name)


def _edge_down(source: _Place, target: _Place, strategy: str) -> Markup:
    if target.y - source.y <= _HEIGHT + _DOWN:
        x, y1, y2 = source.x + _WIDTH / 2, source.y + _HEIGHT, target.y
        name = element("text", strategy, x=x + 8, y=y2 - _DOWN / 2 + 4, cls="strategy")
        return joined(element("path", d=f"M{x:g},{y1:g} L{x:g},{y2 - 7:g}"), _tip(x, y2, down=True), name)
    # Around the vertices in between.
    x, y1, y2 = source.x, source.y + _HEIGHT * 0.6, target.y + _HEIGHT * 0.4
    left = x - _GUTTER
    path = f"M{x:g},{y1:g} C{left:g},{y1:g} {left:g},{y1:g} {left:g},{y1 + _GUTTER:g}"
    path += f" L{left:g},{y2 - _GUTTER:g} C{left:g},{y2:g} {left:g},{y2:g} {x - 7:g},{y2:g}"
    name = element("text", strategy, x=x, y=target.y - 6, cls="strategy")
    return joined(element("path", d=path), _tip(x, y2, down=False), name)


def _tip(x: float, y: float, down: bool) -> Markup:
    """Draw the head of an arrow that points down, or to the right."""
    if down:
        return element("polygon", points=f"{x - 5:g},{y - 8:g} {x + 5:g},{y - 8:g} {x:g},{y - 1:g}")
    return element("polygon", points=f"{x - 8:g},{y - 5:g} {x - 8:g},{y + 5:g} {x - 1:g},{y:g}")


def _box(vertex: VertexFigures, place: _Place, is_selected: bool) -> Markup:
    subtasks = f"{vertex.status.lower()} · parallelism {vertex.parallelism}"
    came, went = f"in {as_rate(vertex.in_per_s)}", f"out {as_rate(vertex.out_per_s)}"
    if vertex.has_ended:
        came, went = f"in {vertex.read:,}", f"out {vertex.written:,}"
    name = wrap(vertex.name, _NAME_MAX, max_lines=_NAME_LINES, placeholder="…") or [""]
    parts = [
        element("title", vertex.name),
        element("rect", width=_WIDTH, height=_HEIGHT, rx=6, cls="card"),
        element("path", d=f"M0,7 v-1 a6,6 0 0 1 6,-6 h{_WIDTH - 12} a6,6 0 0 1 6,6 v1 z", cls="heat"),
        *(_name(line, _NAME_Y + index * _LINE) for index, line in enumerate(name)),
        element("text", subtasks, x=10, y=_NAME_Y + len(name) * _LINE, cls="faint"),
        element("text", came, x=10, y=79),
        element("text", went, x=_WIDTH - 10, y=79, text_anchor="end"),
        _bar("busy", vertex.busy, 98, "bar-busy"),
        _bar("back pressure", vertex.back_pressure, 116, "bar-back"),
        *([] if vertex.has_ended else [_event_time(vertex)]),
    ]
    if vertex.parallelism > 1 and vertex.status == "RUNNING":
        parts.append(
            element("text", f"skew {vertex.skew:.0f} %", x=_WIDTH - 10, y=_LAST_Y, text_anchor="end", cls=_skew(vertex))
        )
    return element(
        "g",
        *parts,
        transform=f"translate({place.x:g},{place.y:g})",
        cls=f"vertex {vertex.heat}{' selected' if is_selected else ''}",
        data_vertex=vertex.id,
        tabindex=0,
    )


def _name(name: str, y: float) -> Markup:
    # The width of letters depends on the available fonts.
    length, adjust = (_WIDTH - 20, "spacingAndGlyphs") if len(name) > _NAME_FITS else (None, None)
    return element("text", name, x=10, y=y, cls="name", textLength=length, lengthAdjust=adjust)


def _bar(name: str, share: float, y: float, cls: str) -> Markup:
    share = min(1.0, max(0.0, share))
    return joined(
        element("text", name, x=10, y=y, cls="faint"),
        element("rect", x=_BAR_X, y=y - 8, width=_BAR_WIDTH, height=8, rx=2, cls="track"),
        element("rect", x=_BAR_X, y=y - 8, width=f"{_BAR_WIDTH * share:.1f}", height=8, rx=2, cls=cls),
        element("text", f"{100 * share:.0f} %", x=_WIDTH - 10, y=y, text_anchor="end"),
    )


def _event_time(vertex: VertexFigures) -> Markup:
    if vertex.lag_ms is None:
        return element("text", "no event time", x=10, y=_LAST_Y, cls="faint")
    return element("text", as_event_time(vertex.lag_ms, now_ms()), x=10, y=_LAST_Y, cls=lag_class(vertex.lag_ms))


def lag_class(lag_ms: float) -> str:
    """Return the color for an event time that is this many milliseconds behind the clock, and "" for a replay."""
    if not is_live(lag_ms):
        return ""
    return "poor" if lag_ms >= _LATE_MS else "good"


def _skew(vertex: VertexFigures) -> str:
    return "poor" if vertex.skew >= 50 else "faint"


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
