"""The rows and versions that joins keep: found by their values, and at a cost that does not depend on what has gone."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy
import pyarrow
import pytest

from penstock.engine.state.arrays.keyed_rows import KeyedRows
from penstock.engine.state.arrays.row_keys import IntegerKeys
from penstock.engine.state.layers import LayeredTable
from penstock.table.operators.joins.join_side import JoinSide
from penstock.table.operators.joins.joined_inputs import pieces_of
from penstock.table.operators.joins.padded_rows import NONE
from penstock.table.operators.joins.version_rows import VersionRows
from penstock.table.operators.keyed.row_identity import place_of
from penstock.table.operators.table_columns import TableColumns

NUMBERS = pyarrow.schema([("k", pyarrow.int64()), ("f", pyarrow.float64())])


def change(side: JoinSide, rows: list[tuple[int, Any]], *, added: bool) -> None:
    """Add or retract rows."""
    keys, values = zip(*rows, strict=True)
    column = pyarrow.array(values, side.rows(numpy.zeros(0, numpy.int64)).schema.types[1])
    batch = pyarrow.record_batch([pyarrow.array(keys), column], names=["k", "f"])
    flags = numpy.full(len(rows), added)
    side.change(IntegerKeys(numpy.array(keys)), batch, flags, numpy.zeros(len(rows), numpy.int64))


def test_keys_are_found_after_most_rows_have_gone() -> None:
    """What is forgotten then is forgotten for all keys, also for those that have no row any more."""
    side, count = JoinSide(TableColumns(NUMBERS), None), 3000
    change(side, [(key, 1.0) for key in range(count)], added=True)
    change(side, [(key, 1.0) for key in range(1, count)], added=False)
    assert side.find(IntegerKeys(numpy.array([0, count - 1]))).places.tolist() == [0]


@pytest.mark.parametrize(
    ("kind", "value", "other"),
    [
        (pyarrow.float64(), math.nan, 1.0),
        (pyarrow.float64(), -0.0, 0.0),
        (pyarrow.list_(pyarrow.float64()), [math.nan, 1.0], [1.0, math.nan]),
        (pyarrow.list_(pyarrow.float64()), [0.0], [-0.0]),
    ],
)
def test_a_row_is_retracted_whose_values_have_the_same_bits(kind: pyarrow.DataType, value: Any, other: Any) -> None:
    """NaN is found again, though it does not equal itself, and 0.0 is not taken for -0.0, though they are equal."""
    side = JoinSide(TableColumns(pyarrow.schema([("k", pyarrow.int64()), ("f", kind)])), None)
    change(side, [(1, other), (1, value)], added=True)
    change(side, [(1, value)], added=False)
    assert repr(side.rows(side.numbers()).column(1).to_pylist()) == repr([other])


def test_a_row_of_python_is_found_by_what_it_shows() -> None:
    """A NaN in a list is another object after each conversion."""
    rows = [(1, [float("nan")]), (2, float("nan")), (2, None)]
    assert [place_of(rows, (2, math.nan)), place_of(rows, (1, [math.nan])), place_of(rows, (1, math.nan))] == [
        1,
        0,
        None,
    ]


def test_zeros_of_both_signs_are_other_rows() -> None:
    """One would go when the other is taken back."""
    rows = [(1, -0.0), (1, 0.0), (1, [0.0]), (1, [-0.0]), 0.0, -0.0]
    assert [place_of(rows, row) for row in [(1, 0.0), (1, -0.0), (1, [-0.0]), (1, [0.0]), -0.0, 0.0]] == [
        1,
        0,
        3,
        2,
        5,
        4,
    ]


def test_a_key_does_not_pay_for_rows_that_have_gone() -> None:
    """A row that is replaced again and again would otherwise be looked for among all the former ones."""
    side = JoinSide(TableColumns(NUMBERS), None)
    change(side, [(key, 1.0) for key in range(5000)], added=True)
    for number in range(400):
        change(side, [(7, float(number))], added=True)
        change(side, [(7, float(number))], added=False)
    slots = side.slots_of(IntegerKeys(numpy.array([7, 8, 9999])))
    hot, other, missing = side.candidates(slots).tolist()
    assert (hot < 50, other, missing) == (True, 1, 0)
    assert len(side.listed(slots).items) == 2


def test_rows_that_have_expired_are_not_found_and_rarely_looked_for() -> None:
    """Each chunk would look at all rows of a side, to find those that have expired since the last one."""
    now_ms = 10_000
    side = JoinSide(TableColumns(NUMBERS), None, ttl_ms=800, now_ms=lambda: now_ms)
    keys = IntegerKeys(numpy.arange(1000))
    change(side, [(key, 1.0) for key in range(1000)], added=True)
    now_ms += 790
    change(side, [(key, 2.0) for key in range(500)], added=True)
    assert len(side.find(keys).items) == 1500
    now_ms += 10
    assert len(side.find(keys).items) == 500
    assert len(side) == 1500, "all rows were looked at again"
    change(side, [(1, 1.0), (1, 2.0)], added=False)
    assert (len(side.find(keys).items), len(side)) == (499, 1499), "a row that has expired was taken back"
    rows = KeyedRows(TableColumns(NUMBERS), has_times=True)
    rows.restore(*zip(*side.stored.take_changes(), strict=True))
    rows.load(now_ms)
    restored = JoinSide(TableColumns(NUMBERS), None, ttl_ms=800, now_ms=lambda: now_ms, stored=rows)
    assert len(restored.find(keys).items) == 499
    now_ms += 100
    assert len(side.find(keys).items) == len(side) == 499


def test_pieces_have_few_candidates_and_all_rows() -> None:
    """A row of more candidates than a piece may have is a piece by itself."""
    candidates = numpy.array([0, 5, 1 << 20, 0, 1 << 16, 1 << 16, 1, 0])
    assert [(piece.start, piece.stop) for piece in pieces_of(candidates)] == [(0, 2), (2, 3), (3, 6), (6, 8)]
    assert list(pieces_of(numpy.zeros(0, numpy.int64))) == []


def versions_of(changes: list[tuple[int, int, bool]]) -> VersionRows:
    """Return versions of key, time, and whether there is a row."""
    found = VersionRows(TableColumns(NUMBERS), LayeredTable())
    keys, times, exist = (numpy.array(one) for one in zip(*changes, strict=True))
    batch = pyarrow.record_batch([pyarrow.array(keys), pyarrow.array(times.astype(float))], names=["k", "f"])
    found.add(IntegerKeys(keys), batch, times, exist)
    return found


def test_versions_are_those_of_their_key_and_time() -> None:
    """Of several versions of a time the last one counts; a deleted row is none."""
    found = versions_of([(1, 10, True), (2, 5, True), (1, 20, True), (1, 20, True), (2, 8, False), (3, 1, True)])
    asked = [(1, 9), (1, 10), (1, 25), (2, 7), (2, 8), (4, 9)]
    keys, times = (numpy.array(one) for one in zip(*asked, strict=True))
    assert found.at(IntegerKeys(keys), times).tolist() == [NONE, 0, 3, 1, NONE, NONE]


def test_keys_whose_versions_have_gone_are_forgotten() -> None:
    """A table whose keys are new ones again and again would fill the memory; what stays is found as before."""
    found, count, rounds = versions_of([(-1, 1, True), (-2, 1, True), (-2, 30, True)]), 100, 8
    for time in range(2, 2 + rounds):
        keys = numpy.arange(time * count, (time + 1) * count).repeat(2)
        batch = pyarrow.record_batch([pyarrow.array(keys), pyarrow.array(keys.astype(float))], names=["k", "f"])
        found.add(IntegerKeys(keys), batch, numpy.full(2 * count, time), numpy.arange(2 * count) % 2 == 0)
        found.forget(time)
        found.write_back()
    assert len(found._keys) < 4 * count
    numbers = found.at(IntegerKeys(numpy.array([-1, -2, -2, 700])), numpy.array([40, 20, 40, 40]))
    assert (numbers != NONE).tolist() == [True, True, True, False]
    assert found.rows(numbers[:3]).column(1).to_pylist() == [1.0, 1.0, 30.0]


def test_versions_that_are_not_due_are_not_put_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each watermark would look at the versions of all keys, of which a few have changed."""
    count, rounds = 3_000, 50
    found = versions_of([(key, 1, True) for key in range(count)])
    found.forget(1)
    ordered: list[int] = []
    lexsort = numpy.lexsort
    monkeypatch.setattr(numpy, "lexsort", lambda keys: ordered.append(len(keys[0])) or lexsort(keys))
    for time in range(2, 2 + rounds):
        key = numpy.array([time])
        batch = pyarrow.record_batch([pyarrow.array(key), pyarrow.array([float(time)])], names=["k", "f"])
        found.add(IntegerKeys(key), batch, key, numpy.array([True]))
        assert (found.at(IntegerKeys(key), key) != NONE).all()
        found.forget(time)
    assert len(ordered) == 2 * rounds
    assert max(ordered) <= 3


