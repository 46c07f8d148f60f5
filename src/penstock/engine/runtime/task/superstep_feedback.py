"""Feedback to the head of a structured iteration: it waits for the next superstep, and the heads agree by themselves.

Each sender of feedback ends a superstep on its channels to all heads, with numbers that are the same for all. So all
heads, in all subtasks, decide the same: `decided` is the last superstep that all senders have ended.

    state      event                                          next       effects
    READING    record of the initial input                    READING    it is emitted, in superstep 0
    READING    its end                                        RUNNING    superstep 0 ends
    READING    (when opened) its input is unbounded           RUNNING    superstep 0 ends
    READING    barrier n; an iteration before this one runs   READING    take the snapshot, if nothing was fed back
    READING    otherwise barrier n                            READING    decline n
    any        record on a feedback channel                   same       it waits for a later superstep
    any        all channels have ended a superstep            same       decide
    RUNNING    ended, and the next superstep may begin        BETWEEN
    RUNNING    ended, decided, and a boundary for barriers    BETWEEN    the barriers that wait at all heads leave
    BETWEEN    (next work item) the iteration continues       RUNNING    emit what waits, then the superstep ends
    BETWEEN    (next work item) it has ended                  ENDED      emit what waits as the result; end the input
    RUNNING    barrier n; a stream from outside may be read   RUNNING    decline n
    RUNNING    otherwise barrier n                            RUNNING    n waits for a boundary
    ENDED      barrier of checkpoint n                        ENDED      take the snapshot
    ENDED      record on a feedback channel                   ENDED      it is dropped: no superstep follows
    BETWEEN    the job stops with savepoint n                 STOPPED    nothing leaves, unless n is aborted
    RUNNING    nothing is fed back, and more may come         WAITING
    WAITING    input, a barrier, feedback, or a begin         BETWEEN    the others learn of it by the begin
    BETWEEN    the checkpoint of the last boundary is open    HELD       only if each superstep has a checkpoint
    HELD       it is complete, or aborted                     BETWEEN

Superstep n may begin when n - 1 - slack is decided, but the second one of a run not before the first: by then all have
read their input, or know again that it has ended.
Feedback of a sender in its superstep k belongs to a superstep from k + 1 - slack to k + 1 + slack, the next one that
begins. The iteration ends slack supersteps after the one that was decided to be its last. With slack 0 all of this is
the bulk-synchronous loop. Source of the clocks: Ho et al., "More Effective Distributed ML via a Stale Synchronous
Parallel Parameter Server" (2013).

The input of a head may be unbounded. Then superstep 0 does not wait for it: what arrives waits for the superstep that
begins next (`held_input.py`), and the iteration ends when all inputs have ended and nothing is fed back.

At a boundary nothing is in flight in the iteration: what waits here is all that a snapshot needs, and a restored
iteration continues with the next superstep. A barrier must leave all heads at the same boundary. A head that ends a
superstep says which barrier waits at it, tasks behind it pass on the least of what they hear, and so all heads learn
which barrier waits at all of them; the boundary is behind the last superstep that a head may have begun by then.
In the first superstep of a run, operators behind the heads may still read streams from outside. A barrier on one would
hold back the end of that stream until the heads' barriers come, which wait for the end of the superstep: so the heads
decline it, until they have decided that superstep.
Reading is different: barriers would have to leave before other heads have one. Only while an iteration before this one
runs, all heads read, and know it from the same places of their input: a barrier that has left that one at a boundary
passes all heads, and returns on the feedback. What superstep 0 has by then is in the state of its operators; where it
is not, or has been fed back, the checkpoint is declined. If each superstep is to have a
checkpoint, heads wait for barriers and for checkpoints (`boundary_checkpoints.py`).
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable
from functools import partial

from penstock.engine.runtime.checkpoint_options import DeclineReason
from penstock.engine.runtime.chunks import Chunk, ChunkKind
from penstock.engine.runtime.network.buffer import (
    ELEMENTS,
    BeginOfSuperstep,
    BufferItem,
    CheckpointBarrier,
    EndOfSuperstep,
    Header,
    decode_header,
    decode_items,
    encode,
)
from penstock.engine.runtime.network.channel_log import ChannelLog
from penstock.engine.runtime.network.set_aside import BufferQueue
from penstock.engine.runtime.operators.iteration import INPUT
from penstock.engine.runtime.operators.superstep_head import SuperstepHead
from penstock.engine.runtime.task.boundary_checkpoints import BoundaryCheckpoints
from penstock.engine.runtime.task.environment import TaskParts
from penstock.engine.runtime.task.held_input import Barrier, HeldInput
from penstock.engine.runtime.task.inputs import InputChannel
from penstock.engine.runtime.task.snapshot import TaskSnapshot
from penstock.engine.runtime.task.snapshot_logs import SnapshotLogs, replay
from penstock.engine.runtime.task.superstep_decisions import Decisions
from penstock.engine.runtime.task.supersteps import Supersteps


class HeadState(enum.Enum):
    """The states of a head; see the module's docstring."""

    READING = "reading"
    RUNNING = "running"
    BETWEEN = "between"
    WAITING = "waiting"
    HELD = "held"
    STOPPED = "stopped"
    ENDED = "ended"


