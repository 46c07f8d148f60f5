"""Top N: of each key the first rows by a field, as a changelog, of rows that are only inserted.

Rows with equal values are in the order of arrival. A row that enters a full top N removes the last one: DELETE of that,
then INSERT. With row numbers, each row behind it changes its number: UPDATE_BEFORE and UPDATE_AFTER for each number,
and INSERT for a number that is new. Source: Flink's AppendOnlyTopNFunction, whose order of changes this is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.api.state.ttl import StateTtlConfig
from penstock.common.functions.user_calls import RAISED
from penstock.common.types import RowKind, row_factory
from penstock.common.types.record_fields import fields_of
from penstock.engine.runtime.chunks import Rows, Values
from penstock.engine.runtime.operators.deduplicate import Change, check_insert
from penstock.engine.runtime.operators.expiring_values import ExpiringValues
from penstock.engine.runtime.operators.keyed import KeyedOperator

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext

TOP_ROWS_TABLE = "(top rows)"
"""key -> the fields of its top rows, the first one first."""
Fields = tuple[Any, ...]


class Ranking(NamedTuple):
    """The `limit` first rows by `field`.

    NaN is greater than all other numbers. `nulls_last`: by default None is the smallest, as in Flink. `row_number`: the
    name of a further field with the number of the row, from 1 on. `update_before`: whether the rows that changes of row
    numbers replace are emitted as well.
    """

    field: str
    limit: int
    ascending: bool = True
    nulls_last: bool | None = None
    row_number: str | None = None
    update_before: bool = True

    def comes_before(self, one: Any, other: Any) -> bool:
        """Return whether a value of the field is strictly before another one."""
        if one is None or other is None:
            nulls_last = not self.ascending if self.nulls_last is None else self.nulls_last
            return one is not other and (one is None) is not nulls_last
        first, second = (one != one, one), (other != other, other)
        return first < second if self.ascending else first > second

    def place_of(self, value: Any, values: Sequence[Any]) -> int:
        """Return the place of a value among those in order: behind equal ones."""
        low, high = 0, len(values)
        while low < high:
            middle = (low + high) // 2
            if self.comes_before(value, values[middle]):
                high = middle
            else:
                low = middle + 1
        return low


class TopNOperator(KeyedOperator):
    """Emits Rows with the fields `names`, those of the records, and their number.

    `ttl`: how long the top rows of a key are kept after they have last changed, by the clock. Then its next row is the
    first one; expired rows are not deleted from the results. (Flink's rows expire each alone, unless its cache has
    them.) Raises ValueError for a limit below 1, and for a field to order by that is not one of `names`.
    """

    def __init__(
        self,
        name: str,
        key_selector: Callable[[Any], Any],
        ranking: Ranking,
        names: Sequence[str],
        *,
        ttl: StateTtlConfig | None = None,
    ) -> None:
        super().__init__(name, key_selector)
        if ranking.limit < 1:
            raise ValueError(f"expected a limit of at least 1 for the top rows, got {ranking.limit}")
        if ranking.field not in names:
            raise ValueError(f"the rows have no field {ranking.field!r} to order by: they have {', '.join(names)}")
        self.ranking = ranking
        self.names = tuple(names)
        self.ttl = ttl
        self._place = self.names.index(ranking.field)

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self.table = self.backend.layered(TOP_ROWS_TABLE)

    def open(self) -> None:
        super().open()
        number = self.ranking.row_number
        self._row = row_factory(self.names if number is None else (*self.names, number))
        self.tops = ExpiringValues(self.backend, TOP_ROWS_TABLE, self.table, self.ttl)
        self.tops.use()

    def process(self, chunk: Rows) -> bool:
        values, timestamps = chunk.values, chunk.timestamps
        results: Values = []
        times: list[int] = []
        for number, (key, value) in enumerate(zip(self.keys_of(values), values, strict=True)):
            try:
                check_insert(value)
                changes = list(self.changes(key, tuple(fields_of(value, self.names))))
            except RAISED as error:
                raise self.context.user_error(error, "top rows", value, key) from error
            for kind, row in changes:
                results.append(self._row(row))
                results[-1]._row_kind = kind
            if timestamps is not None:
                times += [timestamps[number]] * len(changes)
        return not results or self.output.emit(Rows(results, None if timestamps is None else times))

    def changes(self, key: Any, fields: Fields) -> Iterator[Change]:
        """Yield what a row changes, and store the top rows of its key."""
        ranking, at = self.ranking, self._place
        before: list[Fields] = self.tops.get(key) or []
        is_full = len(before) >= ranking.limit
        if is_full and not ranking.comes_before(fields[at], before[-1][at]):
            return
        place = ranking.place_of(fields[at], [row[at] for row in before])
        # A new list: a snapshot may be reading the other one.
        after = [*before[:place], fields, *before[place:]]
        self.tops.put(key, after[: ranking.limit])
        if ranking.row_number is not None:
            yield from self._moved(before, after, place)
            return
        if is_full:
            yield RowKind.DELETE, after[-1]
        yield RowKind.INSERT, fields

    def _moved(self, before: list[Fields], after: list[Fields], place: int) -> Iterator[Change]:
        """Yield the rows whose numbers change, from `place` on."""
        for index in range(place, len(before)):
            if self.ranking.update_before:
                yield RowKind.UPDATE_BEFORE, (*before[index], index + 1)
            yield RowKind.UPDATE_AFTER, (*after[index], index + 1)
        if len(before) < self.ranking.limit:
            yield RowKind.INSERT, (*after[-1], len(after))
