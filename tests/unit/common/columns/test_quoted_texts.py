"""Columns of texts as JSON."""

from __future__ import annotations

from itertools import combinations

import msgspec
import pyarrow
import pytest

from penstock.common.columns.json_lines import quoted
from penstock.common.columns.lines import TEXT

TEXTS = ("", "plain", 'say "x"', "a\\b", '\\"', "\\\\n", "\x00", "two\nlines", '\t"\\', "\x1f", "é\u2028\x7f😀", None)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_texts_are_escaped_as_msgspec_does(count: int) -> None:
    """A quotation mark, a backslash or a line break would end a message, or become another character."""
    for texts in combinations(TEXTS, count):
        expected = [None if text is None else msgspec.json.encode(text).decode() for text in texts]
        assert quoted(pyarrow.array(texts, TEXT)).to_pylist() == expected
        # A part of a column: the texts beside it have no say.
        part = pyarrow.array(["\\", *texts, '"\n'], TEXT).slice(1, count)
        assert quoted(part).to_pylist() == expected
