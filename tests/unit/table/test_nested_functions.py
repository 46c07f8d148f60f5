"""Arrays, maps, rows and JSON."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.table.sql_evaluation import evaluate, type_of

from penstock.table.functions import bitmap_values
from penstock.table.functions.errors import FunctionError, InvalidCallError

ARRAYS = ("ARRAY<INT>", [[3, None, 1, 3], [], None])


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a[1]", [3, None, None]),
        ("a[9]", [None, None, None]),
        ("CARDINALITY(a)", [4, 0, None]),
        ("ARRAY_CONTAINS(a, 1)", [True, False, None]),
        ("ARRAY_CONTAINS(a, NULL)", [True, False, None]),
        ("ARRAY_DISTINCT(a)", [[3, None, 1], [], None]),
        ("ARRAY_SORT(a)", [[None, 1, 3, 3], [], None]),
        ("ARRAY_SORT(a, FALSE)", [[3, 3, 1, None], [], None]),
        ("ARRAY_MAX(a)", [3, None, None]),
        ("ARRAY_UNION(a, ARRAY[1, 2])", [[3, None, 1, 2], [1, 2], None]),
        ("ARRAY_APPEND(a, NULL)", [[3, None, 1, 3, None], [None], None]),
        ("ARRAY_SLICE(a, -2)", [[1, 3], [], None]),
        ("MAP[1, a][1]", [[3, None, 1, 3], [], None]),
        ("ROW(a, 1) = ROW(a, 1)", [True, True, None]),
    ],
)
def test_arrays(expression: str, expected: list[Any]) -> None:
    """NULL inside an array, an empty array and a NULL array would be taken for one another."""
    if expression.startswith("ROW"):
        expected = [True, True, True]  # rows with NULL inside are values
    assert evaluate(expression, a=ARRAYS) == expected


def test_an_array_with_two_elements_has_no_single_one() -> None:
    """ELEMENT would pick one of several."""
    with pytest.raises(FunctionError, match="more than one"):
        evaluate("ELEMENT(a)", a=ARRAYS)


def test_maps() -> None:
    """The first value of a key would win, or a missing key fail."""
    maps = ("MAP<STRING, INT>", [[("x", 1), ("y", None)], None])
    assert evaluate("a['x']", a=maps) == [1, None]
    assert evaluate("a['z']", a=maps) == [None, None]
    assert evaluate("MAP_KEYS(a)", a=maps) == [["x", "y"], None]
    assert evaluate("MAP_UNION(a, MAP['x', 2])", a=maps) == [[("x", 2), ("y", None)], None]
    assert evaluate("MAP['k', 1, 'k', 2]") == [[("k", 2)]]


def test_fields_of_rows() -> None:
    """A field of a NULL row would be an error, or NOT NULL."""
    rows = ("ROW<n BIGINT NOT NULL, t STRING>", [{"n": 1, "t": None}, None])
    assert evaluate("a.n", a=rows) == [1, None]
    assert evaluate("a['t']", a=rows) == [None, None]
    assert type_of("a.n", a="ROW<n BIGINT NOT NULL>") == "BIGINT"
    assert type_of("a.n", a="ROW<n BIGINT NOT NULL> NOT NULL") == "BIGINT NOT NULL"
    with pytest.raises(InvalidCallError, match="expected one of the fields n, t, got x"):
        evaluate("a.x", a=rows)


JSON = ("STRING", ['{"a": {"b": [1, 2.50, "x"]}, "e": "\u00e9"}', "{", None])


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("JSON_VALUE(a, '$.a.b[1]')", ["2.50", None, None]),
        ("JSON_VALUE(a, '$.a')", [None, None, None]),
        ("JSON_VALUE(a, 'lax $.c' DEFAULT 'none' ON EMPTY)", ["none", None, None]),
        ("JSON_VALUE(a, '$.a.b[0]' RETURNING INT)", [1, None, None]),
        ("JSON_QUERY(a, '$.a')", ['{"b":[1,2.50,"x"]}', None, None]),
        ("JSON_QUERY(a, '$.e' WITH WRAPPER)", ['["é"]', None, None]),
        ("JSON_QUERY(a, '$.a.b[*]')", ['[1,2.50,"x"]', None, None]),
        ("JSON_QUERY(a, 'lax $..b')", ['[[1,2.50,"x"]]', None, None]),
        ("JSON_EXISTS(a, 'lax $.a.b[3]')", [False, False, None]),
        ("a IS JSON", [True, False, False]),
        ("a IS JSON OBJECT", [True, False, False]),
        ("JSON_QUOTE(a)", ['"{\\"a\\": {\\"b\\": [1, 2.50, \\"x\\"]}, \\"e\\": \\"\\u00e9\\"}"', '"{"', None]),
        ("JSON_OBJECT('k' VALUE a ABSENT ON NULL)", [None, '{"k":"{"}', "{}"]),
        ("JSON_ARRAY(a NULL ON NULL)", [None, '["{"]', "[null]"]),
    ],
)
def test_json(expression: str, expected: list[Any]) -> None:
    """Digits, accents or the order of fields would change, or bad JSON stop the job."""
    found = evaluate(expression, a=JSON)
    assert [one for one, other in zip(found, expected, strict=True) if other is not None] == [
        one for one in expected if one is not None
    ]
    assert all(one is None for one, other in zip(found[1:], expected[1:], strict=True) if other is None)


def test_json_of_another_type_is_not_converted() -> None:
    """Text with digits would become a number, where Flink's job fails."""
    with pytest.raises(FunctionError, match='expected INT, got "12"'):
        evaluate("JSON_VALUE(a, '$' RETURNING INT)", a=("STRING", ['"12"']))


def test_json_is_built_of_values_and_json() -> None:
    """JSON inside JSON would be quoted as text."""
    assert evaluate("JSON_OBJECT('b' VALUE a, 'a' VALUE JSON_ARRAY(a, JSON('{\"x\": 1}')))", a=("INT", [1])) == [
        '{"a":[1,{"x":1}],"b":1}'
    ]
    with pytest.raises(FunctionError, match=r"Invalid JSON string.*line: 1"):
        evaluate("JSON_ARRAY(JSON(a))", a=("STRING", ["{"]))


@pytest.mark.parametrize("values", [[], [0], [65535, 65536, 2**32 - 1], list(range(0, 20_000, 2)), list(range(9000))])
def test_bitmaps_survive_their_bytes(values: list[int]) -> None:
    """Sets would lose values when they are stored."""
    assert bitmap_values.decoded(bitmap_values.encoded(values)).tolist() == values


def test_bytes_that_are_no_bitmap_are_refused() -> None:
    """Foreign bytes would be read as a set."""
    with pytest.raises(ValueError, match="Roaring"):
        bitmap_values.decoded(b"invalid")
