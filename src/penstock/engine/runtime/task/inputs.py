"""The inputs of a task: the channels of each, its event time, and the operator input that it feeds.

Input i of a task is input i of the operator at the head of its chain. Barriers are aligned over the channels of all
inputs (`network/alignment.py`); watermarks and the end of data are tracked per input, and the operator combines them
(`operators/two_inputs.py`). Feedback to the head of an iteration is an input as well, but arrives differently
(`feedback.py`): it is not aligned, has no event time, and ends when the head ends it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from penstock.common.constants import MAX_TIMESTAMP
from penstock.engine.runtime.chunks import Chunk, EncodedColumns
from penstock.engine.runtime.ids import ChannelId
from penstock.engine.runtime.network.buffer import (
    BeginOfSuperstep,
    Element,
    EndOfData,
    EndOfInput,
    EndOfSuperstep,
    LatencyMarker,
    Watermark,
    WatermarkStatus,
)
from penstock.engine.runtime.network.edge import EdgeInfo
from penstock.engine.runtime.operators.iteration import FED_BACK
from penstock.engine.runtime.operators.operator import Input
from penstock.engine.runtime.task.chain import Chain
from penstock.engine.runtime.task.column_pacing import ColumnPacing, pacing_of
from penstock.engine.runtime.task.joined_chunks import JoinedChunks
from penstock.engine.runtime.task.supersteps import Supersteps
from penstock.engine.runtime.task.vertex import VertexSpec
from penstock.engine.runtime.time.watermarks import WatermarkValve

Work = Callable[[], object]
"""A work item of a task: a call to make. Items are done in order."""


class InputChannel:
    """Hold the state of one channel of a task, and the input that it belongs to."""

    __slots__ = ("id", "input", "items", "sequence")

    def __init__(self, id: ChannelId, input: TaskInput) -> None:
        self.id = id
        self.input = input
        self.sequence = 0
        """The sequence number of the next buffer."""
        self.items = 0
        """How many chunks and elements, except barriers, the task has received on it."""


class TaskInput:
    """Input `index` of a task. `work` is the task's queue, `target` an input of the head of its chain."""

    def __init__(
        self,
        index: int,
        channels: Sequence[ChannelId],
        target: Input,
        *,
        work: deque[Work],
        chain: Chain,
        clock: Callable[[], int],
        first_records: int,
    ) -> None:
        self.index = index
        self.channels = [InputChannel(channel, self) for channel in channels]
        self.ended = False
        self.records_in = 0
        """How many records this input has given to the operator."""
        self.replayed = 0
        """How many of these records came from a snapshot, which were in flight when it was taken."""
        self.pacing = pacing_of(chain.head.takes, first_records, chain.sections)
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

    def records(self, chunk: Chunk, position: int) -> None:
        """Process a chunk from `position` on, as much as one call should take. The rest is next in the queue."""
        pacing = self.pacing
        count = len(chunk)
        if position or count > pacing.records_max:
            stop = position + pacing.records_max
            if stop < count:
                self._work.appendleft(partial(self.records, chunk, stop))
            chunk = chunk.part(position, stop)
            count = len(chunk)
        self._counters.records_in += count
        self.records_in += count
        clock = self._clock
        started_ns = clock()
        self._process(chunk)
        pacing.adapt(count, clock() - started_ns)

    def watermark(self, channel: InputChannel, element: Watermark) -> None:
        """Process a watermark of one channel."""
        self._valve.watermark(channel, element.timestamp)
        self._do_announced()

    def status(self, channel: InputChannel, element: WatermarkStatus) -> None:
        """Process the status of a channel, which became idle or active."""
        self._valve.status(channel, element.active)
        self._do_announced()

    def _do_announced(self) -> None:
        # A work item for each: if the first pauses the chain, the second must wait.
        self._work.extendleft(reversed(self._announced))
        self._announced.clear()

    def has_ended(self, channel: InputChannel) -> bool:
        """Return whether the data of a channel has ended."""
        return channel not in self._open

    def end_of_data(self, channel: InputChannel) -> bool:
        """Mark a channel as ended. Returns True for the last channel of the input."""
        self._open.discard(channel)
        if self._open or self.ended:
            return False
        self.ended = True
        return True


