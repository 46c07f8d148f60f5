"""A function of all records of a key, for records that come sorted by key: a run of equal keys is a group.

The function is that of an operator of BATCH mode, `of`, which collects groups in its state: a reduce, an aggregate, or
a full window.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.operators.emitted import emitted
from penstock.engine.runtime.operators.operator import FunctionPlace, Operator

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.function import UserFunction

REDUCE, AGGREGATE, MAP_PARTITION = "reduce", "aggregate", "map_partition"
"""The user's function for the records of a key."""


class GroupOperator(Operator):
    """Emits the results of a function for each group, whose records are in memory. `timestamp`: that of its results."""

    def __init__(self, key_selector: Callable[[Any], Any], of: Operator, how: str, timestamp: int | None) -> None:
        super().__init__(of.name)
        self.key_selector = key_selector
        self.of = of
        self.how = how
        self.timestamp = timestamp
        self._key: Any = None
        self._records: list[Any] = []

    @property
    def function(self) -> UserFunction:
        """The function."""
        return self.function_places()[0].function

    def function_places(self) -> Sequence[FunctionPlace]:
        return self.of.function_places()

    def open(self) -> None:
        for place in self.function_places():
            place.function.open(self.context)

    def close(self) -> None:
        for place in self.function_places():
            place.function.close(self.context)

    def process(self, chunk: Rows) -> bool:
        results: list[Any] = []
        for key, records in groupby(chunk.values, self.key_selector):
            if self._records and key != self._key:
                results += self._ended()
            self._key = key
            self._records += records
        return self._emitted(results)

    def finish(self) -> bool:
        return self._emitted(self._ended() if self._records else [])

    def _emitted(self, results: list[Any]) -> bool:
        times = None if self.timestamp is None else [self.timestamp] * len(results)
        return self.output.emit(Rows(results, times)) if results else True

    def _ended(self) -> list[Any]:
        """Return the results of the group that has ended."""
        records, self._records = self._records, []
        try:
            return list(map(self.copy_value, _RESULTS_OF[self.how](self.function, records)))
        except RAISED as error:
            raise self.context.user_error(error, self.function.method, key=self._key) from error


def _reduced(function: UserFunction, records: list[Any]) -> Iterable[Any]:
    return (functools.reduce(function.call, records),)


def _aggregated(function: UserFunction, records: list[Any]) -> Iterable[Any]:
    aggregate = function.instance
    accumulator = aggregate.create_accumulator()
    for record in records:
        accumulator = aggregate.add(record, accumulator)
    return (aggregate.get_result(accumulator),)


def _mapped(function: UserFunction, records: list[Any]) -> Iterable[Any]:
    results: Iterable[Any] = emitted(function.call(iter(records)))
    return results


_RESULTS_OF = {REDUCE: _reduced, AGGREGATE: _aggregated, MAP_PARTITION: _mapped}
