"""What a slot takes of its input, by sending slot, and how much of it each sender may have in flight: advice to them.

Bytes are those that buffers bring, without their frame.

    takes        said last            next      said to each sender
    something    nothing yet          busy      after FIRST_MS, so that the senders' first limit does not hold them
    any          anything             busy      each `interval_ms`: what was taken in all, and a budget
    any          by a busy slot       free      the same, once
    a part       anything             free      the same, after FIRST_MS: half of a sender's budget was taken
    less         by a free slot       free      the same, after FREE_MS
    nothing      by a free slot       free      nothing: a slot that waits for input costs no message
    nothing      by a busy slot       busy      each `interval_ms`, as it may be held by what is behind it: it is alive
    nothing      anything             blocked   each `interval_ms`: by and by, as taken, what is set aside for a barrier

The rule is `budget_of`: bytes that the slot takes in `target_ms`, by its rate while it was not waiting for input, as in
Flink's ThroughputCalculator. A slot that waits for input for half of the time or longer is free, and has no back
pressure; but what its senders may have in flight is bounded, too: they may have a million records for it next.

What is set aside for a barrier counts as taken as fast as the slot could take it, up to _ASIDE_BUDGETS. All of it at
once, and one sender would be sent for all that it has while another one is stopped before its barrier. Not at all, and
senders would hold, by which that very barrier may have to come: from a slow operator beside others that are fast.
"""

from __future__ import annotations

from typing import NamedTuple

FIRST_MS = 10
INTERVAL_MS_MAX = 500
"""Well within the second after which a sender goes on without advice."""
FREE_MS = 1_000
PARTS = 8
"""So many buffers are in flight to a slot, from all senders together; and with two senders it speaks as often in the
time that its budgets are for, with more of them less. A row costs as much as hundreds of small records: with so many
buffers from each of eight senders a slot took half as much."""
FREE_BUFFER_BYTES_MIN = 1 << 12
"""A sender has one size of buffers for all its targets, the smallest that one of them asks for. A free slot, which may
get nothing but watermarks, must not make it tiny."""
AIM = 0.75
"""The share of that time that is aimed at: rates vary, and what is in the hands of both sides comes on top."""
BUDGET_BYTES_MIN = 1 << 4
"""Five to eight small numbers. There are as many channels as pairs of slots, in each exchange before a slow one."""
NEWS = 2
"""This part of a budget, when it was taken, is worth a message of its own."""
_ASIDE_BUDGETS = 2
"""More would have to be processed, behind the barrier, before anything counts as taken anew."""
_COUNTED_MS_MAX = 10_000
"""A call may take that long, and is counted. More is a machine that slept, or a clock that was set forward."""
_KEPT = 0.9
"""The weight of all that was before, against what was taken in a part of that time."""


class Advice(NamedTuple):
    """Of a receiving slot, to one that sends to it."""

    taken_bytes: int
    """Of all that it was sent."""
    budget_bytes: int
    """How much may be on its way."""
    buffer_bytes: int
    """How large each buffer of it should be at most."""
    is_aside: bool
    """Whether something of it is set aside, for a barrier, and does not count as taken yet."""


def budget_of(own_bytes: float, all_bytes: float, senders: int, busy_ms: float, target_ms: float) -> int:
    """How much one of `senders` may have in flight: what of it is taken in `target_ms`.

    `own_bytes` of `all_bytes` were its own, taken in `busy_ms`. Who has sent less than others may have an equal share,
    to be able to send more. In less than `target_ms` a slot has not shown what it takes in that time: what is behind
    it may not have held it yet. It is sent as much again as it has taken.
    """
    share = max(own_bytes, all_bytes / senders)
    return int(share * target_ms / max(busy_ms, target_ms))


