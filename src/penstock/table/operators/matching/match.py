"""MATCH_RECOGNIZE: rows of columns pass the automaton of a pattern; of each match, the parts that measures read.

The conditions on single rows and the measures are computed on columns, by operators in front and behind. Source: Flink
docs, "Pattern Recognition"; Flink's CommonExecMatch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.api.timers import TimeDomain
from penstock.cep.automaton import Automaton
from penstock.cep.operators.cep_operator import CepOperator
from penstock.cep.operators.match_calls import MatchCalls, PatternVersion
from penstock.common.columns.to_values import python_values
from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.shown_rows import ShownBatch
from penstock.engine.runtime.operators.operator import FunctionPlace
from penstock.table.operators.keyed.table_keys import keys_of_chunk, selector_of
from penstock.table.operators.keyed.waiting_rows import times_of
from penstock.table.operators.matching.match_conditions import RowCondition
from penstock.table.operators.matching.match_parts import MatchPart
from penstock.table.operators.ordering.sorting import SortColumn, key_maker
from penstock.table.operators.table_columns import TableColumns

if TYPE_CHECKING:
    from penstock.engine.runtime.task.context import OperatorContext


class MatchOperator(CepOperator):
    """Finds the matches of one pattern in the rows of each key.

    `keys`: the columns of the key. `time`: the column with event time; None: processing time. `first`: from which
    column on rows have what is read from them. `order_by`: how rows of equal time are ordered, by places in rows.
    """

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(
        self,
        automaton: Automaton[Any],
        parts: MatchParts,
        *,
        keys: Sequence[str],
        time: str | None,
        first: int,
        order_by: Sequence[SortColumn],
        received: TableColumns,
        given: TableColumns,
    ) -> None:
        super().__init__(
            "Match",
            selector_of(keys),
            automaton,
            parts,
            domain=TimeDomain.PROCESSING_TIME if time is None else TimeDomain.EVENT_TIME,
            comparator=RowOrder(order_by) if order_by else None,
        )
        self._keys = tuple(keys)
        self._time = time
        self._first = first
        self.columns_received = received
        self.columns_given = self._given = given
        self.copy_value = _same

    def process(self, chunk: Columns) -> bool:  # type: ignore[override]
        keys = keys_of_chunk(self, chunk, self._keys).to_list()
        times = None if self._time is None else times_of(chunk.batch, self._time).tolist()
        try:
            rows = list(zip(*map(python_values, chunk.batch.columns[self._first :]), strict=True))
        except RAISED as error:
            raise self.context.user_error(error, "MATCH_RECOGNIZE", ShownBatch(chunk.batch)) from error
        return self.arrived(keys, rows, times)

    def _emit_results(self) -> bool:
        if not self.results:
            return True
        results, self.results, self.result_times = self.results, [], []
        return self.output.emit(Columns(self._given.exact_batch(list(zip(*results, strict=True)))))


class MatchParts(MatchCalls):
    """Makes a tuple of each match: the values of its parts. `conditions`: those that may call functions of the user."""

    copy_event = None

    def __init__(self, parts: Sequence[MatchPart], conditions: Sequence[RowCondition]) -> None:
        self.timed_out = None
        self._parts = tuple(parts)
        self._conditions = tuple(conditions)

    def open(self, context: OperatorContext) -> None:
        for condition in self._conditions:
            condition.open(context)

    def close(self, context: OperatorContext) -> None:
        for condition in self._conditions:
            condition.close()

    def places(self) -> list[FunctionPlace]:
        return []

    def results_of_matches(
        self,
        matches: Sequence[Any],
        timestamp: int,
        *,
        key: Any,
        version: PatternVersion | None,
        copy: Callable[[Any], Any],
    ) -> list[Any]:
        return [tuple([part.of(match, timestamp) for part in self._parts]) for match in matches]


class RowOrder:
    """Compares rows of equal time by further columns of ORDER BY."""

    def __init__(self, order_by: Sequence[SortColumn]) -> None:
        self._order_by = tuple(order_by)
        self._key: Callable[[Sequence[Any]], Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_key": None}

    def __call__(self, first: Sequence[Any], second: Sequence[Any]) -> int:
        key = self._key or key_maker(self._order_by)
        self._key = key
        one, other = key(first), key(second)
        return -1 if one < other else 1 if other < one else 0


def _same(value: Any) -> Any:
    """Rows of matches are immutable."""
    return value
