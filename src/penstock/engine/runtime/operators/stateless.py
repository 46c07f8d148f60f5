"""map, flat_map and filter: one comprehension or loop per chunk.

The functions are bound methods or plain callables. A list iterator knows how many elements it has left, so a loop finds
the value that a function failed on without counting.

Operators emit copies (`copy_value`). The loops recognize numbers and text, and pairs of them, which need no copy,
because a call per record would cost a tenth of the record. A function that can't keep its results needs no copies.
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
from penstock.engine.runtime.chunks import Rows, Timestamps, Values
from penstock.engine.runtime.operators.emitted import flattened, trusted_generator
from penstock.engine.runtime.operators.operator import FunctionPlace, Operator, emit_tagged, last_position

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.function import UserFunction


class FunctionOperator(Operator):
    """Base of operators with one user's function: its life cycle and its errors."""

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

    def failed(self, error: BaseException, method: str, chunk: Rows, rest: Any) -> Exception:
        """Return the error to raise. It names the value that `rest`, an iterator over the values, gave last."""
        values, timestamps = chunk.values, chunk.timestamps
        position = last_position(values, rest)
        if not 0 <= position < len(values):
            return self.context.user_error(error, method)
        timestamp = timestamps[position] if timestamps else None
        return self.context.user_error(error, method, values[position], timestamp=timestamp)


class Projection:
    """A map function that selects fields of a tuple or Row by position."""

    def __init__(self, indexes: Sequence[int]) -> None:
        self.indexes = indexes

    def map(self, value: Any) -> Any:
        """Return the selected fields, as a Row or a tuple like the value."""
        fields = [value[index] for index in self.indexes]
        return Row(*fields) if isinstance(value, Row) else tuple(fields)


class MapOperator(FunctionOperator):
    """Emits one value for each record."""

    _keeps_nothing = False

    def functions_replaced(self) -> None:
        self._keeps_nothing = keeps_nothing(self.function.call)

    def process(self, chunk: Rows) -> bool:
        values = chunk.values
        rest = iter(values)
        try:
            call, count = self.function.call, len(values)
            mapped = results_of(call, count, rest) if self._keeps_nothing else self._mapped_copies(rest)
        except RAISED as error:
            raise self.failed(error, self.function.method, chunk, rest) from error
        return emit_tagged(self.output, Rows(mapped, chunk.timestamps))

    def _mapped_copies(self, values: Iterator[Any]) -> Values:
        call, copy, atoms = self.function.call, self.copy_value, ATOMS
        return [
            result
            if (
                type(result := call(value)) is tuple
                and len(result) == 2
                and type(result[0]) in atoms
                and type(result[1]) in atoms
            )
            or type(result) in atoms
            else copy(result)
            for value in values
        ]


class FilterOperator(FunctionOperator):
    """Emits the values for which the function returns true."""

    _keeps_nothing = False

    def functions_replaced(self) -> None:
        self._keeps_nothing = keeps_nothing(self.function.call)

    def process(self, chunk: Rows) -> bool:
        values, timestamps = chunk.values, chunk.timestamps
        rest = iter(values)
        selected: Values = []
        try:
            if self._keeps_nothing:
                results = results_of(self.function.call, len(values), rest)
                selected = list(compress(values, results))
            else:
                results = self._select(rest, selected)
                check_awaited(results[0])
        except RAISED as error:
            raise self.failed(error, self.function.method, chunk, rest) from error
        return self.output.emit(Rows(selected, None if timestamps is None else list(compress(timestamps, results))))

    def _select(self, values: Iterator[Any], selected: Values) -> list[Any]:
        call, copy, results = self.function.call, self.copy_value, []
        for value in values:
            is_selected = call(value)
            results.append(is_selected)
            if is_selected:
                selected.append(copy(value))
        return results


class FlatMapOperator(FunctionOperator):
    """Emits any number of values for a record, and pauses an endless function between its values."""

    _call: Callable[[Any], Iterable[Any] | None]
    _chunk: Rows
    _rest: Iterator[Any]
    _times: Iterator[int] | None
    _results: Iterator[Any] | None

    def process(self, chunk: Rows) -> bool:
        self._chunk = chunk
        self._rest = iter(chunk.values)
        self._times = None if chunk.timestamps is None else iter(chunk.timestamps)
        self._results = None
        self._time = 0
        return self.resume()

    def resume(self) -> bool:
        self.paused = False
        output, budget = self.output, self.context.budget
        while True:
            gathered, times, more = self._gather(budget.chunk_records)
            may_continue = emit_tagged(output, Rows(gathered, times))
            if not more:
                return may_continue
            if not (may_continue and budget.may_continue()):
                self.paused = True
                return False

    def _gather(self, limit: int) -> tuple[Values, Timestamps, bool]:
        """Return the next outputs, at most `limit`, and whether there may be more."""
        gathered: Values = []
        times: Timestamps = None if self._times is None else []
        call, rest, append, copy, atoms = self.function.call, self._rest, gathered.append, self.copy_value, ATOMS
        generator = trusted_generator(call)
        try:
            if self._results is not None:
                for result in self._results:
                    append(result if type(result) in atoms else copy(result))
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
                    # A list is complete and finite: extending by it costs a fifth of the loop below.
                    gathered.extend([result if type(result) in atoms else copy(result) for result in results])
                    self._fill(times, gathered)
                    if len(gathered) >= limit:
                        return gathered, times, True
                    continue
                results = iter(results if type(results) is generator else flattened(results))
                for result in results:
                    append(result if type(result) in atoms else copy(result))
                    if len(gathered) >= limit:
                        self._results = results
                        self._fill(times, gathered)
                        return gathered, times, True
                if times is not None:
                    self._fill(times, gathered)
        except RAISED as error:
            raise self.failed(error, self.function.method, self._chunk, rest) from error
        return gathered, times, False

    def _fill(self, times: Timestamps, gathered: Values) -> None:
        """Give all results of a value its timestamp."""
        if times is not None:
            times.extend([self._time] * (len(gathered) - len(times)))
