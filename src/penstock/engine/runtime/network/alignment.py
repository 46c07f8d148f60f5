"""Barrier alignment: when does a task with several channels, of one input or of several, take a snapshot?

`last` is the newest checkpoint taken or aborted. A channel that has delivered barrier n is set aside: what arrives
on it after n waits, in order, newer barriers and its end included; the rows below are for channels not set aside.
Source: Flink docs, "Stateful Stream Processing"; State Management paper, 3.2.

    state        event on channel c               next         effects
    idle         barrier n, n > last              aligning n   set c aside; (*)
    aligning n   barrier n                        aligning n   set c aside; (*)
    aligning n   barrier m > n                    aligning m   decline n, last = n, replay, set c aside; (*)
    aligning n   abort n                          idle         last = n, replay
    any          abort m > last, m not current    same         m is remembered as aborted
    any          barrier aborted, or too old      same         none: too old is n <= last, or older than the current one
    any          end of input                     same         c is no longer waited for; (*)

    (*) aligning n, and all live channels have delivered n: snapshot n, last = n, replay, idle. A task that would set
    aside more than it may declines n, last = n, replay, idle.
    replay: set-aside items go through this table again, in order; barriers may be among them, so it is a loop over a
    queue, not a recursion. What was set aside is whole buffers, which are decoded one at a time. AT_LEAST_ONCE sets
    nothing aside, so several checkpoints are counted at once, each by id; savepoints are aligned in that mode, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple

from penstock.engine.runtime.checkpoint_options import DeclineReason
from penstock.engine.runtime.network.buffer import CheckpointBarrier, EndOfInput
from penstock.engine.runtime.network.set_aside import AlignmentLimits, SetAside, Spilled, Whole


class AlignmentOutput(NamedTuple):
    """What a task does when its alignment says so."""

    deliver: Callable[[Any, Any], None]
    """With a channel and its next item, which is no barrier."""
    snapshot: Callable[[CheckpointBarrier], None]
    """All that belongs before this barrier has been delivered."""
    decline: Callable[[int, DeclineReason, str], None]
    """With a checkpoint that can't be taken, why, and details."""
    begun: Callable[[Any, int], None] = lambda channel, content: None
    """With a channel and the bytes that its next buffer brings, which waits no more."""


class ExactlyOnceAlignment:
    """Items of channels in; the same items out, with a snapshot at the right point between them.

    A channel may be any hashable object. `aside`: what holds the items that wait; None: in memory, up to the default.
    """

    def __init__(self, channels: Iterable[Hashable], output: AlignmentOutput, aside: SetAside | None = None) -> None:
        # Those that have not ended: only their barriers are waited for.
        self._live = set(channels)
        self._deliver, self._snapshot, self._decline, self._begun = output
        self._arrived: set[Hashable] = set()
        self._aside = aside or SetAside(AlignmentLimits())
        # What is received or replayed goes through this one queue, so that nothing overtakes what waited.
        self._replaying: deque[tuple[Any, Any]] = deque()
        self._aborted: set[int] = set()
        self.current: CheckpointBarrier | None = None
        self.last = 0

    def receive(self, channel: Hashable, item: Any) -> None:
        """The next item of a channel."""
        self._replaying.append((channel, item))
        self._drain()

    def receive_buffer(self, channel: Hashable, buffer: bytes) -> None:
        """The next buffer of a channel. It is decoded when its turn comes."""
        self._replaying.append((channel, Whole(buffer)))
        # Behind others it waits: the task asks for the next one when it has done what the last one held.
        if len(self._replaying) == 1:
            self.go_on()

    @property
    def behind(self) -> bool:
        """Whether buffers wait to be decoded; until they are, no more should be received."""
        return bool(self._replaying)

    def go_on(self) -> None:
        """Decode the next buffer that is not set aside, and deliver what it holds."""
        self._drain()
        while self._replaying:
            # `_drain` stops at the first buffer, so this one is next.
            channel, buffer = self._replaying.popleft()
            # Decoded at the last moment: all that waits, decoded at once, could take many times the memory.
            if channel not in self._arrived:
                self._begun(channel, buffer.content)
                self._replaying.extendleft(reversed([(channel, segment) for segment in buffer.segments()]))
                self._drain()
                return
            self._set_aside(channel, buffer)
            self._drain()

    def close(self) -> None:
        """Nothing more will be received: remove what is on disk."""
        self._aside.close()

    def abort(self, checkpoint_id: int) -> None:
        """The coordinator aborted this checkpoint."""
        if self.current is not None and self.current.checkpoint_id == checkpoint_id:
            self._end_alignment(checkpoint_id)
            self._drain()
        elif checkpoint_id > self.last:
            # Its barriers are still on their way: none of them may begin an alignment that the others never complete.
            self._aborted.add(checkpoint_id)

    @property
    def set_aside(self) -> int:
        """How many bytes are set aside."""
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
        """Process all items up to the next buffer that is not decoded."""
        queue = self._replaying
        while queue and not isinstance(queue[0][1], (Whole, Spilled)):
            channel, item = queue.popleft()
            if channel in self._arrived:
                self._set_aside(channel, item)
            elif isinstance(item, CheckpointBarrier):
                self._barrier(channel, item)
            else:
                self._deliver(channel, item)
                if isinstance(item, EndOfInput):
                    # A channel that has ended sends no barrier. It may have been the last one waited for.
                    self._live.discard(channel)
                    self._complete_if_all_arrived()

    def _barrier(self, channel: Hashable, barrier: CheckpointBarrier) -> None:
        n = barrier.checkpoint_id
        if n <= self.last or n in self._aborted or (self.current is not None and n < self.current.checkpoint_id):
            return
        if self.current is not None and n > self.current.checkpoint_id:
            # What was set aside arrived earlier, so it goes first. It may hold a barrier that starts a newer alignment
            # than this one, so this barrier goes through the table again after it.
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
            # Before the replay: what was set aside belongs after the barrier, so it must not be in the snapshot.
            self._snapshot(barrier)
            self._end_alignment(barrier.checkpoint_id)

    def _end_alignment(self, checkpoint_id: int) -> None:
        self.last = checkpoint_id
        # Barriers of older ones are ignored by their number: what was aborted before need not be known any longer.
        self._aborted = {n for n in self._aborted if n > checkpoint_id}
        self.current = None
        self._arrived.clear()
        # In front of what has come since, and in the order in which it came: no record of a channel overtakes another.
        self._replaying.extendleft(reversed(self._aside.take()))


