"""map, flat_map and filter: one comprehension or loop a chunk.

The functions are bound methods or plain callables. A list iterator knows how many elements it has left, so the value
that a function failed on is found without counting.

What is emitted is the operator's `own`. Numbers and text, and pairs of them, are recognised in the loops themselves,
since a call for each record would cost a tenth of the record. The results of a small function without a place to keep
anything need no look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any

from penstock.common.functions.escape_analysis import keeps_nothing
from penstock.common.functions.result_kinds import check_awaited
from penstock.common.functions.user_calls import RAISED, results_of
from penstock.common.types import Row
from penstock.common.values.copies import ATOMS
from penstock.engine.runtime.operators.emitted import flattened, trusted_generator
from penstock.engine.runtime.operators.operator import (
    FunctionPlace,
    Operator,
    Timestamps,
    Values,
    emit_tagged,
    positions_taken,
)

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.function import UserFunction


class FunctionOperator(Operator):
    """An operator around one user's function: its life cycle, and its failures."""

    def __init__(self, name: str, function: UserFunction) -> None:
        super().__init__(name)
        self.function = function

    def function_places(self) -> Sequence[FunctionPlace]:
        return (FunctionPlace(self, "function"),)

    def open(self) -> None:
        self.function.open(self.context)
        self.functions_replaced()

    def close(self) -> None:
        self.function.close(self.context)

    def failed(self, error: BaseException, method: str, values: Values, rest: Any, timestamps: Timestamps) -> Exception:
        """The error to raise: it names the value that `rest`, an iterator over `values`, gave last."""
        position = positions_taken(values, rest)
        if not 0 <= position < len(values):
            return self.context.user_error(error, method)
        timestamp = timestamps[position] if timestamps else None
        return self.context.user_error(error, method, values[position], timestamp=timestamp)


class Projection:
    """A function of map: some fields of a tuple or Row, by position."""

    def __init__(self, indexes: Sequence[int]) -> None:
        self.indexes = indexes

    def map(self, value: Any) -> Any:
        """Those fields, as what the value is."""
        fields = [value[index] for index in self.indexes]
        return Row(*fields) if isinstance(value, Row) else tuple(fields)


class MapOperator(FunctionOperator):
    """Emits one value for each."""

    _keeps_nothing = False

    def functions_replaced(self) -> None:
        self._keeps_nothing = keeps_nothing(self.function.call)

    def process(self, values: Values, timestamps: Timestamps) -> bool:
        rest = iter(values)
        try:
            call, count = self.function.call, len(values)
            mapped = results_of(call, count, rest) if self._keeps_nothing else self._owned(rest)
        except RAISED as error:
            raise self.failed(error, self.function.method, values, rest, timestamps) from error
        return emit_tagged(self.output, mapped, timestamps)

    def _owned(self, values: Iterator[Any]) -> Values:
        call, own, atoms = self.function.call, self.own, ATOMS
        return [
            result
            if (
                type(result := call(value)) is tuple
                and len(result) == 2
                and type(result[0]) in atoms
                and type(result[1]) in atoms
            )
            or type(result) in atoms
            else own(result)
            for value in values
        ]


class FilterOperator(FunctionOperator):
    """Keeps the values for which the function is true."""

    _keeps_nothing = False

    def functions_replaced(self) -> None:
        self._keeps_nothing = keeps_nothing(self.function.call)

    def process(self, values: Values, timestamps: Timestamps) -> bool:
        rest = iter(values)
        kept: Values = []
        try:
            if self._keeps_nothing:
                chosen = results_of(self.function.call, len(values), rest)
                kept = list(compress(values, chosen))
            else:
                chosen = self._choose(rest, kept)
                check_awaited(chosen[0])
        except RAISED as error:
            raise self.failed(error, self.function.method, values, rest, timestamps) from error
        return self.output.emit(kept, None if timestamps is None else list(compress(timestamps, chosen)))

    def _choose(self, values: Iterator[Any], kept: Values) -> list[Any]:
        call, own, chosen = self.function.call, self.own, []
        for value in values:
            is_chosen = call(value)
            chosen.append(is_chosen)
            if is_chosen:
                kept.append(own(value))
        return chosen


class FlatMapOperator(FunctionOperator):
    """One value in, any number out; a function that does not end is paused between its values."""

    _call: Callable[[Any], Iterable[Any] | None]
    _values: Values
    _rest: Iterator[Any]
    _times: Iterator[int] | None
    _results: Iterator[Any] | None
    _timestamps: Timestamps

    def process(self, values: Values, timestamps: Timestamps) -> bool:
        self._values, self._timestamps = values, timestamps
        self._rest = iter(values)
        self._times = None if timestamps is None else iter(timestamps)
        self._results = None
        self._time = 0
        return self.resume()

    def resume(self) -> bool:
        self.paused = False
        output, budget = self.output, self.context.budget
        while True:
            gathered, times, more = self._gather(budget.chunk_records)
            go_on = emit_tagged(output, gathered, times)
            if not more:
                return go_on
            if not (go_on and budget.go_on()):
                self.paused = True
                return False

    def _gather(self, limit: int) -> tuple[Values, Timestamps, bool]:
        """The next outputs, at most `limit`, and whether there may be more."""
        gathered: Values = []
        times: Timestamps = None if self._times is None else []
        call, rest, append, own, atoms = self.function.call, self._rest, gathered.append, self.own, ATOMS
        generator = trusted_generator(call)
        try:
            if self._results is not None:
                for result in self._results:
                    append(result if type(result) in atoms else own(result))
                    if len(gathered) >= limit:
                        self._fill(times, gathered)
                        return gathered, times, True
                self._fill(times, gathered)
                self._results = None
            for value in rest:
                if times is not None:
                    self._time = next(self._times)  # type: ignore[arg-type]
                results = call(value)
                if results is None:
                    continue
                if type(results) is list:
                    # It is complete and finite: taking it over at once costs a fifth of the loop below.
                    gathered.extend([result if type(result) in atoms else own(result) for result in results])
                    self._fill(times, gathered)
                    if len(gathered) >= limit:
                        return gathered, times, True
                    continue
                results = iter(results if type(results) is generator else flattened(results))
                for result in results:
                    append(result if type(result) in atoms else own(result))
                    if len(gathered) >= limit:
                        self._results = results
                        self._fill(times, gathered)
                        return gathered, times, True
                if times is not None:
                    self._fill(times, gathered)
        except RAISED as error:
            raise self.failed(error, self.function.method, self._values, rest, self._timestamps) from error
        return gathered, times, False

    def _fill(self, times: Timestamps, gathered: Values) -> None:
        """What a value became has that value's timestamp."""
        if times is not None:
            times.extend([self._time] * (len(gathered) - len(times)))
