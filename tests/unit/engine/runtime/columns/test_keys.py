"""Rows of a batch have the keys, and the key groups, of the same records as Python objects."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.common.columns.to_values import python_values
from penstock.common.functions.field_key import FieldKey
from penstock.engine.runtime.columns.keys import keys_of
from penstock.engine.runtime.columns.routing import KeyRoutes
from penstock.engine.state.container_keys import as_key
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.state.keys import KeyTypeError

MAX_PARALLELISM = 1 << 15
NOON = dt.datetime(2024, 2, 29, 12, 30, 1, 250_000)
COLUMNS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.null(), [None, None]),
    (pa.bool_(), [True, False, None, True]),
    *((kind, [0, 1, 127, None, 1]) for kind in (pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.uint32())),
    (pa.int64(), [-(2**63), 2**63 - 1, 0, None]),
    (pa.uint64(), [2**64 - 1, 0, None]),
    (pa.float32(), [0.5, -0.0, 0.0, 0.1, math.inf, None]),
    (pa.float64(), [0.5, -0.0, 0.0, 0.1, -math.inf, 2.0**70, None]),
    *((kind, ["JFK", "", "Zürich", None, "JFK"]) for kind in (pa.string(), pa.large_string())),
    *((kind, [b"ab", b"cd", None]) for kind in (pa.binary(), pa.large_binary(), pa.binary(2))),
    *((kind, [dt.date(1, 1, 1), dt.date(2024, 2, 29), None]) for kind in (pa.date32(), pa.date64())),
    *((kind, [dt.time(12, 30, 1), dt.time(0), None]) for kind in (pa.time32("s"), pa.time64("us"), pa.time64("ns"))),
    *((pa.timestamp(unit), [NOON.replace(microsecond=0), None]) for unit in ("s", "ms", "us", "ns")),
    *((pa.timestamp(unit, "Europe/Zurich"), [NOON.astimezone(dt.UTC), None]) for unit in ("ms", "us", "ns")),
    *((pa.duration(unit), [dt.timedelta(days=2), dt.timedelta(0), None]) for unit in ("s", "ms", "us", "ns")),
    (pa.decimal128(10, 2), [Decimal("1.50"), Decimal("0.10"), Decimal("7.00"), None]),
    (pa.decimal256(60, 30), [Decimal("1.5"), Decimal("1e-30"), None]),
    (pa.dictionary(pa.int8(), pa.string()), ["a", "b", None, "a"]),
    (pa.list_(pa.int32()), [[1, 2], [], None, [1, 2]]),
    (pa.struct([("a", pa.int32()), ("b", pa.string())]), [{"a": 1, "b": "x"}, {"a": None, "b": ""}, None]),
]


def subtasks_of(columns: list[pa.Array]) -> list[int]:
    """Return the subtask of each row, of as many subtasks as there are key groups."""
    names = [str(index) for index in range(len(columns))]
    routes = KeyRoutes(names, KeyGroups(MAX_PARALLELISM), MAX_PARALLELISM)
    return list(routes.subtasks(pa.record_batch(columns, names)).tolist())


def groups_of_objects(keys: list[Any]) -> list[int]:
    """Return the key groups of keys that are Python objects, as row operators find them."""
    groups = KeyGroups(MAX_PARALLELISM)
    return [groups[as_key(key)] for key in keys]


@pytest.mark.parametrize(
    ("kind", "values"), COLUMNS, ids=lambda part: str(part) if isinstance(part, pa.DataType) else ""
)
def test_a_row_has_the_group_of_the_same_python_key(kind: pa.DataType, values: list[Any]) -> None:
    """State that rows have written would be on another subtask than the columns that read it."""
    column = pa.array(values, kind)
    found = keys_of([column])
    assert subtasks_of([column]) == groups_of_objects(python_values(column))
    if not pa.types.is_float32(kind):
        assert subtasks_of([column]) == groups_of_objects(values)
    assert [found.keys[code] for code in found.codes] == python_values(column)


@pytest.mark.parametrize("rows", [1, 20, 200])
@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.list_(pa.float64())])
def test_exact_keys_are_those_of_rows(rows: int, kind: pa.DataType) -> None:
    """Of tables, whose floats are keys by their bits: of one column and several, many rows, few rows, and as lists."""
    floats: list[Any] = [0.0, -0.0, math.nan, 1.5, None] * rows
    column = pa.array([[one] for one in floats] if pa.types.is_list(kind) else floats, kind)
    numbers = pa.array(range(len(floats)))
    select = FieldKey(("f", "n"), exact=True)
    keys = [select({"f": f, "n": n}) for f, n in zip(python_values(column), python_values(numbers), strict=True)]
    groups = KeyGroups(MAX_PARALLELISM)
    for fields, expected in (
        (["f"], [groups[as_key(key[0])] for key in keys]),
        (["f", "n"], [groups[as_key(key)] for key in keys]),
    ):
        routes = KeyRoutes(fields, KeyGroups(MAX_PARALLELISM), MAX_PARALLELISM, exact=True)
        assert routes.subtasks(pa.record_batch([column, numbers], ["f", "n"])).tolist() == expected


@given(
    st.lists(
        st.tuples(
            st.none() | st.integers(-3, 3),
            st.none() | st.sampled_from(["a", "b", ""]),
            st.none() | st.floats(allow_nan=False, width=64),
            st.none() | st.decimals(-100, 100, places=2),
        )
    )
)
def test_a_key_of_several_columns_is_a_tuple(rows: list[tuple[Any, ...]]) -> None:
    """A key of two fields would find its state in one kind of operator only."""
    kinds = (pa.int64(), pa.string(), pa.float64(), pa.decimal128(10, 2))
    columns = [pa.array([row[index] for row in rows], kind) for index, kind in enumerate(kinds)]
    found = keys_of(columns)
    assert [found.keys[code] for code in found.codes] == rows
    assert subtasks_of(columns) == groups_of_objects(rows)


def test_many_columns_of_many_values_do_not_overflow() -> None:
    """Keys would be mixed up once the product of the numbers of distinct values exceeds 64 bits."""
    columns = [pa.array([(row * (7 + index)) % 1000 for row in range(1000)]) for index in range(9)]
    found = keys_of(columns)
    expected = list(zip(*(column.to_pylist() for column in columns), strict=True))
    assert [found.keys[code] for code in found.codes] == expected


def test_a_slice_has_only_its_own_keys() -> None:
    """Each of many small pieces of a batch would cost as much as the batch."""
    column = pa.array([f"key {number}" for number in range(1000)]).slice(10, 3)
    assert keys_of([column]).keys == ["key 10", "key 11", "key 12"]


def test_nan_is_not_a_key() -> None:
    """Its state would never be found again."""
    with pytest.raises(KeyTypeError, match="NaN cannot be a key"):
        subtasks_of([pa.array([1.0, math.nan])])


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-70_000, 70_000), min_size=65))
def test_many_integers_have_the_groups_of_each(keys: list[int]) -> None:
    """Large batches compute groups by arrays: a key would move when a batch has more rows."""
    assert subtasks_of([pa.array(keys, pa.int64())]) == groups_of_objects(keys)


def test_integers_around_each_number_of_bytes_have_their_groups() -> None:
    """The encoding has as many bytes as the number needs, so each of them is a case of its own."""
    keys = [sign * ((1 << bits) + more) for bits in range(63) for more in (-1, 0, 1) for sign in (1, -1)]
    keys += [-(1 << 63), (1 << 63) - 1]
    assert subtasks_of([pa.array(keys, pa.int64())]) == groups_of_objects(keys)


@pytest.mark.parametrize("parts", [2, 3])
def test_many_tuples_of_integers_have_the_groups_of_each(parts: int) -> None:
    """Groups of keys of several integers are computed by arrays, too: negative ones, and any number of bytes."""
    numbers = [sign * ((1 << bits) + more) for bits in range(63) for more in (-1, 0, 1) for sign in (1, -1)]
    numbers += [-(1 << 63), (1 << 63) - 1]
    columns = [numbers[part * 5 :] + numbers[: part * 5] for part in range(parts)]
    arrays = [pa.array(column, pa.int64()) for column in columns]
    assert subtasks_of(arrays) == groups_of_objects(list(zip(*columns, strict=True)))
