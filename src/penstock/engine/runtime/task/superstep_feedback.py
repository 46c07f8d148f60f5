"""Feedback to the head of a structured iteration: it waits for the next superstep, and the heads agree by themselves.

Each sender of feedback ends a superstep on its channels to all heads, with numbers that are the same for all. So all
heads, in all subtasks, decide the same.

    state      event                                          next       effects
    READING    record of the initial input                    READING    it is emitted, in superstep 0
    READING    its end                                        RUNNING    superstep 0 ends
    READING    barrier of checkpoint n                        READING    decline n
    any        record on a feedback channel                   same       it waits for the next superstep
    RUNNING    all channels, and itself, have ended           BETWEEN    decide; barriers that wait at all heads leave
    BETWEEN    (next work item) the iteration continues       RUNNING    emit what waits, then the superstep ends
    BETWEEN    (next work item) it has ended                  ENDED      emit what waits as the result; end the input
    RUNNING    barrier of checkpoint n                        RUNNING    n waits for a boundary
    ENDED      barrier of checkpoint n                        ENDED      take the snapshot
    BETWEEN    the job stops with savepoint n                 STOPPED    nothing leaves, unless n is aborted

Between two supersteps nothing is in flight in the iteration: what waits here is all that a snapshot needs, and a
restored iteration continues with that superstep. A barrier must leave all heads at the same boundary. A head that ends
a superstep says which barrier waits at it, tasks behind it pass on the least of what they hear, and so all heads learn
which barrier waits at all of them. Reading is different: barriers would have to leave before other heads have one.
"""

from __future__ import annotations

import copy
import enum
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

from penstock.api.functions.aggregator import Aggregator
from penstock.common.errors import ProgramError
from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.checkpoint_options import DeclineReason
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.ids import ChannelId
from penstock.engine.runtime.network.buffer import (
    BeginOfSuperstep,
    CheckpointBarrier,
    EndOfSuperstep,
    Header,
    decode_items,
    encode,
)
from penstock.engine.runtime.network.channel_log import ChannelLog
from penstock.engine.runtime.network.edge import FeedbackRole
from penstock.engine.runtime.operators.superstep_head import SuperstepHead, SuperstepPlace
from penstock.engine.runtime.task.context import shortened
from penstock.engine.runtime.task.environment import TaskParts
from penstock.engine.runtime.task.inputs import InputChannel
from penstock.engine.runtime.task.snapshot import TaskSnapshot
from penstock.engine.runtime.task.snapshot_logs import SnapshotLogs, replay
from penstock.engine.runtime.task.supersteps import Aggregators, Supersteps, packed


