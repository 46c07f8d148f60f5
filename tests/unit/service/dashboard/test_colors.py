"""The colors of the pages, by the rules of WCAG 2.1 (AA)."""

from __future__ import annotations

import re

import pytest

from penstock.service.dashboard.pages import STYLE

TEXTS = ("ink", "faint", "link", "good", "late", "trouble")
DRAWINGS = ("calm", "busy", "hot", "pressed", "off", "rate", "c1", "c2", "c3", "c4", "c5", "c6")


def colors_of(selector: str) -> dict[str, str]:
    (block,) = re.findall(rf"^{re.escape(selector)} {{(.*?)}}", STYLE, re.MULTILINE | re.DOTALL)
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))


def contrast(one: str, other: str) -> float:
    """WCAG 2.1, "contrast ratio"."""
    low, high = sorted(luminance(color) for color in (one, other))
    return (high + 0.05) / (low + 0.05)


def luminance(color: str) -> float:
    """WCAG 2.1, "relative luminance"."""
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("selector", [":root", ".body--dark"])
def test_texts_and_drawings_are_readable_on_their_grounds(selector: str) -> None:
    """A user with weak eyes, or a bright window behind, could not read the pages in dark or in light mode."""
    colors = colors_of(selector)
    assert round(contrast("#000000", "#ffffff"), 2) == 21
    for ground in ("ground", "card"):
        for names, least in ((TEXTS, 4.5), (DRAWINGS, 3.0)):
            for name in names:
                assert contrast(colors[name], colors[ground]) >= least, (name, ground)
    assert contrast(colors["on-primary"], colors["link"]) >= 4.5, "the text of a filled button"
    assert contrast("#1d2429", colors["users"]) >= 4.5, "the text of a frame of a flame graph"


@pytest.mark.parametrize("selector", [":root", ".body--dark"])
def test_red_is_the_color_of_trouble_alone(selector: str) -> None:
    """A busy operator, or a chart, would look like a failure; and a failure like anything else."""
    colors = colors_of(selector)
    for name in (*TEXTS, *DRAWINGS):
        red, green, blue = (int(colors[name][at : at + 2], 16) for at in (1, 3, 5))
        # Where red leads, the green of an amber is closer to it than to blue.
        is_red = red > green and red > blue and green - blue < 0.3 * (red - blue)
        assert is_red == (name == "trouble"), (name, colors[name])


def test_every_color_of_the_pages_is_one_of_these() -> None:
    """A color that is written in a rule would be the same in dark mode, where it can't be read."""
    rules = re.sub(r"^(:root|\.body--dark) {.*?}", "", STYLE, flags=re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"#[0-9a-fA-F]{3,6}\b", rules)) == {"#1d2429"}, "the text of a frame, on an amber ground"
    used = set(re.findall(r"var\(--([\w-]+)\)", rules)) - {"heat", "color"}
    assert used <= colors_of(":root").keys() == colors_of(".body--dark").keys()
