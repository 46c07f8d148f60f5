"""Markup: what comes from a job stays text."""

from __future__ import annotations

from penstock.common.text.markup import element, joined, table


def test_text_of_a_job_is_never_markup() -> None:
    """The name of a job that somebody else runs would run his script with the user's rights."""
    made = element("a", "<script>", element("b", "x"), href='"><script>', data_vertex="&", cls="c", title=None)
    assert made == ('<a href="&quot;&gt;&lt;script&gt;" data-vertex="&amp;" class="c">&lt;script&gt;<b>x</b></a>')
    assert joined("<", None, made) == f"&lt;{made}" and joined(made.lower()).startswith("&lt;a")


def test_numbers_end_at_the_right() -> None:
    """Rates could not be compared at a glance."""
    shown = table(["name", "rate"], [["a", "1"]], numbers=[1])
    assert '<td>a</td><td class="number">1</td>' in shown and "<th>name</th>" in shown
