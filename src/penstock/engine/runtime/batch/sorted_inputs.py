"""The keyed inputs of a batched task: its operator is given one key after the other, the records of each by timestamp.

    rows, sorted by key group ─▶ KeySorter, a group at a time ─▶ records of a key ─▶ end of the key ─▶ next key ─▶ …

Spark sorts the rows of a task by key group, so a group is complete when the next one starts, and only one at a time
has to be sorted. At the end of a key its timers fire and its state is dropped. Several keyed inputs are merged by key
and timestamp, at equal ones in the order of the inputs. An input that is not keyed, a broadcast for example, comes
before all key groups and does not pass through here. Source: Flink docs, "Execution Mode (Batch/Streaming)", State
Backends / Order of Processing; MultiInputSortingDataInput.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

from penstock.api.output_tag import OutputTag
from penstock.engine.runtime.batch.key_sorter import UNTIMED, KeySorter, Piece
from penstock.engine.runtime.network.buffer import NO_KEY_GROUP, decode_segments
from penstock.engine.runtime.operators.keyed import KeyedOperator
from penstock.engine.runtime.operators.operator import Output, Timestamps, Values
from penstock.engine.runtime.task.budget import Budget
from penstock.engine.runtime.task.metrics import OperatorCounters

# What a keyed operator of a batched job emits into: it gathers the few records of each key into chunks.
#
# Such an operator is given one key after the other. Passed on as they come, its results would be chunks of one record,
# and what follows pays per chunk.


class GatheringOutput:
    """An Output before `output`. What it holds leaves when it is a chunk, and with `flush`.

    `is_paused`: whether an operator behind it has paused. Such a one is given nothing before it was resumed: it would
    forget what it holds.
    """

    def __init__(self, output: Output, budget: Budget, is_paused: Callable[[], bool]) -> None:
        self._output = output
        self._budget = budget
        self._is_paused = is_paused
        self._values: Values = []
        self._timestamps: list[int] = []
        self._timed = False
        self._ready: deque[tuple[OutputTag[Any] | None, Values, Timestamps]] = deque()
        """What is complete, and follows a chunk on which an operator has paused."""

    @property
    def is_empty(self) -> bool:
        """Whether everything has left."""
        return not self._values and not self._ready

    def emit(self, values: Values, timestamps: Timestamps) -> bool:
        timed = timestamps is not None
        if timed is not self._timed:
            # The lists of a chunk are parallel: all of its records have timestamps, or none has.
            self._complete()
            self._timed = timed
        self._values += values
        if timestamps is not None:
            self._timestamps += timestamps
        if len(self._values) >= self._budget.chunk_records:
            self._complete()
        return not self._ready or self._send()

    def emit_side(self, tag: OutputTag[Any], values: Values, timestamps: Timestamps) -> bool:
        self._complete()
        self._ready.append((tag, values, timestamps))
        return self._send()

    def watermark(self, timestamp: int) -> bool:
        assert self.is_empty, "a watermark overtakes records"
        return self._output.watermark(timestamp)

    def status(self, active: bool) -> bool:
        assert self.is_empty, "a status overtakes records"
        return self._output.status(active)

    def flush(self) -> bool:
        """Emit what is held. False: stop for now, and call it again if it is not empty."""
        self._complete()
        return self._send()

    def _complete(self) -> None:
        if self._values:
            self._ready.append((None, self._values, self._timestamps if self._timed else None))
            self._values, self._timestamps = [], []

    def _send(self) -> bool:
        while self._ready:
            if self._is_paused():
                return False
            tag, values, timestamps = self._ready.popleft()
            emit = self._output.emit if tag is None else partial(self._output.emit_side, tag)
            if not emit(values, timestamps):
                return False
        return True


Work = Callable[[], object]
KeySelector = Callable[[Any], Any]
_input_index: Any = itemgetter(0)


class SortedInputs:
    """Of one task. Its work is put into `work`, the queue of the task.

    `selectors`: the key selector of each input of `operator`, one at least; None: the input is not keyed. `output` is
    what the operator emits into.
    """

    def __init__(
        self,
        operator: KeyedOperator,
        selectors: Sequence[KeySelector | None],
        output: GatheringOutput,
        sorter: KeySorter,
        work: deque[Work],
        budget: Budget,
        counters: OperatorCounters,
    ) -> None:
        self._operator = operator
        self._selectors = selectors
        self._several = sum(selector is not None for selector in selectors) > 1
        self._output = output
        self._sorter = sorter
        self._work = work
        self._budget = budget
        self._counters = counters
        self._processes = [input.process for input in operator.inputs()]
        keyed = [process for process, selector in zip(self._processes, selectors, strict=True) if selector is not None]
        self._process = keyed[0]
        self._key_group = NO_KEY_GROUP
        self._calls: Iterator[bool] = iter(())

    def receive(self, key_group: int, input_index: int, buffer: bytes) -> None:
        """A buffer of a key group arrived for one of the inputs."""
        if key_group != self._key_group:
            self._end_key_group()
            self._key_group = key_group
        self._work.append(partial(self._add, input_index, buffer))

    def end(self) -> None:
        """Nothing more arrives."""
        self._end_key_group()

    def flush(self) -> bool:
        """Send what was emitted, by another input or at the end of one, too. False: stop for now."""
        go_on = self._output.flush()
        if not self._output.is_empty:
            self._work.appendleft(self.flush)
        return go_on

    def close(self) -> None:
        """Free the space on disk."""
        self._sorter.close()

    def _end_key_group(self) -> None:
        if self._key_group != NO_KEY_GROUP:
            self._work.append(self._begin)

    def _add(self, input_index: int, buffer: bytes) -> None:
        selector = self._selectors[input_index]
        segments = decode_segments(buffer)
        for segment in segments:
            assert isinstance(segment, tuple), "an element in batched mode"
            values, timestamps = segment
            keys = self._operator.keys_of(values, selector)
            if self._several:
                values = [(input_index, value) for value in values]
            self._sorter.add(keys, values, timestamps, len(buffer) // len(segments))

    def _begin(self) -> None:
        self._calls = self._play()
        self._go_on()

    def _go_on(self) -> None:
        for go_on in self._calls:
            if not (go_on and self._budget.go_on()):
                # The chain may have paused: the task resumes it before it takes this up again.
                self._work.appendleft(self._go_on)
                return

    def _play(self) -> Iterator[bool]:
        """One key after the other. Yields whether to go on: after each key, and wherever the step may have to end."""
        key = None
        end_key, counters = self._operator.end_key, self._counters
        for piece in self._sorter.drain():
            if piece.encoded_key == key:
                # A key of many records: the step may end between them.
                yield True
            else:
                if key is not None:
                    yield end_key()
                key = piece.encoded_key
            counters.records_in += len(piece.values)
            for process, values, timestamps in self._chunks(piece):
                if not process(values, timestamps):
                    yield False
        yield end_key()
        while not self._output.is_empty:
            yield self._output.flush()

    def _chunks(self, piece: Piece) -> Iterable[tuple[Callable[[Values, Timestamps], bool], Values, Timestamps]]:
        """A piece by input, and by whether its records have timestamps."""
        by_kind = _by_kind(piece)
        if not self._several:
            return [(self._process, values, timestamps) for values, timestamps in by_kind]
        return self._by_input(by_kind)

    def _by_input(
        self, by_kind: list[tuple[Values, Timestamps]]
    ) -> Iterator[tuple[Callable[[Values, Timestamps], bool], Values, Timestamps]]:
        for values, timestamps in by_kind:
            start = 0
            for index, records in groupby(values, _input_index):
                of_one = [value for _, value in records]
                stop = start + len(of_one)
                yield self._processes[index], of_one, None if timestamps is None else timestamps[start:stop]
                start = stop


def _by_kind(piece: Piece) -> list[tuple[Values, Timestamps]]:
    values, timestamps = piece.values, piece.timestamps
    if timestamps is None or timestamps[0] != UNTIMED:
        return [(values, timestamps)]
    untimed = timestamps.count(UNTIMED)
    if untimed == len(values):
        return [(values, None)]
    return [(values[:untimed], None), (values[untimed:], timestamps[untimed:])]
