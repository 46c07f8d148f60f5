"""Functions of text, patterns and hashes where Java's rules differ from Python's or Arrow's."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.unit.table.sql_evaluation import evaluate

from penstock.table.functions.calls import call
from penstock.table.functions.errors import FunctionError
from penstock.table.functions.java_regex import re2_pattern
from penstock.table.logical_types import INT, STRING

URLS = ["https://a.b/c/d?x=1&channel_id=apple", "https://a.b/c?channel_id=", "http://none", "", None]


def over(expression: str, values: list[Any]) -> list[Any]:
    return evaluate(expression, a=("STRING", values))


@pytest.mark.parametrize(
    ("expression", "values", "expected"),
    [
        ("UPPER(a)", ["straße", "abc", None], ["STRASSE", "ABC", None]),
        ("SUBSTRING(a, 2, 2)", ["a😀bc", "x", None], ["😀b", "", None]),
        ("SUBSTRING(a, -2)", ["abc", "x"], ["bc", ""]),
        ("SUBSTRING(a, 2, -1)", ["abc"], [None]),
        ("CHAR_LENGTH(a)", ["a😀", ""], [2, 0]),
        ("TRIM(a)", [" a\t ", None], ["a\t", None]),
        ("LPAD(a, 4, 'xy')", ["a", "abcde", None], ["xyxa", "abcd", None]),
        ("RPAD(a, 3, '')", ["a"], [None]),
        ("INITCAP(a)", ["hELLO-wORLD 2nd", None], ["Hello-World 2nd", None]),
        ("a || 'x'", ["a", None], ["ax", None]),
        ("CONCAT_WS('-', a, 'b')", ["a", None], ["a-b", "b"]),
        ("POSITION('c', a)", ["abc", "", None], [3, 0, None]),
        ("INSTR(a, 'a', -1, 2)", ["banana", "a"], [4, 0]),
        ("OVERLAY(a, 'XX', 2)", ["abcd", "a"], ["aXXd", "a"]),
        ("SPLIT_INDEX(a, '/', 3)", URLS, ["c", "c?channel_id=", None, None, None]),
        ("SPLIT_INDEX(a, 47, 0)", ["x/y"], ["x"]),
        ("SPLIT_INDEX(a, '/', -1)", ["x/y"], [None]),
        ("REGEXP_EXTRACT(a, '(&|^)channel_id=([^&]*)', 2)", URLS, ["apple", None, None, None, None]),
        ("REGEXP_EXTRACT(a, '(x)?y', 1)", ["y", "xy", "n"], [None, "x", None]),
        ("REGEXP_REPLACE(a, '[0-9]+', '$1')", ["a12b3"], ["a$1b$1"]),
        ("REGEXP(a, '')", ["a"], [False]),
        ("REGEXP_REPLACE(a, '(', '')", ["a"], [None]),
        ("STR_TO_MAP(a)", ["a=1,b,c=2=3,"], [[("a", "1"), ("b", None), ("c", "2=3")]]),
        ("FROM_BASE64(TO_BASE64(a))", ["é", None], ["é", None]),
        ("PARSE_URL(a, 'QUERY', 'x')", ["http://u:p@h:1/p?x=1#r", "h"], ["1", None]),
        ("PARSE_URL(a, 'HOST')", ["http://u:p@h:1/p?x=1#r", "other://h"], ["h", None]),
        ("ASCII(a)", ["é", "a", ""], [-61, 97, 0]),
        ("MD5(a)", ["", None], ["d41d8cd98f00b204e9800998ecf8427e", None]),
    ],
)  # fmt: skip
def test_text_functions_follow_flink(expression: str, values: list[Any], expected: list[Any]) -> None:
    """A query over text would give other values than in Flink."""
    assert over(expression, values) == expected


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        (r"\p{Alpha}+", "abc", True),
        (r"\d", "٣", False),
        (r"a.b", "a\u2028b", False),
        (r"^a\z", "a\n", False),
        (r"^a$", "a\n", True),
        (r"\Qa.b\E", "axb", False),
        (r"(?<n>a)\k<n>", "aa", True),
        (r"[\p{Digit}x]", "x", True),
        (r"a\R", "a\r\n", True),
    ],
)
def test_regular_expressions_are_javas(pattern: str, text: str, matches: bool) -> None:
    """A filter by a pattern would keep other rows."""
    assert over(f"REGEXP(a, '{pattern}')", [text]) == [matches]


def test_extraction_by_re2_agrees_with_the_slow_one() -> None:
    """The fast path would give an empty group where Java has NULL, or the other way round."""
    for pattern in ("(&|^)channel_id=([^&]*)", "(a)?(b)?", "([a-z]+)://([^/]+)(/[^?]*)?"):
        assert re2_pattern(pattern)
        for index in (0, 1, 2):
            text = pa.array(URLS)
            literals = [pa.scalar(pattern), pa.scalar(index, pa.int32())]
            fast = call("REGEXP_EXTRACT", [text, *literals], [STRING, STRING, INT])
            columns = [text, pa.array([pattern] * len(URLS)), pa.array([index] * len(URLS), pa.int32())]
            assert fast.to_pylist() == call("REGEXP_EXTRACT", columns, [STRING, STRING, INT]).to_pylist()


@pytest.mark.parametrize("pattern", ["a.b", "a$", r"\bx", "a{2}", "(?i)a", "[[a]", "a++", r"\p{L}", "é"])
def test_other_patterns_are_left_to_the_slow_one(pattern: str) -> None:
    """RE2 reads them differently from Java: rows would match that must not."""
    assert re2_pattern(pattern) is None


def test_like_has_no_escape_of_its_own() -> None:
    """A backslash in a pattern would not match itself, as Arrow takes it for an escape."""
    texts = ["a\\b", "a%b", "axb", None]
    assert over("a LIKE 'a\\_'", ["a\\b", "a_"]) == [True, False]
    assert over("a LIKE 'a!%b' ESCAPE '!'", texts) == [False, True, False, None]
    assert over("a NOT LIKE 'a_b'", texts) == [False, False, False, None]
    with pytest.raises(FunctionError, match="Invalid escape sequence"):
        over("a LIKE 'a!b' ESCAPE '!'", texts)


def test_joining_keeps_rows_without_text() -> None:
    """Arrow's join that skips NULL drops such rows, and all later ones get the text of another row."""
    columns = {
        "a": ("STRING", ["-", "-", None, "-"]),
        "b": ("STRING", [None, "x", "y", "z"]),
        "c": ("STRING", [None, "1", "2", None]),
    }
    assert evaluate("CONCAT_WS(a, b, c)", **columns) == ["", "x-1", None, "z"]


def test_printf_is_javas() -> None:
    """Reports would be written with other digits."""
    assert evaluate("PRINTF('%05d|%,d|%.1f|%s|%x', a, a, b, a, a)", a=("INT", [1234]), b=("DOUBLE", [0.25])) == [
        "01234|1,234|0.3|1234|4d2"
    ]
    assert evaluate("PRINTF('%d', a)", a=("STRING", ["x"])) == [None]
