"""Partial aggregates of fields: in BATCH each sender adds its records up, and sends one value for each key.

    records ─▶ PartialAggregatesOperator ─▶ exchange by key ─▶ RunningAggregateOperator, which merges parts

Both kinds of values may arrive: records with timestamps are not combined, and neither are those of a sender whose keys
hardly ever come again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.common.functions.field_aggregates import Accumulator, FieldAggregates
from penstock.common.functions.field_key import FieldKey
from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.operators.operator import Operator, last_position
from penstock.engine.state.container_keys import as_key, as_keys
from penstock.engine.state.keys import encode_key

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext

_RECORDS_OF_KEY = 2
"""With fewer records for each key that is sent, on average, a sender stops to combine."""


class PartialAggregates(dict[str, Any]):
    """The accumulator of some records of a key. As a record it has the fields of the key, which selects it."""

    __slots__ = ("accumulator",)

    def __init__(self, fields: Mapping[str, Any], accumulator: Accumulator) -> None:
        super().__init__(fields)
        self.accumulator = accumulator

    def __reduce__(self) -> tuple[Any, ...]:
        return PartialAggregates, (dict(self), self.accumulator)


class PartialAggregatesOperator(Operator):
    """Batched mode: adds records of each key up, and sends the parts when it holds `keys_max` keys, and at the end.

    A part has no timestamp. Records with one are forwarded: the result has that of the last record.
    """

    keeps_values = True
    gives_parts = True

    def __init__(self, name: str, key: FieldKey, function: FieldAggregates, keys_max: int = 50_000) -> None:
        super().__init__(name)
        self._key = key
        self._of_fields = function
        self._keys_max = keys_max

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._parts: dict[Any, tuple[Any, Accumulator]] = {}
        """For each key its value as the record has it, and the accumulator."""
        self._records = 0
        self._combines = True

    def process(self, chunk: Rows) -> bool:
        if chunk.timestamps is not None or not self._combines:
            may_continue = self.finish()
            return self.output.emit(chunk) and may_continue
        values, parts = chunk.values, self._parts
        new, add, get = self._of_fields.create_accumulator, self._of_fields.add, parts.get
        rest = iter(values)
        try:
            given = list(map(self._key, rest))
            keys = as_keys(given)
            rest = iter(values)
            for key, fields, value in zip(keys, given, rest):  # noqa: B905
                before = get(key)
                parts[key] = (fields, add(value, new())) if before is None else (before[0], add(value, before[1]))
        except RAISED as error:
            value = values[last_position(values, rest)]
            self._check_key(value)
            raise self.context.user_error(error, "aggregate", value) from error
        self._records += len(values)
        if len(parts) < self._keys_max:
            return True
        self._combines = self._records >= _RECORDS_OF_KEY * len(parts)
        return self.finish()

    def _check_key(self, value: Any) -> None:
        """Raise the error of an invalid key, as the exchange would."""
        try:
            encode_key(as_key(self._key(value)))
        except RAISED as error:
            raise self.context.user_error(error, "key selector", value) from error

    def finish(self) -> bool:
        names = self._key.fields
        sent = [
            PartialAggregates({names[0]: fields} if len(names) == 1 else dict(zip(names, fields, strict=True)), part)
            for fields, part in self._parts.values()
        ]
        self._parts.clear()
        self._records = 0
        return self.output.emit(Rows(sent)) if sent else True
