"""LookupJoin: each row with the rows that a table's connector has for its keys, at that time.

The distinct keys of a chunk are looked up at once. Source: Flink's LookupJoinRunner and LookupJoinWithCalcRunner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy
import pyarrow

from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.keys import keys_of
from penstock.engine.runtime.columns.slot_lists import spans
from penstock.engine.state.arrays.row_keys import Mask
from penstock.table.operators.joins.lookup_cache import cached
from penstock.table.operators.joins.pairing import PairingOperator, Partners
from penstock.table.operators.rows.row_expressions import RowExpressions, close_all, open_all
from penstock.table.operators.table_columns import TableColumns, batch_of_columns

if TYPE_CHECKING:
    from penstock.table.connectors.lookup import TableLookup


class Lookup(NamedTuple):
    """How rows are looked up.

    `keys`: the values of the keys, over the columns of the input, whose columns are `key_columns`. `before`: which rows
    of the input are looked up at all. Of the rows that are found those that satisfy `condition` stay, and `projection`
    makes their columns, if there is one: `columns`.
    """

    source: TableLookup
    keys: RowExpressions
    key_columns: TableColumns
    columns: TableColumns
    before: RowExpressions | None = None
    condition: RowExpressions | None = None
    projection: RowExpressions | None = None

    @property
    def expressions(self) -> tuple[RowExpressions | None, ...]:
        """All expressions of the lookup."""
        return self.keys, self.before, self.condition, self.projection


class LookupJoinOperator(PairingOperator):
    """Rows keep their kinds: what is looked up is not remembered."""

    def __init__(
        self,
        name: str,
        lookup: Lookup,
        *,
        is_left: bool,
        condition: RowExpressions | None,
        received: TableColumns,
        given: TableColumns,
    ) -> None:
        super().__init__(name, is_left=is_left, condition=condition, what="lookup", received=received, given=given)
        self._lookup = lookup

    def open(self) -> None:
        super().open()
        open_all(self.context, *self._lookup.expressions)
        self._lookup.source.open()
        self._find = cached(self._lookup.source, self.context.now_ms)

    def close(self) -> None:
        self._lookup.source.close()
        close_all(*self._lookup.expressions)
        super().close()

    def partners(self, chunk: Columns) -> Partners:
        asked = numpy.flatnonzero(self._asked(chunk))
        keys = self._keys(chunk, asked)
        valid = numpy.ones(len(asked), numpy.bool_)
        for column in keys.columns:
            if column.null_count:
                valid &= column.is_valid().to_numpy(zero_copy_only=False)
        if not valid.all():
            asked, keys = asked[valid], keys.filter(pyarrow.array(valid))
        if not len(asked):
            return Partners(asked, self._lookup.columns.no_rows())
        codes, firsts = _distinct(keys)
        places, rows = self._calculated(Partners(*self._find(keys.take(pyarrow.array(firsts)))))
        counts = numpy.bincount(places, minlength=len(firsts))
        starts = numpy.cumsum(counts) - counts
        numbers = spans(starts[codes], counts[codes])
        return Partners(numpy.repeat(asked, counts[codes]), rows.take(pyarrow.array(numbers)))

    def _asked(self, chunk: Columns) -> Mask:
        found: Mask = numpy.ones(len(chunk), numpy.bool_)
        if self._lookup.before is not None:
            mask = self._lookup.before.mask(chunk.batch.columns, len(chunk), **self._now())
            if mask is not None:
                found = mask.to_numpy(zero_copy_only=False)
        return found

    def _keys(self, chunk: Columns, asked: Any) -> pyarrow.RecordBatch:
        batch = chunk.batch if len(asked) == len(chunk) else chunk.batch.take(pyarrow.array(asked))
        columns = self._lookup.keys.evaluate(batch.columns, len(asked), **self._now())
        return batch_of_columns(columns, self._lookup.key_columns.schema, len(asked))

    def _calculated(self, found: Partners) -> Partners:
        """Return the rows that stay, with the columns that they have behind the lookup."""
        lookup, count = self._lookup, len(found.places)
        if lookup.condition is not None and count:
            found = found.where(lookup.condition.mask(found.rows.columns, count, **self._now()))
        if lookup.projection is None:
            return found
        columns = lookup.projection.evaluate(found.rows.columns, len(found.places), **self._now())
        return Partners(found.places, batch_of_columns(columns, lookup.columns.schema, len(found.places)))

    def _now(self) -> dict[str, Any]:
        return {"now_ms": self.context.now_ms(), "watermark_ms": None}


def _distinct(keys: pyarrow.RecordBatch) -> tuple[Any, Any]:
    """Return the number of each row's key, and the first row of each key."""
    codes = keys_of(keys.columns, exact=True).codes
    _, firsts, numbers = numpy.unique(codes, return_index=True, return_inverse=True)
    return numbers, firsts