class SuperstepFeedback:
    """The feedback of a task with the head of a structured iteration."""

    def __init__(self, parts: TaskParts, head: SuperstepHead, logs: SnapshotLogs, supersteps: Supersteps) -> None:
        self.state = HeadState.READING
        self._head = head
        self._supersteps = supersteps
        self._logs = logs
        self._inputs = parts.inputs
        self._edges = parts.edges
        self._work = parts.work
        self._budget = parts.environment.budget
        self._info = parts.info
        self._key_groups = parts.key_groups
        self._new_queue = parts.new_queue
        self._fed_back = [(edge, partitioner) for edge, partitioner in parts.vertex.inputs if edge.feedback]
        roles = {edge.id: edge.role for edge, _ in self._fed_back}
        of_channels = {one.id: roles[one.id.edge] for one in parts.inputs.fed_back.channels}
        self._decisions = Decisions(head.rules, head.name, of_channels)
        self._fed: dict[int, BufferQueue] = {}
        """The feedback that waits, by the superstep in which its sender was."""
        self._number = 0
        """The superstep that runs, or has run last."""
        self._has_ended = False
        """Whether it has emitted the end of that superstep itself."""
        self._boundary: int | None = None
        """The superstep behind which barriers leave next; None: there is none to leave."""
        self._left = 0
        """The newest checkpoint whose barrier has left at a boundary."""
        self._barriers: list[Barrier] = []
        """The checkpoints whose barriers wait, and what takes the snapshot of each."""
        self._returned = dict.fromkeys(of_channels, 0)
        """The newest barrier that has come back on each channel, if iterations are before this one."""
        self._stops = False
        self._input = HeldInput(head.is_unbounded, parts.new_queue)
        """The unbounded input that has arrived."""
        self._counters = parts.chain.counters[0]
        self._announced = 0
        """The newest checkpoint that the last end of a superstep said to wait here."""
        self._woken = 0
        """The last superstep that another head is known to have begun."""
        self._aborted: set[int] = set()
        level = parts.level
        # Supersteps that follow an unbounded stream begin when input arrives, however many that are.
        self._checkpoints = BoundaryCheckpoints(level.each_superstep and level.checkpointing and not head.is_unbounded)
        self._end_waits = False
        """Whether the superstep is to end as soon as a barrier waits."""
        head.initial_input_ended = self._initial_input_ended
        head.hold = self._hold

    @property
    def ended(self) -> bool:
        """Whether the iteration has ended."""
        return self.state is HeadState.ENDED

    @property
    def holds_records(self) -> bool:
        """Whether records wait that the operator has not processed."""
        return not self.ended and (any(self._fed.values()) or not self._input.is_empty)

    @property
    def awaited(self) -> int:
        """How many buffers are needed to continue: each sender that has not ended the superstep sends another one.

        With slack a superstep begins with what has come.
        """
        waits = self.state is HeadState.RUNNING and self._has_ended and not self._head.rules.slack
        return max(1, self._decisions.missing) if waits else 1

    def open(self) -> None:
        """Begin with superstep 0, or with the one before which the restored snapshot was taken."""
        place, self._head.place = self._head.place, None
        if place is None:
            self._begin(0)
            if self._head.is_unbounded:
                self.state = HeadState.RUNNING
                self._work.append(self._end_superstep)
            return
        self._number, self._has_ended = place.number - 1, True
        self._decisions.restore(place)
        self._checkpoints.restored(place.number)
        self.state = HeadState.BETWEEN
        self._start(restored=True)

    # Feedback.

    def receive(self, channel: InputChannel, header: Header, buffer: bytes) -> None:
        """Queue a buffer that came back."""
        self._work.append(partial(self._unpack, channel, buffer))

    def _unpack(self, channel: InputChannel, buffer: bytes) -> None:
        items = decode_items(buffer)
        channel.items += len(items)
        ends = [item for item in items if type(item) is EndOfSuperstep]
        records = [item for item in items if type(item) not in ELEMENTS]
        begins = [item.number for item in items if type(item) is BeginOfSuperstep]
        if self._head.has_earlier:
            self._note_returned(channel, items)
        if records or begins:
            self._woken = max([self._woken, *begins])
            self._wake()
        # A timer in processing time may fire behind the last superstep: no other one would have its records.
        if records and not self.ended:
            # A sender ends a superstep before it gets records of the next one: records belong to one superstep.
            behind = items[items.index(ends[0]) :] if ends else []
            assert ELEMENTS.issuperset(map(type, behind)), "records behind the end of a superstep"
            # As it came: to encode the records without their end would cost as much as to send them.
            self._queue_of(self._decisions.clocks[channel.id]).append(buffer)
        for end in ends:
            self._decisions.ended(channel.id, end)
            self._decide()

    def _note_returned(self, channel: InputChannel, items: list[BufferItem]) -> None:
        """Note what returns of a superstep 0 that a barrier has passed: nothing may be before the barrier."""
        for item in items:
            if type(item) is CheckpointBarrier:
                # A head whose chain is fed back may send it to this one before its own has arrived.
                self._returned[channel.id] = item.checkpoint_id
                self._logs.barrier(channel.id, item.checkpoint_id)
            elif type(item) not in ELEMENTS:
                self._logs.refuse(channel.id, DeclineReason.ITERATION)

    def _queue_of(self, superstep: int) -> BufferQueue:
        if superstep not in self._fed:
            self._fed[superstep] = self._new_queue()
        return self._fed[superstep]

    # Supersteps.

    def _initial_input_ended(self) -> None:
        if self._head.is_unbounded:
            self._input.end()
            self._wake()
        elif self.state is HeadState.READING:
            self.state = HeadState.RUNNING
            self._work.appendleft(self._end_superstep)

    def _hold(self, chunk: Chunk) -> bool:
        """Hold records of an unbounded input."""
        # They count when they are emitted.
        self._count_input(-len(chunk))
        self._counters.records_in -= len(chunk)
        self._input.hold(chunk, ChunkKind.ROWS)
        self._wake()
        return True

    def _count_input(self, records: int) -> None:
        self._inputs.inputs[INPUT].records_in += records

    def _wake(self) -> None:
        """Begin the next superstep, if the head waits for a reason to."""
        if self.state is HeadState.WAITING:
            self.state = HeadState.BETWEEN
            # Behind all queued work: it may be more input.
            self._work.append(self._start)

    def _begin(self, number: int) -> None:
        self._head.number = self._number = number
        self._has_ended = False
        decisions = self._decisions
        self._supersteps.begins(
            BeginOfSuperstep(number, decisions.aggregates_for(number), decisions.waits), self._edges
        )

    @property
    def _may_read_outside(self) -> bool:
        """Whether an operator of the iteration may still read a stream from outside."""
        return self._head.reads_outside and self._decisions.in_first

    def _end_superstep(self) -> None:
        self._end_waits = not self._may_read_outside and not self._checkpoints.may_end(len(self._barriers))
        if self._end_waits:
            return
        waiting = max((number for number, _ in self._barriers), default=0)
        self._announced = waiting
        end = EndOfSuperstep(self._number, checkpoint=waiting, is_open=self._input.is_open)
        self._supersteps.sender_ended(end)
        self._head.end_superstep()
        # As work, when the operators of the chain have taken the end.
        self._work.appendleft(self._own_end)

    def _own_end(self) -> None:
        self._supersteps.leave()
        self._has_ended = True
        self._decide()

    def _decide(self) -> None:
        """Decide what can be decided, and proceed if that allows it."""
        decisions = self._decisions
        # Of a head that nothing is derived from, all others may have ended the superstep before itself.
        while decisions.is_complete and decisions.decided < self._number - (not self._has_ended):
            decisions.decide()
            if self._boundary is None and decisions.agreed > self._left:
                self._boundary = decisions.latest
        if self.state is HeadState.RUNNING and self._has_ended:
            self._proceed()

    def _proceed(self) -> None:
        """Proceed behind the superstep that it has ended, if what has been decided allows it."""
        decisions, number = self._decisions, self._number
        if number == self._boundary:
            if decisions.decided < number:
                return
            leaving = [take for checkpoint_id, take in self._barriers if checkpoint_id <= decisions.agreed]
            self._barriers = [one for one in self._barriers if one[0] > decisions.agreed]
            self._left, self._boundary = decisions.agreed, None
            # Before all queued work: feedback of the next superstep may be in the queue already.
            self.state = HeadState.BETWEEN
            self._work.extendleft(reversed([*leaving, self._continue]))
        elif decisions.may_follow(number):
            self._continue()

    def _continue(self) -> None:
        """Begin the next superstep, or end the iteration, or wait for a reason to begin one."""
        barriers = self._barriers
        if self._stops:
            self.state = HeadState.STOPPED
        elif not self._checkpoints.may_begin(self._number + 1):
            self.state = HeadState.HELD
        elif (
            self._decisions.waits
            and self._woken <= self._number
            and (self._input.is_empty or barriers)
            and not any(checkpoint_id > self._announced for checkpoint_id, _ in barriers)
        ):
            self.state = HeadState.WAITING
        else:
            self.state = HeadState.BETWEEN
            self._work.appendleft(self._start)

    def _start(self, restored: bool = False) -> None:
        """Begin the next superstep, or end the iteration."""
        number = self._number + 1
        if self._decisions.has_ended_with(self._number):
            self.state = HeadState.ENDED
            self._head.has_ended = self._supersteps.has_ended = True
            behind_workset: list[Callable[[], object]] = [self._head.end_iteration, self._end_inputs]
        else:
            self.state = HeadState.RUNNING
            self._begin(number)
            behind_workset = [self._end_superstep]
        if restored:
            logged, self._head.restored = self._head.restored, []
            inputs = [self._inputs.fed_back] * len(self._fed_back)
            replay(logged, inputs, self._fed_back, info=self._info, key_groups=self._key_groups, work=self._work)
        else:
            # Before all queued work: a work item for each buffer.
            self._work.appendleft(partial(self._emit_next, self._input.take(self._barriers), self._count_input))
            self._work.appendleft(partial(self._emit_next, self._take_fed(number - 1 + self._head.rules.slack)))
        self._work.extend(behind_workset)

    def _take_fed(self, latest: int) -> deque[BufferQueue]:
        """Remove and return the feedback of supersteps up to `latest`."""
        return deque(self._fed.pop(superstep) for superstep in sorted(self._fed) if superstep <= latest)

    def _emit_next(self, worksets: deque[BufferQueue], count: Callable[[int], None] | None = None) -> None:
        while worksets and not worksets[0]:
            worksets.popleft().close()
        if not worksets:
            return
        buffer = worksets[0].popleft()
        edge = decode_header(buffer).edge
        self._work.appendleft(partial(self._emit_next, worksets, count))
        for item in reversed(_records_of(buffer)):
            chunk = self._inputs.decoded(edge, item)
            if count is not None:
                count(len(chunk))
            self._work.appendleft(partial(self._inputs.fed_back.records, chunk, 0))

    def _end_inputs(self) -> None:
        for _, take in self._barriers:
            # They waited for a boundary: now the end of the data stands before them.
            self._work.append(take)
        self._barriers = []
        self._inputs.end_feedback()

    # Snapshots.

    def defers(self, checkpoint_id: int, take: Callable[[], None], decline: Callable[..., None]) -> bool:
        """Return whether a barrier, which has arrived, waits for a boundary: then `take` is called there."""
        if self.state is HeadState.ENDED:
            return False
        if self._head.is_unbounded:
            # As work: records of the input that came before it may wait in the queue.
            self._work.append(partial(self._hold_barrier, checkpoint_id, take, decline))
        elif self.state is HeadState.READING:
            # As work: what came before it, such as the end of the input, may wait in the queue.
            self._work.append(partial(self._while_reading, checkpoint_id, take, decline))
        else:
            self._wait_for_boundary(checkpoint_id, take, decline)
        return True

    def _wait_for_boundary(self, checkpoint_id: int, take: Callable[[], None], decline: Callable[..., None]) -> None:
        if self._may_read_outside:
            decline(checkpoint_id, DeclineReason.ITERATION)
            return
        self._barriers.append((checkpoint_id, take))
        self._wake()
        if self._end_waits:
            self._end_waits = False
            self._work.append(self._end_superstep)

    def _while_reading(self, checkpoint_id: int, take: Callable[[], None], decline: Callable[..., None]) -> None:
        if checkpoint_id in self._aborted:
            return
        if self.ended:
            take()
        elif self.state is not HeadState.READING:
            self._wait_for_boundary(checkpoint_id, take, decline)
        elif self._awaits_earlier and self._nothing_fed:
            take()
        else:
            decline(checkpoint_id, DeclineReason.ITERATION)

    @property
    def _nothing_fed(self) -> bool:
        return not any(self._fed.values())

    @property
    def _awaits_earlier(self) -> bool:
        """Whether it reads, and an iteration before this one runs: then all heads of this one read."""
        return self.state is HeadState.READING and self._head.has_earlier and self._head.earlier_runs

    def _hold_barrier(self, checkpoint_id: int, take: Callable[[], None], decline: Callable[..., None]) -> None:
        if self.ended:
            take()
        elif self._may_read_outside:
            decline(checkpoint_id, DeclineReason.ITERATION)
        elif checkpoint_id not in self._aborted:
            self._input.barrier((checkpoint_id, take))
            self._wake()

    def barrier_leaves(self, checkpoint_id: int, savepoint: bool) -> None:
        """Start the log of a barrier that leaves the head: it is complete, because nothing is in flight.

        While the head reads, that is known only when the barrier has returned on all channels.
        """
        log = ChannelLog([edge for edge, _ in self._fed_back], self._info.parallelism, self._new_queue())
        if self._awaits_earlier:
            missing = [channel for channel, barrier in self._returned.items() if barrier < checkpoint_id]
            self._logs.begin(checkpoint_id, log, missing)
            return
        for superstep in sorted(self._fed):
            # Other heads may have begun the next superstep already: feedback of that is behind the barrier.
            if superstep <= self._number:
                for buffer in self._fed[superstep]:
                    log.append(_without_elements(buffer))
        self._head.log = log
        self._head.place = self._decisions.place(self._number + 1)
        # Tasks do not learn when a savepoint is complete.
        if checkpoint_id not in self._aborted and not savepoint:
            self._checkpoints.left(checkpoint_id, self._number + 1)
        self._logs.begin(checkpoint_id, log, ())

    def frozen(self, snapshot: TaskSnapshot, stops: bool, aborted: bool) -> None:
        """Accept the frozen snapshot. `stops`: the job stops with it, and nothing leaves the head after it."""
        self._head.log = self._head.place = None
        self._stops = stops
        self._logs.frozen(snapshot)
        if aborted:
            # Its barrier may never return.
            self._logs.abort(snapshot.checkpoint_id)
        # The host writes it between steps: a long superstep in this one would delay it, and repeat after a failure.
        self._budget.end_step()

    def complete(self, checkpoint_id: int) -> None:
        """Continue if the next superstep waits for this checkpoint, which is complete."""
        self._checkpoints.complete(checkpoint_id)
        self._release_next()

    def _release_next(self) -> None:
        if self.state is HeadState.HELD and self._checkpoints.may_begin(self._number + 1):
            self.state = HeadState.BETWEEN
            self._work.append(self._continue)

    def drain(self) -> None:
        """Wait for no checkpoint any more: none begins while the job is drained."""
        self._checkpoints.release()
        self._release_next()
        if self._end_waits:
            self._end_waits = False
            self._work.append(self._end_superstep)

    def abort(self, checkpoint_id: int) -> None:
        """Forget a barrier that waits, or has left: its checkpoint was aborted."""
        self._checkpoints.abort(checkpoint_id)
        self._release_next()
        self._barriers = [one for one in self._barriers if one[0] != checkpoint_id]
        self._aborted.add(checkpoint_id)
        self._input.abort(checkpoint_id)
        if not self._input.is_empty:
            # Nothing holds back any more what was behind the barrier.
            self._wake()

    def release_held(self) -> None:
        """Continue: the savepoint that would have stopped the job was aborted."""
        self._stops = False
        if self.state is HeadState.STOPPED:
            self.state = HeadState.BETWEEN
            self._work.append(self._continue)

    # An iteration ends by itself, and never by a time.

    def end(self) -> None:
        """Refuse to end: only the heads decide that."""
        raise AssertionError("a structured iteration ends by its own decision")

    def wake_at_ms(self) -> int | None:
        """Return None: it waits for its senders."""
        return None

    def end_if_due(self, now_ms: int) -> None:
        """Do nothing: it waits for its senders."""

    def close(self) -> None:
        """Remove spilled buffers from disk."""
        for queue in self._fed.values():
            queue.close()
        self._input.close()


def _records_of(buffer: bytes) -> list[BufferItem]:
    """Return the chunks of a buffer, without the elements behind them."""
    return [item for item in decode_items(buffer) if type(item) not in ELEMENTS]


def _without_elements(buffer: bytes) -> bytes:
    """Return a buffer of the same chunks."""
    items = decode_items(buffer)
    records = [item for item in items if type(item) not in ELEMENTS]
    return buffer if len(records) == len(items) else encode(decode_header(buffer), records)