class AtLeastOnceAlignment(ExactlyOnceAlignment):
    """Barriers are counted, nothing is set aside: records that overtake a barrier are in the snapshot, and replayed."""

    def __init__(self, channels: Iterable[Hashable], output: AlignmentOutput, aside: SetAside | None = None) -> None:
        super().__init__(channels, output, aside)
        self._pending: dict[int, tuple[CheckpointBarrier, set[Hashable]]] = {}
        self._last_counted = 0

    def abort(self, checkpoint_id: int) -> None:
        self._pending.pop(checkpoint_id, None)
        super().abort(checkpoint_id)

    def _barrier(self, channel: Hashable, barrier: CheckpointBarrier) -> None:
        if barrier.options.is_aligned:
            # In this mode, too: the job that starts from a savepoint may run in exactly-once mode.
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
            # A snapshot for a newer checkpoint may have removed it in this loop.
            if n in self._pending and self._live <= self._pending[n][1]:
                for older in [m for m in self._pending if m < n]:
                    self._decline(older, DeclineReason.NEWER, "")
                    del self._pending[older]
                barrier, _ = self._pending.pop(n)
                self._snapshot(barrier)
                self._last_counted = n
                self._aborted = {m for m in self._aborted if m > n}


# Unaligned checkpoints: a barrier overtakes the records on channels that have not delivered it.
#
# As the table of `alignment.py`, and in a state "aligning n", unless n is a savepoint:
#
#     event                          next   effects
#     at once, or its time is over   idle   overtaken: n, and the channels without n; snapshot n, last = n, replay
#
# The owner logs what overtaken channels deliver until their barrier n comes: it belongs to the snapshot
# (`task/snapshot_logs.py`). Nothing is set aside any more, so other checkpoints may begin meanwhile.
# Source: Flink docs, "Stateful Stream Processing", unaligned checkpointing.


class UnalignedAlignment(ExactlyOnceAlignment):
    """`overtaken` is called before `snapshot`; `arrived` with each barrier of each channel, and its number.

    `at_once`: with the first barrier. Else the task says when, by `overtake`.
    """

    def __init__(
        self,
        channels: Iterable[Hashable],
        output: AlignmentOutput,
        aside: SetAside | None = None,
        *,
        overtaken: Callable[[int, set[Any]], None],
        arrived: Callable[[Any, int], None],
        at_once: bool,
    ) -> None:
        super().__init__(channels, output, aside)
        self._overtaken = overtaken
        self._has_arrived = arrived
        self._at_once = at_once

    @property
    def may_overtake(self) -> bool:
        """Whether an alignment is under way that need not be waited for. A savepoint is always aligned."""
        return self.current is not None and not self.current.options.is_aligned

    def overtake(self) -> None:
        """The present barrier overtakes what has not come yet."""
        barrier = self.current
        assert barrier is not None
        self._overtaken(barrier.checkpoint_id, self._live - self._arrived)
        self._snapshot(barrier)
        self._end_alignment(barrier.checkpoint_id)

    def _barrier(self, channel: Hashable, barrier: CheckpointBarrier) -> None:
        self._has_arrived(channel, barrier.checkpoint_id)
        super()._barrier(channel, barrier)
        if self._at_once and self.may_overtake:
            self.overtake()