class TaskInputs:
    """All inputs of a task; a source has no inputs.

    `on_marker` receives latency markers; `on_end` is called when the last input has ended.
    """

    def __init__(
        self,
        vertex: VertexSpec,
        subtask: int,
        *,
        chain: Chain,
        work: deque[Work],
        clock: Callable[[], int],
        first_records: int,
        on_marker: Callable[[LatencyMarker], None],
        on_end: Callable[[], None],
        supersteps: Supersteps | None = None,
        on_begin: Callable[[BeginOfSuperstep], None] = lambda begin: None,
    ) -> None:
        targets = chain.head.inputs()
        channels: list[list[ChannelId]] = [[] for _ in targets]
        self._decode = {info.id: _decoder(info) for info, _ in vertex.inputs if info.schema is not None}
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
            TaskInput(index, ids, target, work=work, chain=chain, clock=clock, first_records=first_records)
            for index, (ids, target) in enumerate(zip(channels, targets, strict=True))
        ]
        self.by_id: dict[tuple[int, int], InputChannel] = {
            channel.id: channel for input in self.inputs for channel in input.channels
        }
        """All channels by ChannelId. Look them up by the plain pair, which costs less per buffer."""
        self.channels = [channel for channel in self.by_id.values() if channel.id.edge not in fed_back]
        """The channels of all inputs, except feedback."""
        self.in_loop = [channel for channel in self.by_id.values() if channel.id.edge in in_loop]
        """Channels from tasks of the same loop."""
        self.from_outside = [channel for channel in self.channels if channel.id.edge not in in_loop]
        """Channels from tasks outside the loop."""
        self._outside: frozenset[ChannelId] = frozenset()
        """The channels whose records get the number of superstep 0; none if the task is in no structured iteration."""
        self._work = work
        self._on_end = on_end
        self._elements: dict[type[Element], Callable[[InputChannel, Any], None]] = {
            Watermark: lambda channel, element: channel.input.watermark(channel, element),
            WatermarkStatus: lambda channel, element: channel.input.status(channel, element),
            LatencyMarker: lambda channel, element: on_marker(element),
            EndOfData: self._end_of_data,
            EndOfInput: self._end_of_data,
        }
        if supersteps is not None:
            self._outside = frozenset(channel.id for channel in self.from_outside)
            self._elements |= _in_supersteps(supersteps, on_begin, self._outside, work)

    @property
    def column_rows(self) -> int | None:
        """How many rows of columns a buffer should have in any case, for the calls of this task; None: it gets none."""
        wanted = [input.pacing.records_wanted for input in self.inputs if isinstance(input.pacing, ColumnPacing)]
        return max(wanted, default=None)

    @property
    def fed_back(self) -> TaskInput:
        """The input for feedback. Only the head of an iteration has it."""
        return self.inputs[FED_BACK]

    @property
    def only_feedback_left(self) -> bool:
        """Whether all inputs except the feedback have ended."""
        return all(input.ended for input in self.inputs if input is not self.fed_back)

    def end_feedback(self) -> None:
        """End the input for feedback: records that come later are dropped."""
        input = self.fed_back
        if not input.ended:
            input.ended = True
            self._end(input)

    def deliver(self, channel: InputChannel, item: Any) -> None:
        """Queue a chunk or an element of a channel. The alignment handles barriers, so they do not come here."""
        channel.items += 1
        handle = self._elements.get(type(item))
        if handle is not None:
            self._work.append(partial(handle, channel, item))
            return
        if type(item) is not EncodedColumns:
            chunk = item.timed(0) if channel.id in self._outside else item
            self._work.append(partial(channel.input.records, chunk, 0))
            return
        chunk = self._decode[channel.id.edge](item)
        if channel.id in self._outside:
            chunk = chunk.timed(0)
        if not (self._work and type(last := self._work[-1]) is JoinedChunks and last.add(channel.input, chunk)):
            self._work.append(JoinedChunks(channel.input, chunk))

    def decoded(self, edge: int, item: Any) -> Chunk:
        """Return the chunk of a buffer of an edge."""
        chunk: Chunk = self._decode[edge](item) if type(item) is EncodedColumns else item
        return chunk

    def may_join(self, channel: InputChannel) -> bool:
        """Return whether the last work item is chunks of this channel's input, with room for more."""
        last = self._work[-1] if self._work else None
        return type(last) is JoinedChunks and last.input is channel.input and last.has_room

    def check(self) -> None:
        """Assert the invariants between any two events."""
        assert all(input.pacing.records_max >= 1 for input in self.inputs)

    def _end_of_data(self, channel: InputChannel, element: EndOfData | EndOfInput) -> None:
        if channel.input.end_of_data(channel):
            self._end(channel.input)

    def _end(self, input: TaskInput) -> None:
        # At the head of the queue, in reverse order: `end_input` comes before what `_on_end` has queued.
        if all(input.ended for input in self.inputs):
            self._on_end()
        self._work.appendleft(input.end_input)


def _in_supersteps(
    supersteps: Supersteps,
    on_begin: Callable[[BeginOfSuperstep], None],
    outside: frozenset[ChannelId],
    work: deque[Work],
) -> dict[type[Element], Callable[[InputChannel, Any], None]]:
    """Return how a task of a structured iteration handles elements: its event time is the number of the superstep."""

    def end(channel: InputChannel, element: EndOfSuperstep) -> None:
        supersteps.sender_ended(element)
        # Behind the watermark, if it is announced now: then all operators of the chain have taken it.
        work.appendleft(supersteps.leave)
        channel.input.watermark(channel, Watermark(element.number))

    def watermark(channel: InputChannel, element: Watermark) -> None:
        # From outside, only the end of event time counts: until then, no superstep ends.
        if channel.id not in outside:
            supersteps.has_ended = supersteps.has_ended or element.timestamp == MAX_TIMESTAMP
        elif element.timestamp < MAX_TIMESTAMP:
            return
        work.appendleft(supersteps.leave)
        channel.input.watermark(channel, element)

    def status(channel: InputChannel, element: WatermarkStatus) -> None:
        if channel.id not in outside:
            channel.input.status(channel, element)

    return {
        BeginOfSuperstep: lambda channel, element: on_begin(element),
        EndOfSuperstep: end,
        Watermark: watermark,
        WatermarkStatus: status,
    }


def _decoder(edge: EdgeInfo) -> Callable[[EncodedColumns], Chunk]:
    from penstock.engine.runtime.columns.codec import decoder

    return decoder(edge)
