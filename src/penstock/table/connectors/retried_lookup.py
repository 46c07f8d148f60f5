"""Lookups that are repeated for keys without a row: the hint LOOKUP of a query. Source: Flink docs, "Hints"."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy
import pyarrow

from penstock.table.connectors.lookup import Found, TableLookup


class RetriedLookup(TableLookup):
    """Looks up missing keys up to `attempts` times more, each after `delay_ms`, in which the task waits, as in Flink.

    `sleep`: waits (s).
    """

    def __init__(
        self, source: TableLookup, *, attempts: int, delay_ms: int, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._source = source
        self._attempts = attempts
        self._delay_ms = delay_ms
        self._sleep = sleep
        self.cache = source.cache

    def open(self) -> None:
        """Connect."""
        self._source.open()

    def close(self) -> None:
        """Disconnect."""
        self._source.close()

    def load(self) -> tuple[pyarrow.RecordBatch, pyarrow.RecordBatch]:
        """Return all rows: keys without a row are not asked for again, as they are not in the table."""
        return self._source.load()

    def find(self, keys: pyarrow.RecordBatch) -> Found:
        """Return the rows that have these keys."""
        found = [self._source.look_up(keys)]
        for _ in range(self._attempts):
            have_rows = numpy.concatenate([places for places, _ in found])
            missing = numpy.setdiff1d(numpy.arange(keys.num_rows), have_rows)
            if not len(missing):
                break
            self._sleep(self._delay_ms / 1000)
            places, rows = self._source.look_up(keys.take(pyarrow.array(missing)))
            found.append(Found(missing[places], rows))
        if len(found) == 1:
            return found[0]
        places = numpy.concatenate([of for of, _ in found])
        order = numpy.argsort(places, kind="stable")
        rows = pyarrow.concat_batches([rows for _, rows in found])
        return Found(places[order], rows.take(pyarrow.array(order)))