class HeadState(enum.Enum):
    """The states of a head; see the module's docstring."""

    READING = "reading"
    RUNNING = "running"
    BETWEEN = "between"
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
        self._info = parts.info
        self._key_groups = parts.key_groups
        self._new_queue = parts.new_queue
        self._fed_back = [(edge, partitioner) for edge, partitioner in parts.vertex.inputs if edge.feedback]
        self._roles = {edge.id: edge.role for edge, _ in self._fed_back}
        self._channels = len(parts.inputs.fed_back.channels)
        self._workset = self._new_queue()
        """Between two supersteps: the workset of the next one."""
        self._next = self._new_queue()
        """The feedback of the superstep so far."""
        self._later = self._new_queue()
        """The feedback of senders that have ended the superstep already: other heads have begun the next one."""
        self._ends: dict[ChannelId, EndOfSuperstep] = {}
        """The ends of the current superstep, by channel."""
        self._later_ends: dict[ChannelId, EndOfSuperstep] = {}
        """The ends of the next one: a head that has all ends before this one is a superstep ahead."""
        self._barriers: list[tuple[int, Callable[[], None]]] = []
        """The checkpoints whose barriers wait, and what takes the snapshot of each."""
        self._aggregators: Aggregators = {name: (one, None) for name, one in head.rules.aggregators.items()}
        self._has_ended = False
        """Whether it has emitted the end of the superstep itself."""
        self._goes_on = True
        self._stops = False
        head.initial_input_ended = self._initial_input_ended

    @property
    def ended(self) -> bool:
        """Whether the iteration has ended."""
        return self.state is HeadState.ENDED

    @property
    def holds_records(self) -> bool:
        """Whether records wait that the operator has not processed."""
        return bool(self._workset or self._next or self._later)

    def open(self) -> None:
        """Begin with superstep 0, or with the one before which the restored snapshot was taken."""
        place, self._head.place = self._head.place, None
        if place is None:
            self._begin()
            return
        self._head.number, self._goes_on = place.number, not place.has_ended
        if place.aggregates:
            self._aggregators = pickle.loads(place.aggregates)
        self.state = HeadState.BETWEEN
        self._start(restored=True)

    # Feedback.

    def receive(self, channel: InputChannel, header: Header, buffer: bytes) -> None:
        """Queue a buffer that came back."""
        self._work.append(partial(self._unpack, channel, header, buffer))

    def _unpack(self, channel: InputChannel, header: Header, buffer: bytes) -> None:
        items = decode_items(buffer)
        channel.items += len(items)
        ends = [item for item in items if type(item) is EndOfSuperstep]
        records = [item for item in items if type(item) is not EndOfSuperstep and type(item) is not CheckpointBarrier]
        if records:
            # A sender ends a superstep before it gets records of the next one: records belong to one superstep.
            assert not ends or items.index(ends[0]) >= len(records), "records behind the end of their superstep"
            assert not self.ended, "feedback of an iteration that has ended"
            queue = self._later if channel.id in self._ends else self._next
            queue.append(buffer if len(records) == len(items) else encode(header, records))
        for end in ends:
            known = self._later_ends if channel.id in self._ends else self._ends
            expected = self._head.number + (known is self._later_ends)
            assert end.number == expected and channel.id not in known, (
                f"{channel.id} ends superstep {end.number}, in superstep {self._head.number}"
            )
            known[channel.id] = end
            self._decide_if_complete()

    # Supersteps.

    def _initial_input_ended(self) -> None:
        if self.state is HeadState.READING:
            self.state = HeadState.RUNNING
            self._work.appendleft(self._end_superstep)

    def _begin(self) -> None:
        self._supersteps.begins(BeginOfSuperstep(self._head.number, packed(self._aggregators)), self._edges)

    def _end_superstep(self) -> None:
        waiting = max((number for number, _ in self._barriers), default=0)
        self._supersteps.ended_before(EndOfSuperstep(self._head.number, checkpoint=waiting))
        self._head.end_superstep()
        # As work, when the operators of the chain have taken the end.
        self._work.appendleft(self._own_end)

    def _own_end(self) -> None:
        self._has_ended = True
        self._decide_if_complete()

    def _decide_if_complete(self) -> None:
        # Of a head that nothing is derived from, all others may have ended the superstep before itself.
        if self._has_ended and len(self._ends) == self._channels:
            self._has_ended = False
            self._decide()

    def _decide(self) -> None:
        """End the superstep: all that it has fed back is here."""
        assert self.state is HeadState.RUNNING
        ends = [self._ends[id] for id in sorted(self._ends)]
        roles = [self._roles[id.edge] for id in sorted(self._ends)]
        counted = {role: sum(e.records for e, r in zip(ends, roles, strict=True) if r is role) for role in set(roles)}
        self._ends, self._later_ends = self._later_ends, {}
        self._workset, self._next, self._later = self._next, self._later, self._new_queue()
        self._aggregate(ends)
        number, rules = self._head.number, self._head.rules
        converged = any(self._is_converged(name, number) for name in rules.criteria)
        self._goes_on = (
            counted.get(FeedbackRole.WORKSET, 0) + counted.get(FeedbackRole.COUNT, 0) > 0
            and counted.get(FeedbackRole.TERMINATION, 1) > 0
            and not converged
            and (rules.supersteps_max is None or number + 1 < rules.supersteps_max)
        )
        self._head.number = number + 1
        self.state = HeadState.BETWEEN
        agreed = min(end.checkpoint for end in ends)
        leaving = [take for checkpoint_id, take in self._barriers if checkpoint_id <= agreed]
        self._barriers = [one for one in self._barriers if one[0] > agreed]
        # Before all queued work: feedback of the next superstep may be in the queue already.
        self._work.extendleft(reversed([*leaving, self._start]))

    def _is_converged(self, name: str, number: int) -> bool:
        value = self._aggregators[name][1]
        try:
            return bool(self._head.rules.criteria[name].is_converged(number, value))
        except RAISED as error:
            raise ProgramError(
                f"the criterion of aggregator '{name}' in '{self._head.name}' failed for superstep {number} and the "
                f"value {shortened(value)}: {type(error).__name__}: {error}"
            ) from error

    def _aggregate(self, ends: list[EndOfSuperstep]) -> None:
        results: dict[str, Aggregator[Any]] = {}
        for name, (one, _) in self._aggregators.items():
            results[name] = copy.deepcopy(one)
            results[name].reset()
        # In the order of channels, which is the same for all heads: sums of floats depend on it.
        for end in ends:
            for name, value in (pickle.loads(end.aggregates) if end.aggregates else {}).items():
                results[name].aggregate(value)
        self._aggregators = {name: (one, results[name].get_aggregate()) for name, (one, _) in self._aggregators.items()}

    def _start(self, restored: bool = False) -> None:
        """Begin the next superstep, or end the iteration."""
        if self._stops:
            self.state = HeadState.STOPPED
            return
        if self._goes_on:
            self.state = HeadState.RUNNING
            self._begin()
            behind_workset: list[Callable[[], object]] = [self._end_superstep]
        else:
            self.state = HeadState.ENDED
            self._head.ends = self._supersteps.has_ended = True
            behind_workset = [self._head.end_iteration, self._end_inputs]
        if restored:
            logged, self._head.restored = self._head.restored, []
            inputs = [self._inputs.fed_back] * len(self._fed_back)
            replay(logged, inputs, self._fed_back, info=self._info, key_groups=self._key_groups, work=self._work)
        else:
            workset, self._workset = self._workset, self._new_queue()
            # Before all queued work: a work item for each buffer.
            self._work.appendleft(partial(self._emit_next, workset))
        self._work.extend(behind_workset)

    def _emit_next(self, workset: Any) -> None:
        if not workset:
            workset.close()
            return
        items = decode_items(workset.popleft())
        self._work.appendleft(partial(self._emit_next, workset))
        for item in reversed(items):
            assert isinstance(item, Rows)
            self._work.appendleft(partial(self._inputs.fed_back.records, item, 0))

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
        if self.state is HeadState.READING:
            decline(checkpoint_id, DeclineReason.ITERATION)
        else:
            self._barriers.append((checkpoint_id, take))
        return True

    def barrier_leaves(self, checkpoint_id: int) -> None:
        """Start the log of a barrier that leaves the head: it is complete, because nothing is in flight."""
        log = ChannelLog([edge for edge, _ in self._fed_back], self._info.parallelism, self._new_queue())
        for buffer in self._workset:
            log.append(buffer)
        self._head.log = log
        self._head.place = SuperstepPlace(self._head.number, not self._goes_on, packed(self._aggregators))
        self._logs.begin(checkpoint_id, log, ())

    def frozen(self, snapshot: TaskSnapshot, stops: bool, aborted: bool) -> None:
        """Accept the frozen snapshot. `stops`: the job stops with it, and nothing leaves the head after it."""
        self._head.log = self._head.place = None
        self._stops = stops
        self._logs.frozen(snapshot)

    def abort(self, checkpoint_id: int) -> None:
        """Forget a barrier that waits: its checkpoint was aborted."""
        self._barriers = [one for one in self._barriers if one[0] != checkpoint_id]

    def release_held(self) -> None:
        """Continue: the savepoint that would have stopped the job was aborted."""
        self._stops = False
        if self.state is HeadState.STOPPED:
            self.state = HeadState.BETWEEN
            self._work.append(self._start)

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
        for queue in (self._workset, self._next, self._later):
            queue.close()
