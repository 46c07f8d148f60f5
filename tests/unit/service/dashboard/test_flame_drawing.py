"""A flame graph: how wide each frame is, and which are shown."""

from __future__ import annotations

import re
from typing import Any

from penstock.service.dashboard.flame_drawing import flames


def frame(name: str, value: int, *children: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "value": value, "children": list(children)}


SLOW, PARSE = "__main__.slow:7", "json.loads:3"
TASK = (frame(PARSE, 40), frame(SLOW, 150, frame("time.sleep:2", 150)), frame("a.rare:1", 1))
TREE = frame("root", 200, frame("__main__.main:1", 200, frame("penstock.task:1", 200, *TASK)))
"""Outermost are frames that are the same in each job."""


def buttons(markup: str) -> list[str]:
    return re.findall(r"<button[^>]*>([^<]*)</button>", markup)


def test_frames_are_as_wide_as_their_share() -> None:
    """What looks slow would not be what is slow."""
    drawn = flames(TREE)
    assert buttons(drawn) == ["200 samples", SLOW, "time.sleep:2", PARSE, "a.rare:1"]
    assert re.findall(r"width:([\d.]+)%", drawn) == ["75.000", "100.000", "20.000", "0.500"]
    assert 'title="__main__.slow:7: 150 of 200 samples, 75.0 %"' in drawn


def test_what_can_not_be_seen_is_not_sent() -> None:
    """A page would have thousands of elements of no width, written again each second."""
    wide = frame("root", 1000, frame("a:1", 997), frame("b:1", 3))
    assert buttons(flames(wide)) == ["1,000 samples", "a:1"]


def test_a_frame_that_was_chosen_is_as_wide_as_all() -> None:
    """Of deep stacks nobody could read the part that matters; or not find the way back."""
    (way,) = re.findall(r'data-frame="([^"]*sleep[^"]*)"', flames(TREE))
    drawn = flames(TREE, way)
    assert buttons(drawn) == ["200 samples", SLOW, "time.sleep:2"]
    assert "width" not in drawn
    assert re.findall(r'data-frame="([^"]*)"', drawn)[-1] == way


def test_a_frame_that_is_no_more_leaves_its_caller() -> None:
    """A part that was looked at would be empty as soon as the function has returned."""
    way = "\x1f".join([SLOW, "gone:1"])
    assert buttons(flames(TREE, way)) == ["200 samples", SLOW, "time.sleep:2"]


def test_names_are_text_and_users_frames_differ() -> None:
    """A name would be run as markup; users would look for their functions among a hundred frames."""
    drawn = flames(frame("root", 3, frame("penstock.x:1", 2, frame("__main__.<lambda>:3", 2)), frame("a.b:1", 1)))
    assert "&lt;lambda&gt;" in drawn and "<lambda>" not in drawn
    assert re.findall(r'class="(frame[^"]*)"', drawn) == ["frame", "frame", "frame users", "frame users"]


def test_a_function_that_all_samples_are_in_is_shown() -> None:
    """What takes all the time would be left out with what calls it."""
    assert buttons(flames(frame("root", 9, frame("penstock.x:1", 9, frame(SLOW, 9))))) == ["9 samples", SLOW]


def test_no_samples_are_drawn_as_none() -> None:
    """A vertex whose subtask did nothing in the time would break the page."""
    assert buttons(flames(frame("root", 0))) == ["0 samples"]
