"""Regular joins: every row of one input is paired with all rows of the other one that came before, and are not gone.

INNER, LEFT, RIGHT, FULL, SEMI and ANTI, over changelogs. Source: Flink's StreamingJoinOperator and
StreamingSemiAntiJoinOperator, whose changes and kinds these are, in their order.

The rows of a chunk are of one input, so the other one stays as it is: all pairs of a chunk, or of a piece of one whose
rows have many partners, are found, and tested by the condition, at once. Only the number of matches of a row of the
other side changes within a chunk; it is a running sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy
import pyarrow

from penstock.api.timers import TimeDomain
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.state.arrays.keyed_rows import KeyedRows
from penstock.engine.state.arrays.row_keys import Integers, Mask, RowKeys
from penstock.table.operators.changelog import DELETE, INSERT, are_added, changes_of, kinds_of
from penstock.table.operators.gathered_columns import emit_gathered
from penstock.table.operators.joins.join_side import JoinSide
from penstock.table.operators.joins.join_types import ANTI, FULL, LEFT, RIGHT, SEMI
from penstock.table.operators.joins.joined_inputs import JoinInput
from penstock.table.operators.joins.joined_sides import JoinedSides
from penstock.table.operators.joins.padded_rows import NONE
from penstock.table.operators.keyed.table_keys import selector_of
from penstock.table.operators.rows.row_expressions import RowExpressions
from penstock.table.operators.table_columns import TableColumns

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext

_PAIRS_MAX = 1 << 20
"""Pairs that are found and tested at once. A single row may have more."""


class _Pairs(NamedTuple):
    """Pairs of a chunk, as rows of the chunk and numbers of rows of the other side.

    For each row of the chunk, how many pairs it has, its kind, and whether it comes.
    """

    rows: Integers
    numbers: Integers
    counts: Integers
    kinds: Any
    added: Mask


class _Changes:
    """Changes of a chunk: of pairs of rows, either of which may be absent. They are put in order at the end."""

    def __init__(self) -> None:
        self.parts: list[tuple[Integers, int, Integers, Integers, Any]] = []

    def add(self, rows: Integers, phase: int, own: Integers, other: Integers, kinds: Any) -> None:
        """Add changes. `rows`: which row of the chunk causes each; `phase`: their order among those of one row."""
        if len(rows):
            kinds = numpy.broadcast_to(numpy.asarray(kinds, numpy.uint8), rows.shape)
            self.parts.append((rows, phase, own, other, kinds))

    def ordered(self) -> tuple[Integers, Integers, Any] | None:
        """Return the own row, the other row and the kind of each change; None if there is none."""
        if not self.parts:
            return None
        rows = numpy.concatenate([part[0] for part in self.parts])
        phases = numpy.concatenate([numpy.full(len(part[0]), part[1]) for part in self.parts])
        order = numpy.lexsort((phases, rows))
        own, other, kinds = (numpy.concatenate([part[at] for part in self.parts])[order] for at in (2, 3, 4))
        return own, other, kinds


class JoinOperator(JoinedSides):
    """Joins two inputs. `condition`: over the columns of both; None: equal keys suffice."""

    side_tables = "(join) left", "(join) right"
    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(
        self,
        name: str,
        join_type: str,
        inputs: tuple[JoinInput, JoinInput],
        condition: RowExpressions | None,
        *,
        given: TableColumns,
    ) -> None:
        super().__init__(name, selector_of(inputs[0].keys))
        self._type = join_type
        self._outer = (join_type in (LEFT, FULL), join_type in (RIGHT, FULL))
        self._is_half = join_type in (SEMI, ANTI)
        self.join_inputs(inputs, condition, given)

    def new_side(self, one: JoinInput, stored: KeyedRows) -> JoinSide:
        return JoinSide(one.columns, one.unique, ttl_ms=one.ttl_ms, now_ms=self.context.now_ms, stored=stored)

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._found: list[Columns] = []

    def process_input(self, chunk: Columns, index: int) -> bool:
        return self.do(self._join(chunk, index), None)

    def fire_until(self, domain: TimeDomain, until: int) -> Iterator[None]:
        # Time does not matter.
        yield from ()

    def _join(self, chunk: Columns, index: int) -> Iterator[None]:
        for changes in self.joined_pieces(chunk, index, self._changes, what="join"):
            self._found.append(changes)
            yield

    def _emit_results(self) -> bool:
        return emit_gathered(self.output, self._found)

    def _changes(self, chunk: Columns, index: int, keys: RowKeys, slots: Integers) -> Columns | None:
        mine, other = self._sides[index], self._sides[1 - index]
        kinds, added = kinds_of(chunk), are_added(chunk)
        can_match = self._of_inputs[index].can_match(chunk.batch)
        rows, numbers = self._pairs(chunk, index, slots)
        counts = numpy.bincount(rows, minlength=len(chunk))
        found = _Changes()
        add_changes = self._half_changes if self._is_half else self._pair_changes
        add_changes(found, index, _Pairs(rows, numbers, counts, kinds=kinds, added=added))
        if self._counts_matches(1 - index) and len(rows):
            other.add_matches(numbers, numpy.where(added[rows], 1, -1))
        if can_match.all():
            mine.change(keys, chunk.batch, added, counts)
        elif can_match.any():
            kept = numpy.flatnonzero(can_match)
            mine.change(keys.at(kept), chunk.batch.take(pyarrow.array(kept)), added[kept], counts[kept])
        ordered = found.ordered()
        return None if ordered is None else self._columns_of(chunk, index, *ordered)

    def _counts_matches(self, index: int) -> bool:
        return self._outer[index] or (self._is_half and index == 0)

    def _pair_changes(self, found: _Changes, index: int, pairs: _Pairs) -> None:
        rows, numbers, counts, kinds, added = pairs
        is_outer, other_is_outer = self._outer[index], self._outer[1 - index]
        pair_kinds = kinds[rows]
        if is_outer or other_is_outer:
            is_added = added[rows]
            pair_kinds = numpy.where(is_added, INSERT, DELETE if is_outer else pair_kinds).astype(numpy.uint8)
        found.add(rows, 1, own=rows, other=numbers, kinds=pair_kinds)
        if other_is_outer and len(rows):
            starts, ends = self._first_and_last(1 - index, rows, numbers, added)
            found.add(rows[starts], 0, own=numpy.full(len(starts), NONE), other=numbers[starts], kinds=DELETE)
            found.add(rows[ends], 2, own=numpy.full(len(ends), NONE), other=numbers[ends], kinds=INSERT)
        if is_outer:
            alone = numpy.flatnonzero(counts == 0)
            padded = numpy.where(added[alone], INSERT, DELETE)
            found.add(alone, 1, own=alone, other=numpy.full(len(alone), NONE), kinds=padded)

    def _half_changes(self, found: _Changes, index: int, pairs: _Pairs) -> None:
        rows, numbers, counts, kinds, added = pairs
        if index == 0:
            chosen = numpy.flatnonzero((counts > 0) == (self._type == SEMI))
            found.add(chosen, 1, own=chosen, other=numpy.full(len(chosen), NONE), kinds=kinds[chosen])
            return
        starts, ends = self._first_and_last(0, rows, numbers, added)
        is_semi = self._type == SEMI
        no_row = numpy.full(len(rows), NONE)
        found.add(
            rows[starts],
            1,
            own=no_row[starts],
            other=numbers[starts],
            kinds=kinds[rows[starts]] if is_semi else DELETE,
        )
        found.add(rows[ends], 1, own=no_row[ends], other=numbers[ends], kinds=kinds[rows[ends]] if is_semi else INSERT)

    def _first_and_last(self, index: int, rows: Integers, numbers: Integers, added: Mask) -> tuple[Integers, Integers]:
        """Return the pairs that are the first match of a row of this input, and those that were its last."""
        is_added = added[rows]
        if not len(rows):
            return rows, rows
        signs = numpy.where(is_added, 1, -1)
        runs = Runs(numbers)
        after = runs.by_row(runs.sums(signs[runs.order])) + self._sides[index].matches[numbers]
        return numpy.flatnonzero(is_added & (after == 1)), numpy.flatnonzero(~is_added & (after == 0))

    def _pairs(self, chunk: Columns, index: int, slots: Integers) -> tuple[Integers, Integers]:
        """Return the pairs that satisfy the condition: positions in the chunk, and numbers of rows of the other side.

        In the order of the chunk, then of arrival.
        """
        rows, numbers = self._sides[1 - index].listed(slots)
        if self._condition is None or not len(rows):
            return rows, numbers
        kept = [
            self.pairs_hold(chunk.batch, index, rows[start : start + _PAIRS_MAX], numbers[start : start + _PAIRS_MAX])
            for start in range(0, len(rows), _PAIRS_MAX)
        ]
        holds = numpy.concatenate(kept)
        return rows[holds], numbers[holds]

    def _columns_of(self, chunk: Columns, index: int, own: Integers, other: Integers, kinds: Any) -> Columns:
        """Return changes as columns."""
        mine, theirs = self.columns_of_pairs(chunk.batch, index, own, other)
        if self._is_half:
            columns = mine if index == 0 else theirs
        else:
            columns = self.in_order(index, mine, theirs)
        batch = pyarrow.RecordBatch.from_arrays(columns, schema=self._given.schema)
        return changes_of(batch, kinds)