class _Sender:
    """What comes from one slot, in bytes."""

    __slots__ = ("begun", "done", "received", "recent", "said", "taken")

    def __init__(self) -> None:
        self.received = 0
        """In all."""
        self.begun = 0
        """The same, without what is set aside."""
        self.taken = 0
        """The same, with a part of it: what counts as taken."""
        self.done = 0
        """What was done with since the last count."""
        self.recent = 0.0
        """What was done with lately, as of the last count."""
        self.said: Advice | None = None

    @property
    def is_aside(self) -> bool:
        """Whether something is set aside that does not count as taken."""
        return self.received > self.taken


class Intake:
    """Of one slot. `target_ms`: for how long what is on its way to it should last."""

    def __init__(self, target_ms: int, now_ms: int) -> None:
        self._target_ms = target_ms * AIM
        self._whole_ms = target_ms
        self.budget_bytes_min = BUDGET_BYTES_MIN
        self._senders: dict[int, _Sender] = {}
        """By index."""
        self._taken_of: dict[int, _Sender] = {}
        """Those of which something was taken."""
        self._in_hand: tuple[_Sender, int] | None = None
        """The sender and the size of the last one, if it is not known to be done with: no measure of what it takes."""
        self._counted = 0
        """Of how many something had been taken by the last count."""
        self._said_ms = now_ms
        self._recent = 0.0
        """What was done with lately, of all of them."""
        self._recent_busy_ms = 0.0
        """In which that was taken. It is forgotten by time in which the slot is busy: what it could take is
        known after a pause as before."""
        self._recent_ms = 0.0
        self._recent_idle_ms = 0.0
        """Of that time, by the clock."""
        self._since_ms = now_ms
        self._idle_ns = 0
        self._has_begun = False
        """Whether something had come by the last look."""
        self._has_unsaid = False
        """Whether something was taken since it spoke."""
        self._news = False
        """Whether that is so much that a sender may soon have no room."""
        self.is_busy = True
        """Whether the slot has back pressure, or has just begun."""

    @property
    def interval_ms(self) -> int:
        """Between two advices: a part of the target, and a larger one the more senders there are."""
        part = self._whole_ms * max(2, len(self._taken_of)) // (2 * PARTS)
        return max(FIRST_MS, min(part, self._whole_ms // 2, INTERVAL_MS_MAX))

    def taken_bytes(self, sender: int) -> int:
        """What counts as taken of a slot in all."""
        return self._taken_of[sender].taken if sender in self._taken_of else 0

    def received(self, sender: int, size: int) -> None:
        """It is the turn of a buffer of a slot, which a task begins with now, or sets aside."""
        self._sender(sender).received += size

    def took(self, sender: int, size: int) -> None:
        """A buffer of a slot is processed now, or was passed on."""
        self.finished()
        one = self._sender(sender)
        self._in_hand = (one, size)
        one.begun += size
        if one.begun > one.taken:
            self._takes(sender, one.begun)

    def finished(self) -> None:
        """What was in hand is done with."""
        if self._in_hand is not None:
            sender, size = self._in_hand
            sender.done += size
            self._in_hand = None

    def _sender(self, index: int) -> _Sender:
        sender = self._senders.get(index)
        if sender is None:
            sender = self._senders[index] = _Sender()
        return sender

    def _takes(self, index: int, taken: int) -> None:
        sender = self._taken_of[index] = self._senders[index]
        sender.taken = taken
        self._has_unsaid = True
        said = sender.said
        if said is None or (taken - said.taken_bytes) * NEWS >= said.budget_bytes:
            self._news = True

    @property
    def _is_blocked(self) -> bool:
        """Whether something is set aside that does not count as taken."""
        return any(sender.is_aside for sender in self._senders.values())

    def idle(self, ns: int) -> None:
        """The slot has waited for input."""
        self.finished()
        self._idle_ns += ns

    def due_ms(self) -> int | None:
        """When something is to be said though nothing happens."""
        if not self._has_begun:
            return None
        if self._news:
            return self._since_ms + FIRST_MS
        if self.is_busy or self._is_blocked:
            return self._since_ms + self.interval_ms
        return max(self._since_ms + self.interval_ms, self._said_ms + FREE_MS) if self._has_unsaid else None

    def say_again(self) -> None:
        """What was said may not have been heard: say it once more."""
        for sender in self._senders.values():
            sender.said = None
        self._news = self._has_begun

    def advice(self, now_ms: int) -> dict[int, Advice]:
        """What is to be said now, by index of the sender."""
        elapsed_ms = now_ms - self._since_ms
        if elapsed_ms < 0 or not self._has_begun:
            # The clock was set back; or nothing had come yet, and to wait for that does not count.
            self._since_ms = self._said_ms = now_ms
            self._idle_ns, self._has_begun = 0, bool(self._senders)
            return {}
        if elapsed_ms < (FIRST_MS if self._news else self.interval_ms):
            return {}
        self._count(now_ms, elapsed_ms)
        was_busy, is_blocked = self.is_busy, self._is_blocked
        if is_blocked:
            self._take_from_aside(elapsed_ms)
        # What has just begun waits for its first records, even if they come faster than it can take them.
        self.is_busy = self._recent_ms < self._target_ms / 2 or self._recent_idle_ms < self._recent_ms / 2
        tells = self._has_unsaid and now_ms - self._said_ms >= FREE_MS
        if not (self.is_busy or was_busy or is_blocked or self._news or tells):
            return {}
        self._news, self._has_unsaid, self._said_ms = False, False, now_ms
        said = {}
        for index, sender in self._taken_of.items():
            said[index] = sender.said = self._advice(sender)
        return said

    def _take_from_aside(self, elapsed_ms: int) -> None:
        for index, sender in self._senders.items():
            if sender.is_aside:
                budget = self._budget(sender)
                in_time = int(budget * min(elapsed_ms, _COUNTED_MS_MAX) / self._target_ms)
                most = min(sender.received, sender.begun + _ASIDE_BUDGETS * budget)
                self._takes(index, max(sender.taken, min(most, sender.taken + max(1, in_time))))

    def _count(self, now_ms: int, elapsed_ms: float) -> None:
        idle_ms = min(self._idle_ns / 1e6, elapsed_ms)
        # Each for itself: a call after a long time without input is work all the same.
        busy_ms, idle_ms = min(elapsed_ms - idle_ms, _COUNTED_MS_MAX), min(idle_ms, _COUNTED_MS_MAX)
        elapsed_ms = busy_ms + idle_ms
        # By time: with many senders, to whom it speaks rarely, what was long ago would count for longer.
        kept = _KEPT ** (busy_ms * PARTS / self._whole_ms)
        for sender in self._taken_of.values():
            sender.recent = sender.recent * kept + sender.done
            sender.done = 0
        self._recent = sum(sender.recent for sender in self._taken_of.values())
        self._counted = len(self._taken_of)
        self._recent_busy_ms = self._recent_busy_ms * kept + busy_ms
        kept = _KEPT ** (elapsed_ms * PARTS / self._whole_ms)
        self._recent_ms = self._recent_ms * kept + elapsed_ms
        self._recent_idle_ms = self._recent_idle_ms * kept + idle_ms
        self._since_ms, self._idle_ns = now_ms, 0

    def _budget(self, sender: _Sender) -> int:
        if not self._counted:
            return self.budget_bytes_min
        of_one = budget_of(sender.recent, self._recent, self._counted, self._recent_busy_ms, self._target_ms)
        return max(self.budget_bytes_min, of_one)

    def _advice(self, sender: _Sender) -> Advice:
        budget = self._budget(sender)
        if self.is_busy:
            return Advice(sender.taken, budget, budget // max(1, PARTS // len(self._taken_of)), sender.is_aside)
        return Advice(sender.taken, budget, max(budget // 2, FREE_BUFFER_BYTES_MIN), sender.is_aside)