@pytest.mark.parametrize("seed", range(6))
def test_versions_are_found_whatever_was_forgotten(seed: int) -> None:
    """A version that a row asks for would be forgotten, or one be given that another one has replaced."""
    chance, table, all_versions = random.Random(seed), LayeredTable(), list[tuple[int, int, bool]]()
    found, until = VersionRows(TableColumns(NUMBERS), table), 0
    keys_max = 10 ** (1 + seed % 3)
    for _ in range(40):
        new = [
            (chance.randrange(keys_max), until + chance.randint(1, 90), chance.random() < 0.8)
            for _ in range(chance.choice([1, 5, 60]))
        ]
        keys, times, exist = (numpy.array(one) for one in zip(*new, strict=True))
        numbers = numpy.arange(len(all_versions), len(all_versions) + len(new)).astype(float)
        batch = pyarrow.record_batch([pyarrow.array(keys), pyarrow.array(numbers)], names=["k", "f"])
        found.add(IntegerKeys(keys), batch, times, exist)
        all_versions += new
        asked = [(chance.randrange(keys_max + 1), until + chance.randint(1, 90)) for _ in range(9)]
        keys, times = (numpy.array(one) for one in zip(*asked, strict=True))
        given = found.at(IntegerKeys(keys), times)
        there = given != NONE
        shown = given.copy()
        if there.any():
            shown[there] = found.rows(given[there]).column(1).to_numpy()
        assert shown.tolist() == [version_at(all_versions, key, time) for key, time in asked]
        until += chance.choice([0, 1, 40])
        found.forget(until)
        if chance.random() < 0.2:
            found.write_back()
            found = VersionRows(TableColumns(NUMBERS), table)
            found.load()


def version_at(versions: list[tuple[int, int, bool]], key: int, time: int) -> int:
    """Return the position of the version that counts, by looking at all."""
    of_key = [(at, place) for place, (of, at, _) in enumerate(versions) if of == key and at <= time]
    place = max(of_key)[1] if of_key else NONE
    return place if place == NONE or versions[place][2] else NONE
