"""The charts of a job over time, from the answer to `/jobs/:id/history`."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import Any

from penstock.service.dashboard.chart_drawing import Chart, Line, time_chart
from penstock.service.dashboard.charts import job_charts

NOW_MS = 1_700_000_000_000


def history(count: int, vertices: int = 2, **last: Any) -> dict[str, Any]:
    """Samples, the newest of which has these other figures."""
    samples = [
        {
            "timestamp": NOW_MS + number * 2_000,
            "records-in-per-second": 100.0 * number,
            "records-out-per-second": 1.0,
            "watermark": NOW_MS + number * 2_000 - 3_000,
            "busy": [10 * (vertex + 1) % 100 for vertex in range(vertices)],
            "back-pressured": [0] * vertices,
            "restarts": 0,
            "failed-checkpoints": 0,
            "checkpoint-duration": None,
            "checkpoint-size": None,
        }
        for number in range(count)
    ]
    samples[-1] |= last
    return {"vertices": [str(vertex) for vertex in range(vertices)], "samples": samples}


def titles(markup: str) -> list[str]:
    return [figure.find("figcaption/b").text for figure in ET.fromstring(markup).iter("figure")]  # type: ignore


def test_rates_event_time_load_and_checkpoints_are_shown() -> None:
    """A user would see what a job does now, and not whether it has become slower since yesterday."""
    shown = job_charts(
        history(3, **{"checkpoint-size": 1_500, "checkpoint-duration": 250}), {"0": "orders", "1": "<b>"}
    )
    assert titles(shown) == [
        "Records per second",
        "Event time behind the clock",
        "Busy",
        "Back-pressured",
        "Duration of checkpoints",
        "Size of checkpoints",
    ]
    for text in ("200/s", "3.0 s", "orders", "&lt;b&gt;", "20 %", "250 ms", "1.5 kB"):
        assert text in shown
    assert "trouble" not in shown


def test_without_event_time_or_checkpoints_there_are_no_empty_charts() -> None:
    """A batch job would have three boxes with nothing in them."""
    one = history(2)
    for sample in one["samples"]:
        sample["watermark"] = None
    assert titles(job_charts(one, {})) == ["Records per second", "Busy", "Back-pressured"]


def test_event_time_of_a_replay_is_shown_as_time() -> None:
    """A replay of 2013 would be shown as twelve years behind, which says nothing about its progress."""
    one = history(3)
    for number, sample in enumerate(one["samples"]):
        sample["watermark"] = 1_356_998_400_000 + number * 3_600_000
    shown = job_charts(one, {})
    assert "Event time" in titles(shown) and "2013-01-01 02:00" in shown and "behind" not in shown


def test_restarts_and_failed_checkpoints_are_marked_when_they_happened() -> None:
    """A dip in a chart would not be seen to be a restart."""
    shown = ET.fromstring(job_charts(history(3, restarts=1, **{"failed-checkpoints": 2}), {}))
    marked = {
        figure.find("figcaption/b").text: [
            path.get("d") for path in figure.iter("path") if path.get("class") == "trouble"
        ]  # type: ignore
        for figure in shown.iter("figure")
    }
    assert all(marks == ["M1000.0,0 V100"] for marks in marked.values()), marked
    texts = list(shown.itertext())
    assert texts.count("restart") == 4 and texts.count("failed checkpoint") == 2


def test_of_many_operators_the_busiest_have_lines() -> None:
    """Fifty lines could not be told apart, and the one that matters might not be among the first."""
    shown = job_charts(history(2, vertices=50), {str(vertex): f"operator {vertex}" for vertex in range(50)})
    busy = ET.fromstring(shown).findall("figure")[2]
    names = [text for text in (key.text for key in busy.iter("i")) if text]
    assert len(names) == 6 and "operator 8" in names and "operator 9" not in names, "90 % and 0 %"


def test_a_line_is_where_its_values_are() -> None:
    """A chart would be of another size than its scale."""
    chart = Chart("it", [Line("one", "c1", [0.0, None, 40.0]), Line("two", "c2", [20.0, 20.0, None])], str)
    shown = ET.fromstring(time_chart(chart, [0, 5_000, 10_000]))
    paths = {str(path.get("class")): path.get("d") for path in shown.iter("path")}
    assert paths["line c1"] == "M0.0,100.0 L1000.0,0.0"
    assert paths["line c2"] == "M0.0,50.0 L500.0,50.0"
    readings = [
        re.sub(r"\s+", " ", " ".join(one.itertext()))
        for one in shown.iter("div")
        if "slice" in one.get("class", "").split()
    ]
    assert len(readings) == 3 and "two 20.0" in readings[1] and "one" not in readings[1]
