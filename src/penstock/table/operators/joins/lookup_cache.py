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

_FEW = 1 << 12
"""Up to so many rows that are not kept any more stay in memory."""


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
        """In the order in which they were last read."""
        self._rows_kept = 0
        self._rows_held = 0
        """Those in memory: the rows of an entry are a part of what was looked up with them."""

    def __len__(self) -> int:
        """Return the number of keys that are kept."""
        return len(self._entries)

    def __call__(self, keys: pyarrow.RecordBatch) -> Found:
        """Return the rows that have these keys."""
        from penstock.table.connectors.lookup import Found

        now_ms = self._now_ms()
        values = [exact(key) for key in zip(*map(python_values, keys.columns), strict=True)]
        found = [self._kept(key, now_ms) for key in values]
        missing = numpy.array([place for place, rows in enumerate(found) if rows is None], numpy.int64)
        if len(missing):
            places, rows = self._source.look_up(keys.take(pyarrow.array(missing)))
            bounds = numpy.searchsorted(places, numpy.arange(len(missing) + 1)).tolist()
            self._rows_held += rows.num_rows
            for place, start, stop in zip(missing.tolist(), bounds, bounds[1:], strict=False):
                found[place] = part = rows.slice(start, stop - start)
                self._keep(values[place], part, now_ms)
            self._forget(now_ms)
        counts = [0 if rows is None else rows.num_rows for rows in found]
        places = numpy.repeat(numpy.arange(len(values)), counts)
        return Found(places, pyarrow.concat_batches([rows for rows in found if rows is not None]))

    def _kept(self, key: tuple[Any, ...], now_ms: int) -> pyarrow.RecordBatch | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        if self._has_expired(entry, now_ms):
            del self._entries[key]
            self._rows_kept -= entry.rows.num_rows
            return None
        entry.read_ms = now_ms
        self._entries.move_to_end(key)
        return entry.rows

    def _keep(self, key: tuple[Any, ...], rows: pyarrow.RecordBatch, now_ms: int) -> None:
        options = self._options
        if rows.num_rows or options.cache_missing_key:
            until_ms = float("inf") if options.expire_after_write_ms is None else now_ms + options.expire_after_write_ms
            self._entries[key] = _Entry(rows, until_ms, now_ms)
            self._rows_kept += rows.num_rows

    def _has_expired(self, entry: _Entry, now_ms: int) -> bool:
        idle_ms = self._options.expire_after_access_ms
        return now_ms >= entry.until_ms or (idle_ms is not None and now_ms - entry.read_ms >= idle_ms)

    def _forget(self, now_ms: int) -> None:
        """Forget entries that were not read for the longest time: those that have expired, and too many ones.

        No entry outlives its time by more than that since it was last read: all before it have expired then, too.
        """
        entries, most = self._entries, self._options.max_rows
        while entries:
            key, first = next(iter(entries.items()))
            if not self._has_expired(first, now_ms) and (most is None or len(entries) <= most):
                break
            del entries[key]
            self._rows_kept -= first.rows.num_rows
        if self._rows_held > 2 * self._rows_kept + _FEW:
            self._compact()

    def _compact(self) -> None:
        """Copy the rows that are kept: an entry would hold all rows that were looked up with its own."""
        if self._entries:
            together, start = pyarrow.concat_batches([entry.rows for entry in self._entries.values()]), 0
            for entry in self._entries.values():
                length = entry.rows.num_rows
                entry.rows, start = together.slice(start, length), start + length
        self._rows_held = self._rows_kept
