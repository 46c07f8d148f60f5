"""The inputs of a task: the channels of each, its event time, and the operator input that it feeds.

Input i of a task is input i of the operator at the head of its chain. Barriers are aligned over the channels of all
inputs (`network/alignment.py`); watermarks and the end of data are tracked per input, and the operator combines
them (`operators/two_inputs.py`). What is fed back to the head of an iteration is an input, too, but comes by other ways
(`feedback.py`): it is not aligned, has no event time, and ends when it is told to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from penstock.engine.runtime.ids import ChannelId
from penstock.engine.runtime.network.buffer import (
    Element,
    EndOfData,
    EndOfInput,
    LatencyMarker,
    Watermark,
    WatermarkStatus,
)
from penstock.engine.runtime.operators.iteration import FED_BACK
from penstock.engine.runtime.operators.operator import Input, Timestamps, Values
from penstock.engine.runtime.task.budget import Pacing
from penstock.engine.runtime.task.chain import Chain
from penstock.engine.runtime.task.vertex import VertexSpec
from penstock.engine.runtime.time.watermarks import WatermarkValve

Work = Callable[[], object]
"""A work item of a task: a call that is due. Items are done in order."""


class InputChannel:
    """One channel of a task, and the input that it belongs to."""

    __slots__ = ("id", "input", "items", "sequence")

    def __init__(self, id: ChannelId, input: TaskInput) -> None:
        self.id = id
        self.input = input
        self.sequence = 0
        """The sequence number of its next buffer."""
        self.items = 0
        """How many chunks of records, and elements but for barriers, have been taken from it."""


class TaskInput:
    """Input `index` of a task. `work` is the task's queue, `target` an input of the head of its chain."""

    def __init__(
        self,
        index: int,
        channels: Sequence[ChannelId],
        target: Input,
        work: deque[Work],
        chain: Chain,
        clock: Callable[[], int],
        first_records: int,
    ) -> None:
        self.index = index
        self.channels = [InputChannel(channel, self) for channel in channels]
        self.ended = False
        self.records_in = 0
        """How many records the operator was given by this input."""
        self.replayed = 0
        """How many of these were in flight when a snapshot was taken, and came from there."""
        self.pacing = Pacing(first_records, chain.stretches)
        self.end_input = target.end_input
        self._process = chain.entry(target.process)
        self._open = set(self.channels)
        self._work = work
        self._counters = chain.counters[0]
        self._clock = clock
        self._announced: list[Work] = []
        self._valve = WatermarkValve(
            self.channels,
            lambda timestamp: self._announced.append(partial(target.watermark, timestamp)),
            lambda active: self._announced.append(partial(target.status, active)),
        )

    def records(self, chunk: tuple[Values, Timestamps], position: int) -> None:
        """A chunk from `position` on: as much of it as should be taken in one call; the rest is put back first."""
        values, timestamps = chunk
        pacing = self.pacing
        if position or len(values) > pacing.records_max:
            stop = position + pacing.records_max
            if stop < len(values):
                self._work.appendleft(partial(self.records, chunk, stop))
            values = values[position:stop]
            timestamps = timestamps[position:stop] if timestamps is not None else None
        self._counters.records_in += len(values)
        self.records_in += len(values)
        clock = self._clock
        started_ns = clock()
        self._process(values, timestamps)
        pacing.adapt(len(values), clock() - started_ns)

    def watermark(self, channel: InputChannel, element: Watermark) -> None:
        """A watermark of one channel."""
        self._valve.watermark(channel, element.timestamp)
        self._do_announced()

    def status(self, channel: InputChannel, element: WatermarkStatus) -> None:
        """A channel became idle or active."""
        self._valve.status(channel, element.active)
        self._do_announced()

    def _do_announced(self) -> None:
        # Each is a work item of its own: the first may pause the chain, and the second must not overtake it.
        self._work.extendleft(reversed(self._announced))
        self._announced.clear()

    def has_ended(self, channel: InputChannel) -> bool:
        """Whether the data of one of its channels has ended."""
        return channel not in self._open

    def end_of_data(self, channel: InputChannel) -> bool:
        """No more records come on this channel. True: it was the last one of the input."""
        self._open.discard(channel)
        if self._open or self.ended:
            return False
        self.ended = True
        return True


