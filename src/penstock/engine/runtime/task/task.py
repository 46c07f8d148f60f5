"""A task: one subtask of one vertex, as a state machine without I/O.

Events and buffers come in; rows go to the slot's outbox, and everything else that the task requests is an effect.
Work items wait in a queue, in order. A step does items until the queue is empty or the budget is used up. An item that
takes too long puts its rest back at the head of the queue, and a paused operator is resumed before the next item.

    state       event                                  next
    CREATED     open                                   RUNNING
    RUNNING     end of data on all inputs, all sent    DATA_ENDED
    DATA_ENDED  Close                                  FINISHED
    any         Cancel, or an error                    FINISHED

Its parts: the inputs (`inputs.py`) or, in a source, polling; the chain of operators (`chain.py`); checkpoints
(`checkpoints.py`); the buffer timeout; latency markers; in the head of an iteration the feedback (`feedback.py`); in
all tasks of a loop the answer to probes.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from penstock.common.constants import MAX_TIMESTAMP
from penstock.common.time.earliest import earliest
from penstock.engine.runtime.ids import ChannelId, SubtaskId
from penstock.engine.runtime.network.buffer import NO_KEY_GROUP, BeginOfSuperstep, EndOfData, Header, LatencyMarker
from penstock.engine.runtime.network.output import OutputEdge
from penstock.engine.runtime.operators.iteration import IterationHead
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.operators.source import SourceOperator
from penstock.engine.runtime.operators.superstep_head import SuperstepHead
from penstock.engine.runtime.task.async_calls import AsyncCalls, no_event_loop
from penstock.engine.runtime.task.checkpoints import TaskCheckpoints
from penstock.engine.runtime.task.column_pacing import pacing_clock
from penstock.engine.runtime.task.context import TaskContext
from penstock.engine.runtime.task.environment import Environment, TaskParts
from penstock.engine.runtime.task.events import (
    AlignWatermarks,
    AssignSplits,
    CallsEnded,
    Cancel,
    Close,
    DataAvailable,
    DataEnded,
    Drain,
    Effect,
    EndLoop,
    Event,
    Finished,
    InputEnded,
    LoopQuiet,
    NoMoreSplits,
    Opaque,
    Peers,
    ProbeLoop,
    ReportWatermark,
    RequestSplit,
    Result,
    SnapshotWritten,
)
from penstock.engine.runtime.task.feedback import Feedback
from penstock.engine.runtime.task.inputs import InputChannel, TaskInputs, Work
from penstock.engine.runtime.task.journal import Journal
from penstock.engine.runtime.task.metrics import TaskCounters
from penstock.engine.runtime.task.polling import Polling, pause_of
from penstock.engine.runtime.task.snapshot import Snapshots
from penstock.engine.runtime.task.state_reader import QUERIES, StateReader
from penstock.engine.runtime.task.superstep_feedback import SuperstepFeedback
from penstock.engine.runtime.task.supersteps import Supersteps
from penstock.engine.runtime.task.vertex import LevelSpec, VertexSpec
from penstock.engine.runtime.task.wiring import output_edges, sorted_inputs, wired_chain
from penstock.engine.state.handles import RestoredOperator
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.state.snapshot.storage import SnapshotStorage

_TIMEOUTS_MAX = 10
"""A buffer waits for at most this many timeouts, even if its task waits longer for a core."""
_PUT_OFF_MS = 50
"""And no longer than this, or its timeout: what some turns on a core bring fills a buffer, and rows would only wait."""


class FlushTimer:
    """Flushes buffers of one task that are not full, after the buffer timeout. A negative `timeout_ms` disables it.

    The timeout does not count the time in which the slot's thread waited for a core (`core_wait_ns`). Where more slots
    have work than there are cores, the timeout of each slot would otherwise have expired after each step. The slots
    would send nearly empty buffers, which keep the cores busy and make the next buffers emptier still.
    docs/internals/decisions/0037-time-without-a-core.md has the figures.
    """

    __slots__ = (
        "_core_wait_ns",
        "_edges",
        "_flushed_ms",
        "_longest_ms",
        "_now_ms",
        "_since_ms",
        "_timeout_ms",
        "_waited_ns",
        "at_ms",
    )

    def __init__(
        self,
        edges: Sequence[OutputEdge],
        timeout_ms: int,
        now_ms: Callable[[], int],
        core_wait_ns: Callable[[], int] = lambda: 0,
    ) -> None:
        self._edges = edges
        self._timeout_ms = timeout_ms
        self._longest_ms = max(timeout_ms, min(_TIMEOUTS_MAX * timeout_ms, _PUT_OFF_MS))
        self._now_ms = now_ms
        self._core_wait_ns = core_wait_ns
        self._flushed_ms = 0
        self._waited_ns = 0
        """The value of `core_wait_ns` at the last flush."""
        self._since_ms = 0
        """When the first record that waits now was found."""
        self.at_ms: int | None = None
        """When the next flush is due (ms); None: no record waits, or the timeout is disabled."""

    def flush_due(self) -> None:
        """Start the timeout if records wait since this step, and flush if it has expired."""
        if not any(edge.pending for edge in self._edges):
            self.at_ms = None
            return
        if self._timeout_ms < 0:
            return
        now_ms = self._now_ms()
        if self.at_ms is None or now_ms < self._since_ms:
            # In the second case the clock was set back: records would wait that much longer.
            # The timeout counts from the last flush: the first records after a pause leave immediately, and there is
            # still at most one flush per timeout.
            self._since_ms = now_ms
            self.at_ms = min(max(now_ms, self._flushed_ms + self._timeout_ms), now_ms + self._timeout_ms)
        if now_ms >= self.at_ms and not self._put_off(now_ms):
            for edge in self._edges:
                edge.flush()
            self.at_ms = None
            self._flushed_ms = now_ms

    def _put_off(self, now_ms: int) -> bool:
        """Postpone the flush by the time in which the thread had no core. Returns whether it is still to come."""
        waited_ns = self._core_wait_ns()
        later_ms = self._flushed_ms + self._timeout_ms + (waited_ns - self._waited_ns) // 1_000_000
        later_ms = min(later_ms, self._since_ms + self._longest_ms)
        if now_ms < later_ms:
            self.at_ms = later_ms
            return True
        self._waited_ns = waited_ns
        return False


class LatencyMarkers:
    """Sends latency markers from a source at an interval; measures and forwards them in every task.

    With `interval_ms` 0 a source sends no markers. Source: Flink docs, "Metrics", Latency tracking.
    """

    __slots__ = ("_counters", "_edges", "_interval_ms", "_next_ms", "_now_ms", "_sent", "_subtask")

    def __init__(
        self,
        subtask: SubtaskId,
        edges: Sequence[OutputEdge],
        counters: TaskCounters,
        interval_ms: int,
        now_ms: Callable[[], int],
    ) -> None:
        self._subtask = subtask
        self._edges = edges
        self._counters = counters
        self._interval_ms = interval_ms
        self._now_ms = now_ms
        self._next_ms = 0
        self._sent = 0

    def begin(self) -> None:
        """Send a marker if one is due. Sources call this."""
        if self._interval_ms and (now_ms := self._now_ms()) >= self._next_ms:
            self._next_ms = now_ms + self._interval_ms
            self._send(LatencyMarker(now_ms, *self._subtask))

    def arrived(self, marker: LatencyMarker) -> None:
        """Record the latency of a marker that arrived, and forward the marker."""
        self._counters.latency(self._now_ms() - marker.marked_ms)
        self._send(marker)

    def _send(self, marker: LatencyMarker) -> None:
        # To one channel of each edge, in turn: a marker measures one path, and the other paths pay nothing.
        self._sent += 1
        for edge in self._edges:
            edge.element_to_one(marker, self._sent)


class LoopProbe:
    """Tells the JobMaster when a task of a loop is at rest. `round`: the probe that waits for an answer, or None.

    A task is at rest if its inputs from outside the loop have ended, all received data is processed, and all output is
    sent. The JobMaster decides by the counts of all tasks of the loop (`engine/jobmaster/loops.py`). Pending timers in
    processing time do not keep a loop running.
    """

    def __init__(self, inputs: TaskInputs, edges: Sequence[OutputEdge], operators: Sequence[Operator]) -> None:
        self.round: int | None = None
        self._inputs = inputs
        self._edges = [edge for edge in edges if edge.info.in_loop]
        self._operators = operators

    def asked(self, event: ProbeLoop) -> None:
        """Accept a probe. The task answers it when it is at rest."""
        self.round = event.round

    @property
    def at_rest(self) -> bool:
        """Whether the task can emit nothing more unless the loop brings records. The task has no work."""
        from_outside = self._inputs.from_outside
        return all(channel.input.has_ended(channel) for channel in from_outside) and not any(
            operator.in_flight for operator in self._operators
        )

    def counted(self) -> tuple[int, int]:
        """Flush, and return how many chunks and elements the task has sent and received within the loop.

        Barriers are not counted: they cause no records, and a job whose checkpoints follow each other without a pause
        always has a barrier in the loop.
        """
        for edge in self._edges:
            edge.flush()
        received = sum(channel.items for channel in self._inputs.in_loop)
        return sum(edge.sender.items_sent for edge in self._edges), received


class TaskState(enum.Enum):
    """The states of a task; see the module's docstring."""

    CREATED = "created"
    RUNNING = "running"
    DATA_ENDED = "data ended"
    FINISHED = "finished"


