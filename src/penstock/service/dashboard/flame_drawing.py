"""Draw a flame graph: each frame as wide as its share of the samples, above the frames that it has called."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.common.text.markup import Markup, element, joined

_NARROWEST = 0.004
"""The smallest share of the whole width that is drawn: narrower frames are invisible."""
_BETWEEN = "\x1f"
_OF_THE_ENGINE = ("penstock.", "pyspark.", "runpy.")


def flames(tree: dict[str, Any], chosen: str = "") -> Markup:
    """Draw the frames of `/flamegraph`. `chosen`: the `data-frame` of the frame that gets the full width.

    If the newest samples do not have it, show the nearest of its callers. Frames common to all samples are left out.
    """
    way = ""
    rows, node = [_frame(tree, way, tree["value"])], _below_common_frames(tree)
    for name in chosen.split(_BETWEEN) if chosen else ():
        found = next((child for child in node["children"] if child["name"] == name), None)
        if found is None:
            break
        node, way = found, _beyond(way, name)
        rows.append(_frame(node, way, tree["value"]))
    return element("div", *rows, _below(node, way, tree["value"], 1.0), cls="flames")


def _below_common_frames(tree: dict[str, Any]) -> dict[str, Any]:
    """Return the last frame of the engine that all samples share: the frames below it are the same in each job."""
    node, last = tree, tree
    while len(node["children"]) == 1:
        (node,) = node["children"]
        if node["name"].startswith(_OF_THE_ENGINE):
            last = node
    return last


def _below(node: dict[str, Any], way: str, total: int, width: float) -> Markup | None:
    """Draw the frames that a frame has called, side by side. `width`: the frame's share of the whole."""
    columns = list(_columns(node, way, total, width))
    return element("div", *columns, cls="row") if columns else None


def _columns(node: dict[str, Any], way: str, total: int, width: float) -> Iterator[Markup]:
    for child in sorted(node["children"], key=lambda child: -child["value"]):
        share = child["value"] / node["value"]
        if width * share >= _NARROWEST:
            name = _beyond(way, child["name"])
            called = _below(child, name, total, width * share)
            yield element("div", _frame(child, name, total), called, style=f"width:{share * 100:.3f}%")


def _frame(node: dict[str, Any], way: str, total: int) -> Markup:
    name, count = node["name"], node["value"]
    summary = f"{name}: {count:,} of {total:,} samples, {count * 100 / max(total, 1):.1f} %"
    kind = "frame" if name.startswith(_OF_THE_ENGINE) or not way else "frame users"
    # A button, so that the keyboard can choose it.
    return element("button", name if way else f"{total:,} samples", cls=kind, title=summary, data_frame=way)


def _beyond(way: str, name: str) -> str:
    return _BETWEEN.join(part for part in (way, name) if part)


def legend() -> Markup:
    """Explain the colors."""
    return joined(
        element("span", "your functions, and libraries", cls="legend users"),
        element("span", "penstock, and PySpark below it", cls="legend frames"),
    )
