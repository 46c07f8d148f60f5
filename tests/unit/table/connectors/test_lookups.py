"""What a connector returns for keys: in any order, and each row with the position of its key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy
import pyarrow
import pytest

from penstock.table.connectors.lookup import CacheOptions, Found, TableLookup
from penstock.table.connectors.retried_lookup import RetriedLookup
from penstock.table.operators.joins.lookup_cache import cached

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
