"""Rows that were looked up, kept by key for some time. Source: Flink's DefaultLookupCache."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy
import pyarrow

from penstock.common.columns.to_values import python_values
from penstock.common.values.exact_floats import exact
from penstock.table.operators.joins.full_lookup_cache import FullLookupCache

if TYPE_CHECKING:
    from penstock.table.connectors.lookup import CacheOptions, Found, TableLookup


def cached(source: TableLookup, now_ms: Callable[[], int]) -> Callable[[pyarrow.RecordBatch], Found]:
    """Return the lookup of keys with the cache that a source asks for."""
    from penstock.table.connectors.lookup import CacheOptions

    if source.cache is None:
        return source.look_up
    if isinstance(source.cache, CacheOptions):
        return LookupCache(source, source.cache, now_ms)
    return FullLookupCache(source, source.cache, now_ms)


class _Entry:
    """The rows of a key. `until_ms`: when it expires, whether it is read or not."""

    __slots__ = ("read_ms", "rows", "until_ms")

    def __init__(self, rows: pyarrow.RecordBatch, until_ms: float, read_ms: int) -> None:
        self.rows = rows
        self.until_ms = until_ms
        self.read_ms = read_ms


class LookupCache:
    """Looks up the keys that it has not kept. Of too many the one that was not read for the longest time is dropped."""

    def __init__(self, source: TableLookup, options: CacheOptions, now_ms: Callable[[], int]) -> None:
        self._source = source
        self._options = options
        self._now_ms = now_ms
        self._entries: OrderedDict[tuple[Any, ...], _Entry] = OrderedDict()

    def __call__(self, keys: pyarrow.RecordBatch) -> Found:
        """Return the rows that have these keys."""
        from penstock.table.connectors.lookup import Found

        now_ms, options = self._now_ms(), self._options
        values = [exact(key) for key in zip(*map(python_values, keys.columns), strict=True)]
        found = [self._kept(key, now_ms) for key in values]
        missing = numpy.array([place for place, rows in enumerate(found) if rows is None], numpy.int64)
        if len(missing):
            places, rows = self._source.look_up(keys.take(pyarrow.array(missing)))
            bounds = numpy.searchsorted(places, numpy.arange(len(missing) + 1)).tolist()
            until_ms = float("inf") if options.expire_after_write_ms is None else now_ms + options.expire_after_write_ms
            for place, start, stop in zip(missing.tolist(), bounds, bounds[1:], strict=False):
                found[place] = part = rows.slice(start, stop - start)
                if stop > start or options.cache_missing_key:
                    self._entries[values[place]] = _Entry(part, until_ms, now_ms)
            while options.max_rows is not None and len(self._entries) > options.max_rows:
                self._entries.popitem(last=False)
        counts = [0 if rows is None else rows.num_rows for rows in found]
        places = numpy.repeat(numpy.arange(len(values)), counts)
        return Found(places, pyarrow.concat_batches([rows for rows in found if rows is not None]))

    def _kept(self, key: tuple[Any, ...], now_ms: int) -> pyarrow.RecordBatch | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        idle_ms = self._options.expire_after_access_ms
        if now_ms >= entry.until_ms or (idle_ms is not None and now_ms - entry.read_ms >= idle_ms):
            del self._entries[key]
            return None
        entry.read_ms = now_ms
        self._entries.move_to_end(key)
        return entry.rows