class TaskInputs:
    """All inputs of a task. A source has none, and then nothing is ever received.

    `on_marker` gets latency markers, `on_end` is called when the last input has ended.
    """

    def __init__(
        self,
        vertex: VertexSpec,
        subtask: int,
        chain: Chain,
        work: deque[Work],
        clock: Callable[[], int],
        first_records: int,
        on_marker: Callable[[LatencyMarker], None],
        on_end: Callable[[], None],
    ) -> None:
        targets = chain.head.inputs()
        channels: list[list[ChannelId]] = [[] for _ in targets]
        in_loop: set[int] = set()
        fed_back: set[int] = set()
        for info, partitioner in vertex.inputs:
            for sender in range(info.source_parallelism):
                if subtask in partitioner.targets(sender, info.source_parallelism, info.target_parallelism):
                    channels[info.input_index].append(ChannelId(info.id, sender))
            if info.in_loop:
                in_loop.add(info.id)
            if info.feedback:
                fed_back.add(info.id)
        self.inputs = [
            TaskInput(index, own, target, work, chain, clock, first_records)
            for index, (own, target) in enumerate(zip(channels, targets, strict=True))
        ]
        self.by_id: dict[tuple[int, int], InputChannel] = {
            channel.id: channel for input in self.inputs for channel in input.channels
        }
        """Its channels by ChannelId; looked up by the plain pair, which costs less for each buffer."""
        self.channels = [channel for channel in self.by_id.values() if channel.id.edge not in fed_back]
        """Those of all inputs, but for what is fed back."""
        self.in_loop = [channel for channel in self.by_id.values() if channel.id.edge in in_loop]
        """Channels from tasks of the same loop."""
        self.from_outside = [channel for channel in self.channels if channel.id.edge not in in_loop]
        """Channels from all other tasks."""
        self._work = work
        self._on_end = on_end
        self._elements: dict[type[Element], Callable[[InputChannel, Any], None]] = {
            Watermark: lambda channel, element: channel.input.watermark(channel, element),
            WatermarkStatus: lambda channel, element: channel.input.status(channel, element),
            LatencyMarker: lambda channel, element: on_marker(element),
            EndOfData: self._end_of_data,
            EndOfInput: self._end_of_data,
        }

    @property
    def fed_back(self) -> TaskInput:
        """The input with what is fed back. Only the head of an iteration has it."""
        return self.inputs[FED_BACK]

    @property
    def only_feedback_left(self) -> bool:
        """Whether all inputs have ended but for what is fed back."""
        return all(input.ended for input in self.inputs if input is not self.fed_back)

    def end_feedback(self) -> None:
        """Nothing is taken of what is fed back any more."""
        input = self.fed_back
        if not input.ended:
            input.ended = True
            self._end(input)

    def deliver(self, channel: InputChannel, item: Any) -> None:
        """A chunk or an element of a channel, in order: queue what is to be done with it. Barriers do not come here."""
        channel.items += 1
        if isinstance(item, Element):
            self._work.append(partial(self._elements[type(item)], channel, item))
        else:
            self._work.append(partial(channel.input.records, item, 0))

    def check(self) -> None:
        """Assert what must hold between any two events."""
        assert all(input.pacing.records_max >= 1 for input in self.inputs)

    def _end_of_data(self, channel: InputChannel, element: EndOfData | EndOfInput) -> None:
        if channel.input.end_of_data(channel):
            self._end(channel.input)

    def _end(self, input: TaskInput) -> None:
        # At the head of the queue, where each next item goes before the one before it.
        if all(input.ended for input in self.inputs):
            self._on_end()
        self._work.appendleft(input.end_input)
