"""What "Coming from Flink CEP" and the page of decisions call different from Flink: each row has a test."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import dropwhile, takewhile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TABLES = {
    "docs/coming-from/flink-cep.md": "## Different results\n",
    "docs/internals/decisions/0042-patterns.md": "**Deviations from Flink 2.3**",
}
TESTS = {
    "time between repetitions, `times(n, gap)`": "test_time.py::test_repetitions_must_be_close",
    "`PREVIOUS_AND_CURRENT`": "test_time.py::test_time_alone_ends_a_gap",
    "the same on steps with a quantifier and on groups": (
        "test_time.py::test_a_gap_of_a_group_lies_between_its_repetitions"
    ),
    "iterative condition of a not-step": (
        "test_conditions.py::test_a_condition_of_a_not_step_is_not_called_for_the_event_before_it"
    ),
    "`within` on a step before a final `not_followed_by`": (
        "test_contiguity.py::test_a_window_on_an_earlier_step_makes_a_final_not_step_wait"
    ),
    "a group that ends with `not_followed_by`": "test_pattern.py::test_a_malformed_pattern_is_refused_at_the_call",
    "matches that begin with one event and that one event completes": (
        "test_contiguity.py::test_a_match_that_took_an_event_comes_before_one_that_passed_it_over"
    ),
    "gap between repetitions": "test_time.py::test_each_gap_between_repetitions_counts",
    "a gap that ends": "test_time.py::test_an_optional_step_may_be_left_out_when_its_time_is_over",
    "end of a gap": "test_operator.py::test_gaps_end_with_the_watermark",
    "both times end before the key's next event": (
        "test_time.py::test_the_earlier_of_window_and_gap_ends_a_partial_match"
    ),
    "`within` on the last step of a group": "test_time.py::test_a_window_inside_a_group_counts",
    "`consecutive` and `allow_combinations` on the first step of a group": (
        "test_quantifiers.py::test_the_first_step_of_a_group_repeats_as_it_says"
    ),
    "ties: matches with one first event that one event completes": (
        "test_contiguity.py::test_a_match_that_took_an_event_comes_before_one_that_passed_it_over"
    ),
}
"""By subject, in this folder."""


def subjects(page: str) -> list[str]:
    """Return the first cells of a table of differences."""
    lines = (ROOT / page).read_text(encoding="utf-8").partition(TABLES[page])[2].splitlines()
    table = takewhile(_is_row, dropwhile(lambda line: not _is_row(line), lines))
    return [line.split(" | ")[0].removeprefix("| ") for line in table][2:]


def _is_row(line: str) -> bool:
    return line.startswith("|")


@pytest.mark.parametrize("page", TABLES)
def test_every_difference_has_a_test(page: str) -> None:
    """A difference that nobody checks becomes a rumor."""
    rows = subjects(page)
    assert len(rows) >= 7 and not set(rows) - TESTS.keys()


def test_every_test_of_a_difference_is_there() -> None:
    """The table would name tests that were removed, or subjects that no page has."""
    assert TESTS.keys() == {row for page in TABLES for row in subjects(page)}
    assert not set(missing_tests())


def missing_tests() -> Iterator[str]:
    for place in TESTS.values():
        file, _, name = place.partition("::")
        tree = ast.parse((Path(__file__).parent / file).read_text(encoding="utf-8"))
        if name not in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}:
            yield place
