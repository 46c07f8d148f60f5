"""All rows of a table that is looked up, kept in each task and loaded again from time to time.

Source: Flink docs, "Versioned Tables" and LookupOptions: `lookup.cache` = FULL. Flink loads in another thread and looks
rows up in the old ones meanwhile; here a task waits, so that no row finds what is older than the options allow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy
import pyarrow

from penstock.common.columns.to_values import python_values
from penstock.common.values.exact_floats import exact

if TYPE_CHECKING:
    from penstock.table.connectors.lookup import Found, TableLookup
    from penstock.table.connectors.reloads import Reloads


class FullLookupCache:
    """Looks rows up among all that the table had when it was loaded."""

    def __init__(self, source: TableLookup, reloads: Reloads, now_ms: Callable[[], int]) -> None:
        self._source = source
        self._reloads = reloads
        self._now_ms = now_ms
        self._due_ms: float | None = None
        """When rows are loaded again; None: they have not been loaded."""

    def __call__(self, keys: pyarrow.RecordBatch) -> Found:
        """Return the rows that have these keys."""
        from penstock.table.connectors.lookup import Found

        if self._due_ms is None or self._now_ms() >= self._due_ms:
            self._load()
        asked = map(exact, zip(*map(python_values, keys.columns), strict=True))
        numbers = [self._numbers.get(key, ()) for key in asked]
        places = numpy.repeat(numpy.arange(len(numbers)), [len(some) for some in numbers])
        rows = numpy.array([number for some in numbers for number in some], numpy.int64)
        return Found(places, self._rows.take(pyarrow.array(rows)))

    def _load(self) -> None:
        began_ms = self._now_ms()
        keys, self._rows = self._source.load()
        found: dict[tuple[Any, ...], list[int]] = defaultdict(list)
        for number, key in enumerate(map(exact, zip(*map(python_values, keys.columns), strict=True))):
            if None not in key:
                found[key].append(number)
        self._numbers = dict(found)
        self._due_ms = self._reloads.next_ms(self._due_ms, began_ms, self._now_ms())
