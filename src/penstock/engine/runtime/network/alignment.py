"""Barrier alignment: it decides when a task with several channels, of one or several inputs, takes a snapshot.

`last` is the newest checkpoint taken or aborted. A channel that has delivered barrier n is set aside: items that
arrive on it after n wait, in order, newer barriers and its end included. The rows below are for other channels.
Source: Flink docs, "Stateful Stream Processing"; State Management paper, 3.2.

    state        event on channel c               next         effects
    idle         barrier n, n > last              aligning n   set c aside; (*)
    aligning n   barrier n                        aligning n   set c aside; (*)
    aligning n   barrier m > n                    aligning m   decline n, last = n, replay, set c aside; (*)
    aligning n   abort n                          idle         last = n, replay
    any          abort m > last, m not current    same         remember m as aborted
    any          barrier aborted, or too old      same         no effect: too old is n <= last or n < the current one
    any          end of input                     same         stop waiting for c; (*)

    (*) aligning n, and all live channels have delivered n: snapshot n, last = n, replay, idle. A task that would exceed
    its limit of set-aside bytes declines n, last = n, replay, idle.
    replay: set-aside items go through this table again, in order. Barriers may be among them, so it is a loop over a
    queue, not a recursion. Set-aside items are encoded buffers, decoded one at a time. AT_LEAST_ONCE sets nothing
    aside, so it counts the barriers of several checkpoints concurrently, by id; it aligns savepoints as well.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple

from penstock.engine.runtime.checkpoint_options import DeclineReason
from penstock.engine.runtime.network.buffer import CheckpointBarrier, EndOfInput
from penstock.engine.runtime.network.set_aside import AlignmentLimits, SetAside, Spilled, Whole

_ENCODED = frozenset((Whole, Spilled))
"""The types of items that are buffers, decoded only when they are next."""


class AlignmentOutput(NamedTuple):
    """The calls that an alignment makes to its task."""

    deliver: Callable[[Any, Any], None]
    """Receives a channel and its next item, except barriers."""
    snapshot: Callable[[CheckpointBarrier], None]
    """Receives a barrier, after all items before it have been delivered."""
    decline: Callable[[int, DeclineReason, str], None]
    """Receives the id of a checkpoint that can't be taken, the reason, and details."""
    buffer_started: Callable[[Any, int], None] = lambda channel, content: None
    """Receives a channel and the content in bytes of its next buffer, which stops waiting."""


class ExactlyOnceAlignment:
    """Delivers the items of channels in order, with a snapshot at the right point between them.

    A channel may be any hashable object. `aside` holds the waiting items; None: in memory, with the default limits.
    """

    def __init__(self, channels: Iterable[Hashable], output: AlignmentOutput, aside: SetAside | None = None) -> None:
        # Channels that have not ended: the alignment waits only for their barriers.
        self._live = set(channels)
        self._deliver, self._snapshot, self._decline, self._buffer_started = output
        self._handlers: dict[type, Callable[[Any, Any], None]] = {
            CheckpointBarrier: self._barrier,
            EndOfInput: self._end,
        }
        """The handlers of elements that the alignment handles; all other items are delivered."""
        self._arrived: set[Hashable] = set()
        self._aside = aside or SetAside(AlignmentLimits())
        # Received and replayed items go through one queue, so that no item overtakes a waiting one.
        self._replaying: deque[tuple[Any, Any]] = deque()
        self._aborted: set[int] = set()
        self.current: CheckpointBarrier | None = None
        self.last = 0

    def receive(self, channel: Hashable, item: Any) -> None:
        """Process the next item of a channel."""
        self._replaying.append((channel, item))
        self._drain()

    def receive_buffer(self, channel: Hashable, buffer: bytes) -> None:
        """Process the next buffer of a channel, now or after the waiting buffers."""
        self._replaying.append((channel, Whole(buffer)))
        # Behind others it waits: the task calls `deliver_next` when it has processed the previous buffer.
        if len(self._replaying) == 1:
            self.deliver_next()

    @property
    def has_waiting(self) -> bool:
        """Whether buffers wait to be decoded. Until they are, the task should receive nothing."""
        return bool(self._replaying)

    def deliver_next(self) -> None:
        """Decode the next buffer that is not set aside, and deliver its items."""
        self._drain()
        while self._replaying:
            # `_drain` stops at the first buffer, so this one is next.
            channel, buffer = self._replaying.popleft()
            # Decoded as late as possible: decoding all waiting buffers together could take many times the memory.
            if channel not in self._arrived:
                self._buffer_started(channel, buffer.content)
                self._replaying.extendleft(reversed([(channel, item) for item in buffer.items()]))
                self._drain()
                return
            self._set_aside(channel, buffer)
            self._drain()

    def close(self) -> None:
        """Remove spilled buffers from disk. Nothing more will be received."""
        self._aside.close()

    def abort(self, checkpoint_id: int) -> None:
        """Abort a checkpoint."""
        if self.current is not None and self.current.checkpoint_id == checkpoint_id:
            self._end_alignment(checkpoint_id)
            self._drain()
        elif checkpoint_id > self.last:
            # Its barriers are still in transit: they must not start an alignment that never completes.
            self._aborted.add(checkpoint_id)

    @property
    def set_aside(self) -> int:
        """The bytes that are set aside."""
        return self._aside.bytes

    def _set_aside(self, channel: Hashable, item: Any) -> None:
        self._aside.append(channel, item)
        if self._aside.is_too_large:
            assert self.current is not None
            n = self.current.checkpoint_id
            detail = f"{self._aside.bytes} bytes were set aside, the limit is {self._aside.bytes_max} bytes"
            self._decline(n, DeclineReason.ALIGNMENT_LIMIT, detail)
            self._end_alignment(n)

    def _drain(self) -> None:
        """Process all items up to the next encoded buffer."""
        queue = self._replaying
        while queue and type(queue[0][1]) not in _ENCODED:
            channel, item = queue.popleft()
            if channel in self._arrived:
                self._set_aside(channel, item)
            else:
                self._handlers.get(type(item), self._deliver)(channel, item)

    def _end(self, channel: Hashable, element: EndOfInput) -> None:
        self._deliver(channel, element)
        # An ended channel sends no barrier. It may have been the last one that was missing.
        self._live.discard(channel)
        self._complete_if_all_arrived()

    def _barrier(self, channel: Hashable, barrier: CheckpointBarrier) -> None:
        n = barrier.checkpoint_id
        if n <= self.last or n in self._aborted or (self.current is not None and n < self.current.checkpoint_id):
            return
        if self.current is not None and n > self.current.checkpoint_id:
            # Set-aside items arrived earlier, so they go first. They may contain a barrier that starts a newer
            # alignment than this one, so this barrier goes through the table again after them.
            self._decline(self.current.checkpoint_id, DeclineReason.NEWER, "")
            self._replaying.appendleft((channel, barrier))
            self._end_alignment(self.current.checkpoint_id)
            return
        self.current = barrier
        self._arrived.add(channel)
        self._complete_if_all_arrived()

    def _complete_if_all_arrived(self) -> None:
        if self.current is not None and self._live <= self._arrived:
            barrier = self.current
            # Before the replay: set-aside items belong after the barrier, so they must not be in the snapshot.
            self._snapshot(barrier)
            self._end_alignment(barrier.checkpoint_id)

    def _end_alignment(self, checkpoint_id: int) -> None:
        self.last = checkpoint_id
        # Barriers of older checkpoints are ignored by their number, so drop the numbers of older aborts.
        self._aborted = {n for n in self._aborted if n > checkpoint_id}
        self.current = None
        self._arrived.clear()
        # Before later items, and in their order: no record of a channel overtakes another.
        self._replaying.extendleft(reversed(self._aside.take()))


