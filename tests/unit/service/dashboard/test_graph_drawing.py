"""The drawing of a job's graph."""

from __future__ import annotations

import dataclasses
import re
import xml.etree.ElementTree as ET

import pytest

from penstock.service.dashboard.graph_drawing import drawing, lag_class
from penstock.service.dashboard.job_figures import VertexFigures, VertexInput


def vertex(id: str, level: int, *inputs: str, **more: float | None) -> VertexFigures:
    edges = tuple(VertexInput(one, "HASH") for one in inputs)
    return VertexFigures(id, f"<{id}>", "RUNNING", 2, 128, level, edges, **more)  # type: ignore[arg-type]


DIAMOND = [vertex("a", 0), vertex("b", 1, "a"), vertex("c", 1, "a"), vertex("d", 2, "b", "c", "a")]


def boxes(svg: str) -> dict[str, tuple[float, float]]:
    found = {}
    for group in ET.fromstring(svg).iter("g"):
        x, y = re.findall(r"[\d.]+", group.attrib["transform"])
        found[group.attrib["data-vertex"]] = (float(x), float(y))
    return found


def test_levels_are_beside_each_other_and_vertices_of_one_do_not_overlap() -> None:
    """A graph with forks could not be read."""
    svg = drawing(DIAMOND)
    at = boxes(svg)
    assert at["a"][0] < at["b"][0] == at["c"][0] < at["d"][0]
    assert abs(at["b"][1] - at["c"][1]) > 130
    assert len(ET.fromstring(svg).findall("polygon")) == 5, "an arrow for each edge"


def test_on_a_phone_all_vertices_are_below_each_other() -> None:
    """On a narrow page two vertices beside each other would be too small to be read."""
    at = boxes(drawing(DIAMOND, down=True))
    assert len({x for x, _ in at.values()}) == 1
    assert [id for id, _ in sorted(at.items(), key=lambda one: one[1][1])] == ["a", "b", "c", "d"]
    assert boxes(drawing(DIAMOND[:2], down=True))["a"][0] < at["a"][0], "room beside it is for edges that pass others"


def test_figures_are_in_the_box_as_numbers() -> None:
    """Colour alone says nothing to those who do not see it."""
    one = vertex("a", 0, in_per_s=12345.6, out_per_s=1.2, busy=0.875, back_pressure=1.2, lag_ms=61_000, skew=61.0)
    texts = [text.text for text in ET.fromstring(drawing([one], selected="a")).iter("text")]
    for shown in ("in 12,346/s", "out 1/s", "88 %", "100 %", "1 min 1 s behind", "skew 61 %", "<a>"):
        assert shown in texts
    assert "vertex calm selected" not in drawing([one]) and "selected" in drawing([one], selected="a")


def test_what_has_ended_shows_what_it_has_done() -> None:
    """Boxes of a job that has ended would say 0/s, as if it had read nothing."""
    one = dataclasses.replace(vertex("a", 0, busy=0.25), status="FINISHED", read=12345, written=67)
    texts = [text.text for text in ET.fromstring(drawing([one])).iter("text")]
    for shown in ("in 12,345", "out 67", "25 %"):
        assert shown in texts
    assert not any("/s" in str(text) or "behind" in str(text) or "event time" in str(text) for text in texts)


def test_a_long_name_fits_into_its_box_whatever_the_font() -> None:
    """It would run into its neighbour, or be cut where nobody sees that it goes on."""
    for name, shown in (
        ("short", [("short", None)]),
        ("n" * 29, [("n" * 29, "212")]),
        ("sum of five seconds -> as text", [("sum of five seconds -> as", None), ("text", None)]),
        (
            "one two three four five six seven " * 2,
            [("one two three four five six", "212"), ("seven one two three four…", None)],
        ),
    ):
        one = dataclasses.replace(vertex("a", 0), name=name)
        texts = [text for text in ET.fromstring(drawing([one])).iter("text") if text.get("class") == "name"]
        assert [(text.text, text.get("textLength")) for text in texts] == shown


@pytest.mark.parametrize(("lag", "cls"), [(0, "good"), (10_000, "poor"), (60_000, "poor")])
def test_late_event_time_is_seen(lag: float, cls: str) -> None:
    """A job that falls behind would look like one that keeps up."""
    assert lag_class(lag) == cls


def test_no_vertex_no_error() -> None:
    """A job that waits for slots would have no page."""
    assert "<svg" in drawing([])
