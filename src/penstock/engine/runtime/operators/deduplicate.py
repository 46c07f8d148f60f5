"""De-duplication: of each key the first or the last row, by arrival or by event time, as a changelog.

A row that replaces another one is emitted as UPDATE_BEFORE of the old row and UPDATE_AFTER of the new one; the first
row of a key is an INSERT. Source: Flink's Deduplicate without mini-batch, whose order of rows this is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.api.state.ttl import StateTtlConfig
from penstock.common.constants import MIN_TIMESTAMP
from penstock.common.errors import ProgramError
from penstock.common.functions.user_calls import RAISED
from penstock.common.types import Row, RowKind, row_factory
from penstock.common.types.record_fields import fields_of
from penstock.engine.runtime.chunks import Rows, Values
from penstock.engine.runtime.operators.expiring_values import ExpiringValues
from penstock.engine.runtime.operators.keyed import KeyedOperator

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext

KEPT_ROWS_TABLE = "(kept rows)"
"""key -> (1,) if only the first row by arrival is kept, else the fields of the row, by event time after its timestamp.
"""
Change = tuple[RowKind, tuple[Any, ...]]


class Kept(NamedTuple):
    """Which row of a key is kept.

    By event time, the first of several first rows is kept, and the last of several last ones. `update_before`: whether
    the row that is replaced is emitted as well.
    """

    last: bool
    by_event_time: bool = False
    update_before: bool = True

    @property
    def only_keys(self) -> bool:
        """Whether the state needs no rows: the first one is never replaced."""
        return not (self.last or self.by_event_time)


class DeduplicateOperator(KeyedOperator):
    """Emits Rows with the fields `names`, those of the records.

    `ttl`: how long a row is kept after it was stored, by the clock; then the next row of its key is the first one. With
    it, a last row that equals the one before is emitted as well: operators behind may forget rows, too.
    """

    def __init__(
        self,
        name: str,
        key_selector: Callable[[Any], Any],
        kept: Kept,
        names: Sequence[str],
        *,
        ttl: StateTtlConfig | None = None,
    ) -> None:
        super().__init__(name, key_selector)
        self.kept = kept
        self.names = tuple(names)
        self.ttl = ttl

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self.use_table()

    def use_table(self) -> None:
        """Create the table of kept rows."""
        self.table = self.backend.layered(KEPT_ROWS_TABLE)

    def open(self) -> None:
        super().open()
        self._row = row_factory(self.names)
        self.use_ttl()

    def use_ttl(self) -> None:
        """Let rows expire, if they do."""
        self.rows = ExpiringValues(self.backend, KEPT_ROWS_TABLE, self.table, self.ttl)
        self.rows.use()

    def process(self, chunk: Rows) -> bool:
        values, timestamps = chunk.values, chunk.timestamps
        if self.kept.by_event_time and (timestamps is None or min(timestamps, default=0) == MIN_TIMESTAMP):
            raise self.untimed()
        results: Values = []
        times: list[int] = []
        for number, (key, value) in enumerate(zip(self.keys_of(values), values, strict=True)):
            timestamp = None if timestamps is None else timestamps[number]
            try:
                check_insert(value)
                fields = tuple(fields_of(value, self.names))
            except RAISED as error:
                raise self.context.user_error(error, "deduplication", value, key) from error
            for kind, row in self._changes(key, fields, timestamp):
                results.append(self._row(row))
                results[-1]._row_kind = kind
                if timestamp is not None:
                    times.append(timestamp)
        return not results or self.output.emit(Rows(results, None if timestamps is None else times))

    def untimed(self) -> ProgramError:
        """Return the error of a record without a timestamp."""
        return ProgramError(
            f"operator '{self.name}': the first or last row by event time needs timestamps: call "
            "assign_timestamps_and_watermarks before"
        )

    def _changes(self, key: Any, fields: tuple[Any, ...], timestamp: int | None) -> Iterator[Change]:
        """Yield what a row changes, and store it."""
        kept, before = self.kept, self.rows.get(key)
        if kept.only_keys:
            if before is None:
                self.rows.put(key, (1,))
                yield RowKind.INSERT, fields
            return
        if kept.by_event_time:
            if before is not None and (timestamp < before[0] if kept.last else timestamp >= before[0]):
                return
            self.rows.put(key, (timestamp, *fields))
            old = None if before is None else before[1:]
        else:
            self.rows.put(key, fields)
            old = before
            if old is not None and self.ttl is None and are_equal(old, fields):
                return
        if old is None:
            yield RowKind.INSERT, fields
            return
        if kept.update_before:
            yield RowKind.UPDATE_BEFORE, old
        yield RowKind.UPDATE_AFTER, fields


def are_equal(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Return whether two rows have the same values. NaN differs from NaN, as in Flink."""
    return all(value == before for value, before in zip(one, other, strict=True))


def check_insert(record: Any) -> None:
    """Raise ValueError for a row that is not an INSERT."""
    if isinstance(record, Row) and record._row_kind is not RowKind.INSERT:
        raise not_an_insert(record._row_kind)


def not_an_insert(kind: RowKind) -> ValueError:
    """Return the error of a row of this kind."""
    return ValueError(f"expected rows that are INSERT, got {kind.name}: changes of rows are not supported here")