class AtLeastOnceAlignment(ExactlyOnceAlignment):
    """Counts barriers and sets nothing aside: records behind a barrier may be in the snapshot, and are replayed."""

    def __init__(self, channels: Iterable[Hashable], output: AlignmentOutput, aside: SetAside | None = None) -> None:
        super().__init__(channels, output, aside)
        self._pending: dict[int, tuple[CheckpointBarrier, set[Hashable]]] = {}
        self._last_counted = 0

    def abort(self, checkpoint_id: int) -> None:
        self._pending.pop(checkpoint_id, None)
        super().abort(checkpoint_id)

    def _barrier(self, channel: Hashable, barrier: CheckpointBarrier) -> None:
        if barrier.options.is_aligned:
            # Aligned in this mode as well: the job that starts from a savepoint may run in exactly-once mode.
            super()._barrier(channel, barrier)
            return
        n = barrier.checkpoint_id
        if n > self._last_counted and n not in self._aborted:
            self._pending.setdefault(n, (barrier, set()))[1].add(channel)
            self._count()

    def _complete_if_all_arrived(self) -> None:
        super()._complete_if_all_arrived()
        self._count()

    def _count(self) -> None:
        for n in sorted(self._pending):
            # A snapshot of a newer checkpoint may have removed it in this loop.
            if n in self._pending and self._live <= self._pending[n][1]:
                for older in [m for m in self._pending if m < n]:
                    self._decline(older, DeclineReason.NEWER, "")
                    del self._pending[older]
                barrier, _ = self._pending.pop(n)
                self._snapshot(barrier)
                self._last_counted = n
                self._aborted = {m for m in self._aborted if m > n}


class UnalignedAlignment(ExactlyOnceAlignment):
    """Lets barriers overtake the records on channels that have not delivered them.

    It extends the module's table by a row for the state "aligning n", unless n is a savepoint:

        event                             next   effects
        first barrier, or timeout over    idle   overtaken: n, channels without n; snapshot n, last = n, replay

    Overtaken records, up to barrier n of their channel, belong to the snapshot: the owner logs them
    (`task/snapshot_logs.py`). Nothing stays set aside, so other checkpoints may begin meanwhile. Source: Flink docs,
    "Stateful Stream Processing", unaligned checkpointing.

    Calls `overtaken` before `snapshot`, and `arrived` with the channel and the number of each barrier. With
    `immediately` the first barrier overtakes; otherwise the task calls `overtake`.
    """

    def __init__(
        self,
        channels: Iterable[Hashable],
        output: AlignmentOutput,
        aside: SetAside | None = None,
        *,
        overtaken: Callable[[int, set[Any]], None],
        arrived: Callable[[Any, int], None],
        immediately: bool,
    ) -> None:
        super().__init__(channels, output, aside)
        self._overtaken = overtaken
        self._has_arrived = arrived
        self._immediately = immediately

    @property
    def may_overtake(self) -> bool:
        """Whether the current barrier may overtake records. A savepoint is always aligned."""
        return self.current is not None and not self.current.options.is_aligned

    def overtake(self) -> None:
        """Let the current barrier overtake the records before its missing copies."""
        barrier = self.current
        assert barrier is not None
        self._overtaken(barrier.checkpoint_id, self._live - self._arrived)
        self._snapshot(barrier)
        self._end_alignment(barrier.checkpoint_id)

    def _barrier(self, channel: Hashable, barrier: CheckpointBarrier) -> None:
        self._has_arrived(channel, barrier.checkpoint_id)
        super()._barrier(channel, barrier)
        if self._immediately and self.may_overtake:
            self.overtake()
