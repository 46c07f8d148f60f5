"""Running aggregates of fields on a keyed stream: each record gives the aggregates of its key so far.

In batched mode only the last ones of each key are emitted, as `reduce` does (`reduce.py`), and records are added up
before they are sent as well (`partial_aggregates.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.api.state.ttl import StateTtlConfig
from penstock.common.functions.aggregate_results import ResultRows
from penstock.common.functions.field_aggregates import Accumulator, FieldAggregates
from penstock.common.functions.field_key import FieldKey
from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.chunks import Rows, Values
from penstock.engine.runtime.operators.expiring_values import ExpiringValues
from penstock.engine.runtime.operators.keyed import KeyedOperator
from penstock.engine.runtime.operators.operator import Operator, last_position
from penstock.engine.runtime.operators.partial_aggregates import PartialAggregates, PartialAggregatesOperator
from penstock.engine.state.aggregates_schema import aggregates_schema

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext

AGGREGATES_TABLE = "(aggregates)"
"""key -> accumulator. Names in brackets can't collide with names of users' states."""


class RunningAggregateOperator(KeyedOperator):
    """Keeps an accumulator per key. `results`: makes the records that are emitted. `ttl`: how long a key lives."""

    def __init__(
        self,
        name: str,
        key_selector: Callable[[Any], Any],
        function: FieldAggregates,
        results: ResultRows,
        *,
        ttl: StateTtlConfig | None = None,
    ) -> None:
        super().__init__(name, key_selector)
        self.of_fields = function
        self._ttl = ttl
        self._result_rows = results

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self.use_table()
        self.backend.schemas[AGGREGATES_TABLE] = aggregates_schema(
            self.of_fields.aggregates, is_timed=self._ttl is not None
        )
        self._of_key: tuple[Any, Accumulator] | None = None
        self._latest: int | None = None

    def use_table(self) -> None:
        """Create the table of accumulators."""
        self.table = self.backend.layered(AGGREGATES_TABLE)

    def open(self) -> None:
        super().open()
        self._result_rows.open()
        self.use_ttl()

    def use_ttl(self) -> None:
        """Let keys expire, if they do."""
        ttl = None if self.context.mode.ends_keys else self._ttl
        self.accumulators = ExpiringValues(self.backend, AGGREGATES_TABLE, self.table, ttl)
        self.accumulators.use()

    def combiner(self) -> Operator | None:
        # A user's aggregate that depends on the order of records may depend on where the parts end, too.
        combines = all(one.function is None or one.in_any_order for one in self.of_fields.aggregates)
        if not combines or not isinstance(self.key_selector, FieldKey) or self.key_selector.exact:
            return None
        return PartialAggregatesOperator(f"{self.name} (combine)", self.key_selector, self.of_fields)

    def process(self, chunk: Rows) -> bool:
        values = chunk.values
        if not values:
            return True
        keys = self.keys_of(values)
        if self.context.mode.ends_keys:
            return self._process_key(keys[0], chunk)
        rest = iter(values)
        results: Values = []
        try:
            for key, value in zip(keys, rest):  # noqa: B905
                accumulator = self.of_fields.add(value, self.accumulator_of(key))
                results.append(self.result_of(key, accumulator))
                self.accumulators.put(key, accumulator)
        except RAISED as error:
            position = last_position(values, rest)
            raise self.context.user_error(error, "aggregate", values[position], keys[position]) from error
        return self.output.emit(Rows(results, chunk.timestamps))

    def accumulator_of(self, key: Any) -> Accumulator:
        """Return the accumulator of a key."""
        before = self.accumulators.get(key)
        return self.of_fields.create_accumulator() if before is None else before

    def result_of(self, key: Any, accumulator: Accumulator) -> Any:
        """Return the record to emit for a key."""
        return self._result_rows.row(key, self.of_fields.get_result(accumulator))

    def _process_key(self, key: Any, chunk: Rows) -> bool:
        """Batched mode: add records, and parts, of one key."""
        add, merge = self.of_fields.add, self.of_fields.merge
        accumulator = self.of_fields.create_accumulator() if self._of_key is None else self._of_key[1]
        rest = iter(chunk.values)
        try:
            for value in rest:
                is_part = type(value) is PartialAggregates
                accumulator = merge(accumulator, value.accumulator) if is_part else add(value, accumulator)
        except RAISED as error:
            value = chunk.values[last_position(chunk.values, rest)]
            raise self.context.user_error(error, "aggregate", value, key) from error
        self._of_key = key, accumulator
        if chunk.timestamps is not None:
            self._latest = chunk.timestamps[-1]
        return True

    def end_key(self) -> bool:
        assert self._of_key is not None
        (key, accumulator), latest = self._of_key, self._latest
        self._of_key = self._latest = None
        try:
            result = self.result_of(key, accumulator)
        except RAISED as error:
            raise self.context.user_error(error, "aggregate", key=key) from error
        return self.output.emit(Rows([result], None if latest is None else [latest]))
