"""The keyed inputs of a batched task: its operator gets one key after the other, and records in order of time.

    rows, sorted by key group ─▶ KeySorter, a group at a time ─▶ records of a key ─▶ end of the key ─▶ next key ─▶ …

Spark sorts the rows of a task by key group, so a group is complete when the next one starts, and the task sorts one
group at a time. At the end of a key its timers fire and its state is dropped. Several keyed inputs are merged by key
and timestamp; records with equal timestamps stay in the order of the inputs. An input without keys, a broadcast for
example, comes before all key groups and does not pass through here. Source: Flink docs, "Execution Mode
(Batch/Streaming)", State Backends / Order of Processing; MultiInputSortingDataInput.
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
from penstock.engine.runtime.chunks import Rows, Values
from penstock.engine.runtime.network.buffer import NO_KEY_GROUP, decode_items
from penstock.engine.runtime.operators.keyed import KeyedOperator
from penstock.engine.runtime.operators.operator import Output
from penstock.engine.runtime.task.budget import Budget
from penstock.engine.runtime.task.metrics import OperatorCounters


class GatheringOutput:
    """The output of a keyed operator in a batched job: it gathers the few records of each key into chunks.

    Without it the results would be chunks of one record, and later operators pay per chunk. It passes a full chunk to
    `output`, and the rest with `flush`. `is_paused`: whether a later operator has paused. Such an operator gets no
    input until it is resumed: it would lose the records that it holds.
    """

    def __init__(self, output: Output, budget: Budget, is_paused: Callable[[], bool]) -> None:
        self._output = output
        self._budget = budget
        self._is_paused = is_paused
        self._values: Values = []
        self._timestamps: list[int] = []
        self._timed = False
        self._ready: deque[tuple[OutputTag[Any] | None, Rows]] = deque()
        """Complete chunks, which wait for a paused operator."""

    @property
    def is_empty(self) -> bool:
        """Whether it holds no records."""
        return not self._values and not self._ready

    def emit(self, chunk: Rows) -> bool:
        timestamps = chunk.timestamps
        timed = timestamps is not None
        if timed is not self._timed:
            # A chunk has timestamps for all of its records or for no record, because its lists are parallel.
            self._complete()
            self._timed = timed
        self._values += chunk.values
        if timestamps is not None:
            self._timestamps += timestamps
        if len(self._values) >= self._budget.chunk_records:
            self._complete()
        return not self._ready or self._send()

    def emit_side(self, tag: OutputTag[Any], chunk: Rows) -> bool:
        self._complete()
        self._ready.append((tag, chunk))
        return self._send()

    def watermark(self, timestamp: int) -> bool:
        assert self.is_empty, "a watermark overtakes records"
        return self._output.watermark(timestamp)

    def status(self, active: bool) -> bool:
        assert self.is_empty, "a status overtakes records"
        return self._output.status(active)

    def flush(self) -> bool:
        """Emit all records. False: stop for now, and call it again if it is not empty."""
        self._complete()
        return self._send()

    def _complete(self) -> None:
        if self._values:
            self._ready.append((None, Rows(self._values, self._timestamps if self._timed else None)))
            self._values, self._timestamps = [], []

    def _send(self) -> bool:
        while self._ready:
            if self._is_paused():
                return False
            tag, chunk = self._ready.popleft()
            emit = self._output.emit if tag is None else partial(self._output.emit_side, tag)
            if not emit(chunk):
                return False
        return True


Work = Callable[[], object]
KeySelector = Callable[[Any], Any]
_input_index: Any = itemgetter(0)


class SortedInputs:
    """Sorts the keyed inputs of one task. It puts work items into `work`, the queue of the task.

    `selectors`: the key selector of each input of `operator`, at least one; None for an input without keys. `output`:
    the output of the operator.
    """

    def __init__(
        self,
        operator: KeyedOperator,
        selectors: Sequence[KeySelector | None],
        *,
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
        """Add a buffer of a key group to one of the inputs."""
        if key_group != self._key_group:
            self._end_key_group()
            self._key_group = key_group
        self._work.append(partial(self._add, input_index, buffer))

    def end(self) -> None:
        """End the last key group: nothing more arrives."""
        self._end_key_group()

    def flush(self) -> bool:
        """Send emitted records, also those of other inputs and of their ends. False: stop for now."""
        may_continue = self._output.flush()
        if not self._output.is_empty:
            self._work.appendleft(self.flush)
        return may_continue

    def close(self) -> None:
        """Remove spilled records from disk."""
        self._sorter.close()

    def _end_key_group(self) -> None:
        if self._key_group != NO_KEY_GROUP:
            self._work.append(self._begin)

    def _add(self, input_index: int, buffer: bytes) -> None:
        selector = self._selectors[input_index]
        items = decode_items(buffer)
        for item in items:
            assert isinstance(item, Rows), "an element in batched mode"
            values = item.values
            keys = self._operator.keys_of(values, selector)
            if self._several:
                values = [(input_index, value) for value in values]
            self._sorter.add(keys, values, item.timestamps, len(buffer) // len(items))

    def _begin(self) -> None:
        self._calls = self._process_keys()
        self._continue()

    def _continue(self) -> None:
        for may_continue in self._calls:
            if not (may_continue and self._budget.may_continue()):
                # The chain may have paused: the task resumes it before it calls this again.
                self._work.appendleft(self._continue)
                return

    def _process_keys(self) -> Iterator[bool]:
        """Process one key after the other. Yields whether to continue: after each key, and within large keys."""
        key = None
        end_key, counters = self._operator.end_key, self._counters
        for piece in self._sorter.drain():
            if piece.encoded_key == key:
                # The key has many records: the step may end between them.
                yield True
            else:
                if key is not None:
                    yield end_key()
                key = piece.encoded_key
            counters.records_in += len(piece.values)
            for process, chunk in self._chunks(piece):
                if not process(chunk):
                    yield False
        yield end_key()
        while not self._output.is_empty:
            yield self._output.flush()

    def _chunks(self, piece: Piece) -> Iterable[tuple[Callable[[Any], bool], Rows]]:
        """Split a piece by input, and by whether its records have timestamps."""
        by_kind = _by_kind(piece)
        if not self._several:
            return [(self._process, chunk) for chunk in by_kind]
        return self._by_input(by_kind)

    def _by_input(self, by_kind: list[Rows]) -> Iterator[tuple[Callable[[Any], bool], Rows]]:
        for chunk in by_kind:
            timestamps = chunk.timestamps
            start = 0
            for index, records in groupby(chunk.values, _input_index):
                input_values = [value for _, value in records]
                stop = start + len(input_values)
                yield self._processes[index], Rows(input_values, None if timestamps is None else timestamps[start:stop])
                start = stop


def _by_kind(piece: Piece) -> list[Rows]:
    values, timestamps = piece.values, piece.timestamps
    if timestamps is None or timestamps[0] != UNTIMED:
        return [Rows(values, timestamps)]
    untimed = timestamps.count(UNTIMED)
    if untimed == len(values):
        return [Rows(values)]
    return [Rows(values[:untimed]), Rows(values[untimed:], timestamps[untimed:])]
