"""What a connector returns for keys: in any order, and each row with the position of its key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import pyarrow
import pytest

from penstock.table.connectors.lookup import CacheOptions, Found, TableLookup
from penstock.table.connectors.retried_lookup import RetriedLookup
from penstock.table.operators.joins.lookup_cache import LookupCache, cached

KEYS = pyarrow.record_batch([pyarrow.array([10, 20, 30])], names=["k"])


class Rows(TableLookup):
    """Returns these places with a row for each."""

    def __init__(self, places: Sequence[int], names: Sequence[str] = "abc") -> None:
        self.places = places
        self.names = names

    def find(self, keys: pyarrow.RecordBatch) -> Found:
        return Found(numpy.array(self.places), pyarrow.record_batch([pyarrow.array([*self.names])], names=["name"]))


@pytest.mark.parametrize("cache", [None, CacheOptions()])
@pytest.mark.parametrize("attempts", [0, 1])
def test_rows_in_the_order_of_a_database_are_those_of_their_keys(cache: CacheOptions | None, attempts: int) -> None:
    """A key would get the rows of another one."""
    source: TableLookup = Rows([2, 0, 2, 1], "abcd")
    if attempts:
        source = RetriedLookup(source, attempts=attempts, delay_ms=0)
    source.cache = cache
    places, rows = cached(source, lambda: 0)(KEYS)
    assert [*zip(places.tolist(), rows.column("name").to_pylist(), strict=True)] == [
        (0, "b"), (1, "d"), (2, "a"), (2, "c")
    ]  # fmt: skip


@pytest.mark.parametrize("places", [[0, 1], [0, 1, 3], [-1, 0, 1]])
def test_a_row_without_a_key_is_named(places: list[int]) -> None:
    """Rows would be lost, or the error would be NumPy's."""
    with pytest.raises(ValueError, match=r"Rows\.find returned 3 rows and the places .*: each row needs the position"):
        cached(Rows(places), lambda: 0)(KEYS)


class Asked(TableLookup):
    """Knows all keys below 100, and what it was asked for."""

    def __init__(self, **options: Any) -> None:
        self.cache = CacheOptions(**options)
        self.asked: list[int] = []
        self.now_ms = 0
        self._cached = cached(self, lambda: self.now_ms)

    def find(self, keys: pyarrow.RecordBatch) -> Found:
        values = keys.column("k").to_pylist()
        self.asked += values
        places = [place for place, value in enumerate(values) if value < 100]
        names = pyarrow.array([f"{values[place]} at {self.now_ms}" for place in places], pyarrow.string())
        return Found(numpy.array(places, numpy.int64), pyarrow.record_batch([names], names=["name"]))

    def at(self, now_ms: int, *keys: int) -> tuple[list[int], list[str]]:
        """Look keys up at a time. Return those that were asked for, and the rows."""
        self.now_ms, self.asked = now_ms, []
        rows = self._cached(pyarrow.record_batch([pyarrow.array(keys)], names=["k"])).rows
        return self.asked, rows.column("name").to_pylist()


def test_rows_expire_after_they_were_written() -> None:
    """A change of the table would be seen never, or a time later than the user has set."""
    one = Asked(expire_after_write_ms=10)
    assert one.at(0, 1, 2) == ([1, 2], ["1 at 0", "2 at 0"])
    assert one.at(5, 1, 3) == ([3], ["1 at 0", "3 at 5"])
    assert one.at(9, 1) == ([], ["1 at 0"])
    assert one.at(10, 1, 3) == ([1], ["1 at 10", "3 at 5"])


def test_rows_expire_after_they_were_read() -> None:
    """Keys that nobody asks for would stay, and those that are used be asked for again."""
    one = Asked(expire_after_access_ms=10)
    one.at(0, 1, 2)
    assert one.at(9, 1) == ([], ["1 at 0"])
    assert one.at(18, 1, 2) == ([2], ["1 at 0", "2 at 18"])


@pytest.mark.parametrize("keeps", [True, False])
def test_a_key_without_rows(keeps: bool) -> None:
    """The database would be asked for it again and again, or a row that comes later never be seen."""
    one = Asked(cache_missing_key=keeps)
    assert one.at(0, 100, 1) == ([100, 1], ["1 at 0"])
    assert one.at(1, 100, 1) == ([] if keeps else [100], ["1 at 0"])


def test_the_key_that_was_read_least_recently_goes() -> None:
    """Memory would grow with the keys, or the most frequent ones be asked for each time."""
    one = Asked(max_rows=2)
    one.at(0, 1, 2)
    one.at(1, 1)
    assert one.at(2, 3) == ([3], ["3 at 2"])
    assert one.at(3, 1, 3) == ([], ["1 at 0", "3 at 2"])
    assert one.at(4, 2) == ([2], ["2 at 4"])


def test_keys_that_nobody_asks_for_again_are_forgotten() -> None:
    """Without `max_rows` each key that was ever asked for would stay in memory, long after it has expired."""
    for options in ({"expire_after_write_ms": 10}, {"expire_after_access_ms": 10}):
        one = Asked(**options)
        cache = LookupCache(one, one.cache, lambda one=one: one.now_ms)
        for now_ms in range(1, 200):
            one.now_ms = now_ms
            cache(pyarrow.record_batch([pyarrow.array([now_ms, 0])], names=["k"]))
        assert len(cache) <= 11, options


class Long(TableLookup):
    """Has a row of a kilobyte for each key."""

    def find(self, keys: pyarrow.RecordBatch) -> Found:
        rows = pyarrow.record_batch([pyarrow.array(["x" * 1000] * keys.num_rows)], names=["name"])
        return Found(numpy.arange(keys.num_rows), rows)


def test_rows_that_are_kept_hold_no_others_in_memory() -> None:
    """A key that is asked for all the time would hold all rows that were looked up with it."""
    cache = LookupCache(Long(), CacheOptions(max_rows=600), lambda: 0)
    before = pyarrow.total_allocated_bytes()
    hot: list[int] = []
    for first in range(0, 20_000, 500):
        hot.append(first)
        cache(pyarrow.record_batch([pyarrow.array([*range(first + 1, first + 500), *hot])], names=["k"]))
    assert len(cache) == 600
    assert pyarrow.total_allocated_bytes() - before < 8_000_000
    found = cache(pyarrow.record_batch([pyarrow.array(hot)], names=["k"]))
    assert found.places.tolist() == list(range(40)) and found.rows.num_rows == 40
