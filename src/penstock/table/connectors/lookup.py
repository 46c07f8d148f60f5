"""Tables that are looked up: the rows that have the values of a key, asked for when a row of a stream needs them.

class Cities(TableConnector):
    def lookup(self, request): return MyLookup(request.keys, request.columns)

A `TableLookup` gets the distinct keys of a batch at once, none of them with NULL, and returns their rows. What the
planner could not push into it (conditions, computed columns) the join does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy
import pyarrow

from penstock.common.config_options import option
from penstock.common.config_values import BooleanType, DurationType, EnumType, IntegerType
from penstock.engine.state.arrays.row_keys import Integers
from penstock.table.connectors.reloads import RELOAD_OPTIONS, Reloads, reloads_of
from penstock.table.connectors.table_options import TableOptions
from penstock.table.operators.table_columns import TableColumns
from penstock.table.planner.nodes.tables import ContextResolvedTable


@dataclass(frozen=True)
class LookupRequest:
    """A table to look up.

    `keys`: the columns whose values are given, each to be equal, in the order in which they come. `columns`: what is to
    be returned of each row; they need not have the keys. `metadata`: which of these are metadata, by the connector's
    keys, with the name of the column.
    """

    table: ContextResolvedTable
    keys: TableColumns
    columns: TableColumns
    metadata: Mapping[str, str]
    zone: str = "UTC"

    @property
    def options(self) -> Mapping[str, str]:
        """The options of the table."""
        return self.table.resolved.options


class Found(NamedTuple):
    """Rows that were looked up. `places`: for each row the position of its key in the batch of keys, from 0 on."""

    places: Integers
    rows: pyarrow.RecordBatch


class CacheOptions(NamedTuple):
    """How long what was found is kept in each task, by key. None: without a limit.

    `max_rows`: the most keys; `cache_missing_key`: whether a key without rows is kept as well.
    """

    max_rows: int | None = None
    expire_after_access_ms: int | None = None
    expire_after_write_ms: int | None = None
    cache_missing_key: bool = True


class TableLookup(ABC):
    """Looks rows up. Pickled into tasks, where it is opened. It may block: checkpoints wait meanwhile."""

    cache: CacheOptions | Reloads | None = None
    """Whether what was found is kept, or all rows. See `cache_of`."""

    def open(self) -> None:
        """Connect. Called once in each task, before the first call of `find`."""

    def close(self) -> None:
        """Disconnect."""

    @abstractmethod
    def find(self, keys: pyarrow.RecordBatch) -> Found:
        """Return the rows that have these keys, with the columns of the request.

        The keys are distinct, none has NULL. The rows of one key are in the connector's order, which is to be the same
        for each call. An exception fails the job.
        """

    def look_up(self, keys: pyarrow.RecordBatch) -> Found:
        """Return what `find` does, in the order of the keys. Raises ValueError for rows without the place of a key."""
        places, rows = self.find(keys)
        places = numpy.asarray(places, numpy.int64)
        if len(places) != rows.num_rows or (len(places) and not 0 <= places.min() <= places.max() < keys.num_rows):
            raise ValueError(
                f"{type(self).__name__}.find returned {rows.num_rows} rows and the places {str(places)[:100]}: each "
                f"row needs the position of its key, from 0 to {keys.num_rows - 1}"
            )
        if (places[1:] < places[:-1]).any():
            order = numpy.argsort(places, kind="stable")
            places, rows = places[order], rows.take(pyarrow.array(order))
        return Found(places, rows)

    def load(self) -> tuple[pyarrow.RecordBatch, pyarrow.RecordBatch]:
        """Return the keys and the columns of all rows of the table: for `lookup.cache` = FULL, where it is offered."""
        raise NotImplementedError(f"{type(self).__name__} can't load all rows")


class CacheKind(Enum):
    """Which rows of a table are kept: none, those that were looked up, or all."""

    NONE = "NONE"
    PARTIAL = "PARTIAL"
    FULL = "FULL"


_CACHE = option("lookup.cache", EnumType(CacheKind), CacheKind.NONE)
_MAX_ROWS = option("lookup.partial-cache.max-rows", IntegerType(), None)
_AFTER_ACCESS = option("lookup.partial-cache.expire-after-access", DurationType(), None)
_AFTER_WRITE = option("lookup.partial-cache.expire-after-write", DurationType(), None)
_MISSING_KEY = option("lookup.partial-cache.cache-missing-key", BooleanType(), True)
CACHE_OPTIONS = (_CACHE, _MAX_ROWS, _AFTER_ACCESS, _AFTER_WRITE, _MISSING_KEY, *RELOAD_OPTIONS)
"""Options of connectors whose lookups can be cached. Source: Flink's LookupOptions."""


def cache_of(options: TableOptions, *, loads: bool = False) -> CacheOptions | Reloads | None:
    """Return the cache that a table's options ask for. `loads`: whether its lookup defines `load`.

    Raises SqlError for one that is not supported.
    """
    kind = options.get(_CACHE)
    if kind is CacheKind.NONE:
        return None
    if kind is CacheKind.FULL:
        if not loads:
            raise options.error("'lookup.cache' = 'FULL' is not supported by this connector: use 'PARTIAL'")
        return reloads_of(options)
    return CacheOptions(
        options.get(_MAX_ROWS), options.get(_AFTER_ACCESS), options.get(_AFTER_WRITE), options.get(_MISSING_KEY)
    )