class Task:
    """A subtask. The host calls `open`, then `receive`, `handle` and `step`, as `busy` and `wake_at_ms` say."""

    def __init__(self, vertex: VertexSpec, level: LevelSpec, subtask: int, environment: Environment) -> None:
        self.vertex = vertex
        self.id = SubtaskId(vertex.id, subtask)
        self.info = level.subtask_info(vertex, subtask, environment.run)
        self._sorts_inputs = level.mode.sorts_inputs
        self.state = TaskState.CREATED
        self.counters = TaskCounters()
        self.journal = Journal()
        self.effects: list[Effect] = []
        self._now_ms = environment.now_ms
        self._clock = environment.clock
        self._budget = environment.budget
        self._work: deque[Work] = deque()
        key_groups = KeyGroups(vertex.max_parallelism)
        self._supersteps = Supersteps() if vertex.in_supersteps else None
        self.edges = output_edges(
            vertex, self.info, self.counters, key_groups, environment=environment, supersteps=self._supersteps
        )
        context = self._context(environment, key_groups, level)
        self._async_calls = context.async_calls
        self.chain = wired_chain(vertex, context, self.edges, level)
        self.counters.operators = self.chain.counters
        head = self.chain.head
        first = environment.first_records
        timeout_ms = -1 if level.mode.blocking_exchanges else vertex.buffer_timeout_ms
        self._polling = None
        if isinstance(head, SourceOperator):
            clock = pacing_clock(head.gives, self._clock, environment.core_wait_ns)
            pause_ms = pause_of(timeout_ms) if self.edges else 0
            self._polling = Polling(head, self.chain, clock, first_records=first, pause_ms=pause_ms)
        interval_ms = level.latency_interval_ms
        self._latency = LatencyMarkers(self.id, self.edges, self.counters, interval_ms, now_ms=self._now_ms)
        self.inputs = self._task_inputs(environment)
        self._channels = self.inputs.by_id
        self._sorted = sorted_inputs(vertex, level, self.chain, work=self._work, environment=environment)
        parts = TaskParts(
            id=self.id,
            info=self.info,
            vertex=vertex,
            level=level,
            environment=environment,
            key_groups=key_groups,
            chain=self.chain,
            edges=self.edges,
            inputs=self.inputs,
            work=self._work,
            counters=self.counters,
            # A lambda, so that `request` is looked up at each call: the simulator's checks replace it.
            request=lambda effect: self.request(effect),
        )
        self._checkpoints = TaskCheckpoints(parts)
        self._feedback = self._with_feedback(parts)
        self._probe = LoopProbe(self.inputs, self.edges, self.chain.operators)
        self._awaits_peers = any(edge.info.feedback for edge in self.edges)
        """Whether the task must not start yet: it does not know the slots that it feeds records back to."""
        self._flush_timer = FlushTimer(self.edges, timeout_ms, self._now_ms, environment.core_wait_ns)
        self._handlers = self._handled_events()

    def _context(self, environment: Environment, key_groups: KeyGroups, level: LevelSpec) -> TaskContext:
        open_loop, vertex, counters = environment.open_event_loop, self.id.vertex, self.counters
        return TaskContext(
            info=self.info,
            now_ms=environment.now_ms,
            budget=environment.budget,
            key_groups=key_groups,
            stores=environment.stores,
            # For idleness: a source that cannot emit because of back pressure is not idle.
            unblocked_ms=lambda: environment.now_ms() - counters.back_pressured_ns // 1_000_000,
            request_split=lambda: self.request(RequestSplit(*self.id)),
            # Pickled here, not where the message is encoded: the encoder cannot name the operator in an error.
            deliver_result=lambda sink, values: self.request(
                Result(*self.id, sink, Opaque.pickled(values), self._checkpoints.last)
            ),
            report_watermark=lambda group, watermark: self.request(ReportWatermark(*self.id, group, watermark)),
            notify_available=lambda: environment.notify(vertex),
            memory=environment.memory,
            supersteps=self._supersteps,
            open_spill=environment.open_spill,
            sorted_inputs_bytes=level.sorted_inputs_bytes,
            async_calls=AsyncCalls(partial(open_loop, vertex) if open_loop is not None else no_event_loop),
        )

    def _task_inputs(self, environment: Environment) -> TaskInputs:
        return TaskInputs(
            self.vertex,
            self.id.subtask,
            chain=self.chain,
            work=self._work,
            clock=pacing_clock(self.chain.head.takes, self._clock, environment.core_wait_ns),
            first_records=environment.first_records,
            on_marker=self._latency.arrived,
            on_end=self._end_operators,
            supersteps=self._supersteps,
            on_begin=self._superstep_begins,
        )

    def _with_feedback(self, parts: TaskParts) -> Feedback | SuperstepFeedback | None:
        """Create the feedback of the head of an iteration; None in all other tasks."""
        head, logs = self.chain.head, self._checkpoints.logs
        feedback: Feedback | SuperstepFeedback
        if isinstance(head, SuperstepHead) and self._supersteps is not None:
            feedback = SuperstepFeedback(parts, head, logs, self._supersteps)
        elif isinstance(head, IterationHead):
            feedback = Feedback(parts, head, logs)
        else:
            return None
        self._checkpoints.feedback = feedback
        return feedback

    def _superstep_begins(self, begin: BeginOfSuperstep) -> None:
        assert self._supersteps is not None
        self._supersteps.begins(begin, self.edges)

    def _handled_events(self) -> dict[type[Event], Callable[[Any], None]]:
        checkpoints, work = self._checkpoints, self._work
        return {
            # Queued, to keep the order with triggers: a split assigned after a trigger is not in its snapshot.
            AssignSplits: lambda event: work.append(partial(self._source.add_splits, event.splits.value)),
            NoMoreSplits: lambda event: work.append(self._source.no_more_splits),
            DataAvailable: lambda event: self._source.data_available(),
            AlignWatermarks: lambda event: self._source.align(event.max_watermark),
            # Not queued: the chain may be waiting for this call.
            CallsEnded: lambda event: self._async_calls.ended(event.outcomes),
            InputEnded: self._input_ended,
            Drain: lambda event: work.append(self._end_early),
            Peers: self._peers_known,
            ProbeLoop: self._probe.asked,
            EndLoop: self._end_loop,
            **StateReader(self.id, self.chain, lambda effect: self.request(effect)).handlers,
            SnapshotWritten: lambda event: checkpoints.written(event, ended=self.state is TaskState.DATA_ENDED),
            **checkpoints.handlers,
            Close: self._close,
            Cancel: self._cancel,
        }

    # Called by hosts.

    @property
    def channels(self) -> list[ChannelId]:
        """The channels that the task receives from."""
        return [channel.id for channel in self.inputs.channels]

    @property
    def snapshots(self) -> Snapshots:
        """The snapshots of the task, and the files of the last one."""
        return self._checkpoints.snapshots

    def restore(self, state: dict[str, RestoredOperator], storage: SnapshotStorage) -> int:
        """Restore state, before `open`. Returns the number of bytes read; raises CheckpointError."""
        return self.snapshots.restore(state, storage)

    def open(self) -> None:
        """Open the operators: users' `open` methods run."""
        assert self.state is TaskState.CREATED
        self.chain.open()
        if self._feedback is not None:
            self._feedback.open()
        self._checkpoints.open()
        self.state = TaskState.RUNNING

    def receive(self, header: Header, buffer: bytes) -> None:
        """Accept a buffer from one of the task's channels."""
        channel = self._received(header, buffer)
        if header.key_group != NO_KEY_GROUP and self._sorted is not None:
            self._sorted.receive(header.key_group, channel.input.index, buffer)
            return
        self._checkpoints.receive(channel, buffer)

    def may_join(self, header: Header) -> bool:
        """Return whether to receive a buffer although work waits: its columns may join the last ones in the queue."""
        if self.state is TaskState.FINISHED or self.waiting or self._checkpoints.alignment.has_waiting:
            return False
        return self.inputs.may_join(self._channels[header.edge, header.sender])

    def receive_feedback(self, header: Header, buffer: bytes) -> None:
        """Accept a buffer that was fed back to the head of an iteration."""
        assert self._feedback is not None
        channel = self._received(header, buffer)
        # The buffer may have been in transit when the task was closed.
        if self.state is not TaskState.FINISHED:
            self._feedback.receive(channel, header, buffer)

    @property
    def feedback_awaited(self) -> int:
        """How many buffers of feedback have to come before the task can do anything with them."""
        return 1 if self._feedback is None else self._feedback.awaited

    def _received(self, header: Header, buffer: bytes) -> InputChannel:
        channel = self._channels[header.edge, header.sender]
        self.counters.buffers_in += 1
        self.counters.bytes_in += len(buffer)
        if not self._sorts_inputs:
            assert header.sequence == channel.sequence, (
                f"{channel.id}: buffer {header.sequence}, expected {channel.sequence}\n{self.journal}"
            )
            channel.sequence += 1
        return channel

    def handle(self, event: Event) -> None:
        """Accept a control event. The next steps do its work; Close and Cancel act immediately."""
        if not isinstance(event, QUERIES):
            self.journal.note(self._now_ms(), event)
        # The event was in transit when the task was closed: a reader, for example, is closed as well.
        if self.state is TaskState.FINISHED:
            return
        self._handlers[type(event)](event)

    def step(self) -> None:
        """Do work within the budget, then flush if a flush is due."""
        started_ns = self._clock()
        if self.state is not TaskState.FINISHED and not self._awaits_peers:
            self._queue_due(self._now_ms())
            self._do_work()
            # Not while work waits: records that are read now would overtake it, barriers included.
            if self._polling is not None and not self._work and not self.chain.paused:
                self._poll(self._polling)
            if self._checkpoints.compacting:
                # A few entries per step: compaction of large state must not delay records, barriers or flushes.
                self._checkpoints.compact()
            self._flush_timer.flush_due()
            if self._probe.round is not None:
                self._answer_probe(self._probe.round)
        self.counters.busy_ns += self._clock() - started_ns

    @property
    def busy(self) -> bool:
        """Whether the task can do work now."""
        if self.state is TaskState.FINISHED or self._awaits_peers:
            return False
        if self.chain.paused:
            return not self.chain.waiting
        if self._work or self._checkpoints.alignment.has_waiting:
            return True
        return self._polling is not None and self._is_live and self._polling.is_due(self._now_ms())

    @property
    def waiting(self) -> bool:
        """Whether the task is blocked until a call completes or a timeout expires: it processes no more input."""
        return self.state is not TaskState.FINISHED and (self._awaits_peers or self.chain.waiting)

    def wake_at_ms(self) -> int | None:
        """Return when to call `step` even if nothing arrives (ms): for a timer, a flush, or a poll of the source."""
        if self.state is TaskState.FINISHED or self._awaits_peers:
            return None
        if self._checkpoints.compacting:
            return self._now_ms()
        times = [self._flush_timer.at_ms, self._checkpoints.wake_at_ms()]
        if self._is_live:
            times.append(self.chain.wake_at_ms())
            if self._polling is not None and not self.chain.paused:
                times.append(self._polling.at_ms)
            if self._feedback is not None:
                times.append(self._feedback.wake_at_ms())
        return earliest(*times)

    def request(self, effect: Effect) -> None:
        """Add an effect for the host."""
        self.effects.append(effect)

    def take_effects(self) -> list[Effect]:
        """Return the effects since the last call."""
        effects, self.effects = self.effects, []
        return effects

    def check(self) -> None:
        """Assert the invariants between any two events."""
        assert self.state is not TaskState.FINISHED or not self._work
        assert not (self.state is TaskState.DATA_ENDED and self.chain.paused), "paused after the end of data"
        self.inputs.check()

    # Control events.

    def _input_ended(self, event: InputEnded) -> None:
        if self._sorted is not None:
            self._sorted.end()
        self._work.extend(input.end_input for input in self.inputs.inputs)
        if self._sorted is not None:
            self._work.append(self._sorted.flush)
        self._work.append(self._end_time)

    def _close(self, event: Close) -> None:
        # A checkpoint may have been triggered just before. The job has ended, so its snapshot would be discarded.
        self._work.clear()
        self.snapshots.return_committables()
        try:
            for operator in self.chain.operators:
                operator.job_ended()
        finally:
            self._finish()

    def _cancel(self, event: Cancel) -> None:
        self._work.clear()
        self.snapshots.return_committables()
        self.chain.abandon()
        self._finish()

    def _finish(self) -> None:
        # The state first: `close` may raise, and nothing is closed twice. The effect last: a function that fails to
        # write in `close` must not go unnoticed.
        self.state = TaskState.FINISHED
        self._checkpoints.close()
        if self._feedback is not None:
            self._feedback.close()
        if self._sorted is not None:
            self._sorted.close()
        self.chain.close()
        self.request(Finished(*self.id))

    # Loops.

    def _peers_known(self, event: Peers) -> None:
        self._awaits_peers = False

    def _answer_probe(self, round: int) -> None:
        aligning = self._checkpoints.alignment.current is not None or self._checkpoints.alignment.has_waiting
        holds = self._feedback is not None and self._feedback.holds_records
        if self._work or self.chain.paused or aligning or holds or not self._probe.at_rest:
            return
        self._probe.round = None
        self.request(LoopQuiet(*self.id, round, *self._probe.counted()))

    def _end_loop(self, event: EndLoop) -> None:
        if self._feedback is not None:
            self._feedback.end()

    # Work items, in the order in which they were queued.

    def _queue_due(self, now_ms: int) -> None:
        self._checkpoints.overtake_if_due(now_ms)
        if self._is_live and not self.chain.paused:
            # Processing-time timers, watermark intervals, state that expires.
            for operator in self.chain.due(now_ms):
                self._work.appendleft(partial(operator.processing_time, now_ms))
            if self._feedback is not None:
                self._feedback.end_if_due(now_ms)

    def _do_work(self) -> None:
        work, chain, alignment = self._work, self.chain, self._checkpoints.alignment
        may_continue = self._budget.may_continue
        while True:
            # A paused chain still holds records of the previous item, which the next item would overtake. Check again
            # after `resume`: the resumed operator may have paused an operator behind it.
            if chain.paused and (not chain.resume() or chain.paused):
                return
            if not work and alignment.has_waiting:
                self._checkpoints.deliver_next()
            if not work or not may_continue():
                return
            work.popleft()()

    def _end_time(self) -> None:
        """Batched mode: advance event time to its end, then finish the operators."""
        self._end_operators()
        self.chain.head.watermark(MAX_TIMESTAMP)

    def _end_operators(self) -> None:
        """Finish the operators before the queued work, since all inputs have ended. Then the task's data has ended.

        The queue may hold the barrier of a savepoint that stops the job. Records behind that barrier would be committed
        at the end, and the job that is restored from the savepoint would write them again.
        """
        endings = self.chain.endings()
        if self._sorted is not None:
            # After the head's ending: what the head emits then has to arrive before the operators behind it end.
            endings.insert(1, self._sorted.flush)
        self._work.appendleft(partial(self._end_next, endings))

    def _end_next(self, endings: list[Callable[[], bool]]) -> None:
        if endings:
            # Queued before the call: work that the call puts at the head of the queue comes before the next ending.
            self._work.appendleft(partial(self._end_next, endings[1:]))
            endings[0]()
            return
        for edge in self.edges:
            edge.element(EndOfData())
            edge.flush()
        self.state = TaskState.DATA_ENDED
        self.request(DataEnded(*self.id))

    # A source.

    @property
    def _source(self) -> SourceOperator:
        assert self._polling is not None, f"{self.info} is not a source"
        return self._polling.source

    @property
    def _is_live(self) -> bool:
        """Whether the task may still read records and fire timers."""
        return self.state is TaskState.RUNNING and self._checkpoints.stopped_by is None

    def _poll(self, polling: Polling) -> None:
        if not self._is_live or polling.source.ended:
            return
        self._latency.begin()
        now_ms = self._now_ms()
        if polling.is_due(now_ms):
            polling.poll(self._budget.may_continue, now_ms)
            if self._source.ended:
                self._work.append(self._end_source)
                self._do_work()

    def _end_early(self) -> None:
        assert self._checkpoints.stopped_by is None, "a job that stops with a savepoint was drained"
        if self._feedback is not None:
            self._feedback.drain()
            return
        source = self._source
        if not source.ended and self.state is TaskState.RUNNING:
            source.ended = True
            self._work.append(self._end_source)

    def _end_source(self) -> None:
        self._end_operators()
        self._source.end_time()
