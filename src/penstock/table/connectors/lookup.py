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
from typing import NamedTuple

import pyarrow

from penstock.engine.state.arrays.row_keys import Integers
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
        assert self.table.resolved_table is not None
        return self.table.resolved_table.options


class Found(NamedTuple):
    """Rows that were looked up. `places`: for each row the position of its key in the batch of keys, ascending."""

    places: Integers
    rows: pyarrow.RecordBatch


class TableLookup(ABC):
    """Looks rows up. Pickled into tasks, where it is opened. It may block: checkpoints wait meanwhile."""

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
