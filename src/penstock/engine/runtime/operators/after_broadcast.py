"""Records that wait for the end of a broadcast stream, and are then processed with all of its values.

In STREAMING both streams arrive at the same time, so records wait in `RecordRuns`, and are in snapshots. Event time
waits with them: otherwise they would be late behind this operator. A batched task reads the broadcast stream first.
Three uses: pairs with each value of the other stream, places among ranges of sampled keys, and numbers behind those of
other subtasks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from penstock.common.functions.user_calls import RAISED
from penstock.common.values.copies import independent_copy
from penstock.common.values.ordered import sort_key
from penstock.engine.runtime.batch.record_runs import RecordRuns
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.operators.ending import EndingOperator, Results
from penstock.engine.runtime.operators.operator import FunctionPlace, Input
from penstock.engine.runtime.operators.two_inputs import inputs_of
from penstock.engine.state.handles import Redistribution
from penstock.engine.state.operator_state import NamedList

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.function import UserFunction
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext

BROADCAST = "(broadcast) values"
WAITING = "(broadcast) waiting records"
_SECOND = 1

Process = Callable[[Any], Iterable[Any]]
"""From a record to its results."""


class BroadcastUse(ABC):
    """A use of the values of the broadcast stream."""

    @abstractmethod
    def process_with(self, values: list[Any], call: Callable[..., Any]) -> Process:
        """Return the function for records. `values`: the whole broadcast stream, in any order. `call`: the user's."""


class Cross(BroadcastUse):
    """Results of the user's function for a record and each value of the other stream."""

    def process_with(self, values: list[Any], call: Callable[..., Any]) -> Process:
        # A copy for each pair: a value stays for later records, and in snapshots, whatever the function does with it.
        copied = independent_copy
        known = [(value, copied(value) is value) for value in values]

        def process(record: Any) -> Iterable[Any]:
            stays = copied(record) is record
            for value, value_stays in known:
                yield call(record if stays else copied(record), value if value_stays else copied(value))

        return process


class RangeOfKey(BroadcastUse):
    """The place of a record's key among the sampled keys of all subtasks, from 0 up to 1, and the record.

    Values are (records of a subtask, sample of their keys). Weights are whole numbers: sums of floats would depend on
    the order of values, and equal keys would have two places.
    """

    _UNIT = 1 << 20

    def process_with(self, values: list[Any], call: Callable[..., Any]) -> Process:
        weighted = [(sort_key(key), count * self._UNIT // len(keys)) for count, keys in values for key in keys]
        weighted.sort(key=itemgetter(0))
        keys, places, sum_before = [], [], 0
        for key, same in groupby(weighted, itemgetter(0)):
            keys.append(key)
            places.append(sum_before)
            sum_before += sum(weight for _, weight in same)
        places.append(max(0, sum_before - 1))
        whole = max(1, sum_before)

        def process(record: Any) -> Iterable[Any]:
            return ((places[bisect_left(keys, sort_key(call(record)))] / whole, record),)

        return process


class GlobalIndex(BroadcastUse):
    """The index of a record in the stream, and the record: (origin, index there, record) becomes (index, record).

    Values are (origin, number of its records).
    """

    def process_with(self, values: list[Any], call: Callable[..., Any]) -> Process:
        begins, begin = {}, 0
        # A restored subtask may tell its count again, or a greater one: in order, the last counts.
        for origin, count in sorted(dict(sorted(values)).items()):
            begins[origin] = begin
            begin += count
        return lambda numbered: ((begins[numbered[0]] + numbered[1], numbered[2]),)


class AfterBroadcastOperator(EndingOperator):
    """Processes the records of its first input when the second, a broadcast, has ended."""

    def __init__(self, name: str, function: UserFunction, use: BroadcastUse) -> None:
        super().__init__(name)
        self.function = function
        self._use = use

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._inputs = inputs_of(self, self.process, self.receive)
        self._waiting = RecordRuns(context, "records that wait for a broadcast")
        self._values: list[Any] = []
        self._process: Process | None = None
        self._time: int | None = None
        """The watermark (ms) that waits with the records."""
        self._active = True
        """The status that waits with them."""
        self._behind_records: deque[Callable[[], bool]] = deque()
        """The watermark and the status that follow the records that have waited."""

    def inputs(self) -> Sequence[Input]:
        return self._inputs

    def awaits_end_of(self, index: int) -> bool:
        return index == _SECOND

    def function_places(self) -> Sequence[FunctionPlace]:
        return (FunctionPlace(self, "function"),)

    def functions_replaced(self) -> None:
        if self._process is not None:
            self._begin()

    def open(self) -> None:
        self.function.open(self.context)

    def close(self) -> None:
        try:
            self._waiting.close()
        finally:
            self.function.close(self.context)

    def receive(self, chunk: Rows) -> bool:
        """Keep values of the broadcast stream."""
        self._values += chunk.values
        return True

    def process(self, chunk: Rows) -> bool:
        if self._process is None:
            if not self.context.mode.sorts_inputs:
                self._waiting.add(list(_stamped(chunk)))
                return True
            # A batched task has read all of a broadcast before the first record.
            self._begin()
        return self.emit_all(self._guarded(_stamped(chunk)))

    def watermark(self, timestamp: int) -> bool:
        if self._process is None:
            self._time = timestamp
            return True
        return super().watermark(timestamp)

    def status(self, active: bool) -> bool:
        if self._process is None:
            self._active = active
            return True
        return super().status(active)

    def end_input(self, index: int = 0) -> bool:
        if index != _SECOND or self._process is not None:
            return True
        self._begin()
        return self.emit_all(self._guarded(self._waiting.drain()))

    def resume(self) -> bool:
        may_continue = self._results is None or super().resume()
        while may_continue and self._results is None and self._behind_records:
            may_continue = self._behind_records.popleft()()
        self.paused = self._results is not None or bool(self._behind_records)
        return may_continue

    def _begin(self) -> None:
        try:
            self._process = self._use.process_with(self._values, self.function.call)
        except RAISED as error:
            raise self.context.user_error(error, self.function.method) from error
        if self._time is not None:
            self._behind_records.append(partial(super().watermark, self._time))
            self._time = None
        if not self._active:
            self._behind_records.append(partial(super().status, False))
            self._active = True

    def _guarded(self, records: Iterator[tuple[Any, int | None]]) -> Results:
        process = self._process
        assert process is not None
        for value, timestamp in records:
            try:
                for result in process(value):
                    yield result, timestamp
            except RAISED as error:
                raise self.context.user_error(error, self.function.method, value, timestamp=timestamp) from error

    def lists(self) -> list[NamedList]:
        # Values of a broadcast are items (key, value) of a dict to the state processor.
        values = list(enumerate(self._values))
        waiting = list(self._waiting)
        return [
            *super().lists(),
            *([NamedList(BROADCAST, Redistribution.BROADCAST, values)] if values else []),
            *([NamedList(WAITING, Redistribution.SPLIT, waiting)] if waiting else []),
        ]

    def restore_lists(self, lists: list[NamedList]) -> None:
        super().restore_lists([one for one in lists if one.name not in (BROADCAST, WAITING)])
        for one in lists:
            if one.name == BROADCAST:
                self._values = [value for _, value in one.items]
            elif one.name == WAITING and one.items:
                self._waiting.add(one.items)


def _stamped(chunk: Rows) -> Iterator[tuple[Any, int | None]]:
    """Return pairs of a value, and its timestamp or None."""
    timestamps: Sequence[int | None] = [None] * len(chunk) if chunk.timestamps is None else chunk.timestamps
    return zip(chunk.values, timestamps, strict=True)
