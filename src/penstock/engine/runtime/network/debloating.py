"""Buffer debloating of a slot: what is in flight is bounded by the time it takes, not only by the size of buffers.

What a slot takes off the wire goes back, as advice, to the slots that send to it, by the channel between slots
(`Intake`). A slot that has more in flight than it was advised to holds (`InFlight`): it makes no step and takes no
input, as if it waited for room in a pipe, so its own senders come to hold in turn, up to the sources. Its buffers
become as small as its budgets ask for. Source: Flink docs, "Network memory tuning guide", The Buffer Debloating
Mechanism; docs/internals/decisions/0022-in-flight.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from penstock.common.time.earliest import earliest
from penstock.engine.runtime.ids import SlotId
from penstock.engine.runtime.network.buffer import (
    ADVICE_EDGE,
    ATTEMPT_MASK,
    NO_KEY_GROUP,
    Header,
    decode_header,
    decode_segments,
    encode,
)

# What a slot takes of its input, by sending slot, and how much of it each sender may have in flight: advice to them.
#
# Bytes are those that buffers bring, without their frame.
#
#     takes        said last            next      said to each sender
#     something    nothing yet          busy      after FIRST_MS, so that the senders' first limit does not hold them
#     any          anything             busy      each `interval_ms`: what was taken in all, and a budget
#     any          by a busy slot       free      the same, once
#     a part       anything             free      the same, after FIRST_MS: half of a sender's budget was taken
#     less         by a free slot       free      the same, after FREE_MS
#     nothing      by a free slot       free      nothing: a slot that waits for input costs no message
#     nothing      by a busy slot       busy      each `interval_ms`: it is alive, and may be held by what is behind it
#     nothing      anything             blocked   each `interval_ms`: gradually what is set aside for a barrier
#
# The rule is `budget_of`: bytes that the slot takes in `target_ms`, by its rate while it was not waiting for input, as
# in Flink's ThroughputCalculator. A slot that waits for input for half of the time or longer is free, and has no back
# pressure; but what its senders may have in flight is bounded, too: they may have a million records for it next.
#
# What is set aside for a barrier counts as taken as fast as the slot could take it, up to _ASIDE_BUDGETS. All of it at
# once, and one sender would be sent for all that it has while another one is stopped before its barrier. Not at all,
# and senders would hold, by which that very barrier may have to come: from a slow operator beside others that are fast.

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


# What a slot has in flight to each slot of the next level, and whether it may send more: by what those advise.
#
#     limit of a target          event                                        next
#     none yet                   something is sent to it                      FIRST_BYTES
#     any                        advice: what was taken in all, and a budget  that budget
#     any                        advice by which no more was taken            the same, or the smaller budget
#     any                        advice that is late, or can't be true        the same
#     any, and it holds          its wait, in which nothing is heard          the same: what is in flight is written off
#     any, and it holds          LAPSE_MS in which it has some of it aside    the same: what is in flight is written off
#     any, and it holds          five waits in which no more was taken        the same: what is in flight is written off
#     FIRST_BYTES, and it holds  each FIRST_LAPSE_MS without advice           the same: what is in flight is written off
#     FIRST_BYTES                after FIRST_LAPSES_MAX of these              none: only Spark's buffers limit it
#
# It is advice only: whatever is lost, late or wrong, a sender goes on. A target that has advised and is silent is in a
# pause, or in a call of its user's that takes its time, or its advice is lost. So it gets one budget more after its
# wait: what comes after a pause is in proportion to it, and not as much as there is. The wait is `LAPSE_MS`, and
# doubles each time it was too short, as one learns when more is taken: a task whose calls all take ten seconds would be
# sent ten budgets for each of them. One that waits for a barrier, which may be behind what is not sent, gets one each
# `LAPSE_MS`. One that speaks, and takes nothing, holds itself: its turn comes, and more of the same would come on top.
# One that has not advised yet is still opening. Who has nothing in flight may always send. Source: Flink's buffer
# debloating.

LAPSE_MS = 1_000
LAPSE_MS_MAX = 4_000
"""In one silence each wait is longer than the one before, up to this. Where advice comes no more, a job goes on so."""
WAIT_MS_MAX = 64_000
PATIENCE = 5
"""Behind a second's work nothing is taken for a second, from one sender or another; and its senders would add to it."""
FIRST_LAPSE_MS = 5_000
FIRST_LAPSES_MAX = 12
"""A sink that opens for a minute is waited for; then advice does not get through, and the job would crawl."""
FIRST_BYTES = 1 << 6
"""Until the first advice, which comes 10 ms after the first record: some twenty small ones. There are as many channels
as pairs of slots, in each exchange, and a slow sink has to take all of that before it is in time. Budgets of a fast one
double with each advice."""
BUFFER_BYTES_MIN = 1 << 4


class _Limit:
    """What was said by one target."""

    # fmt: off
    __slots__ = (
        "budget", "buffer", "has_spoken", "heard_ms", "is_aside", "lapsed_bytes", "lapses", "learned_wait_ms",
        "reckoned", "said_stalled", "since_ms", "taken",
    )
    # fmt: on

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.buffer = budget // PARTS
        self.taken = 0
        self.reckoned = 0
        """What is not in flight: taken, or written off."""
        self.since_ms: int | None = None
        """When it came to hold, or lapsed; None: it has room."""
        self.said_stalled = False
        """Whether it has said, since the last look, that it takes nothing now, but for no barrier."""
        self.heard_ms = 0
        """When it was seen to have."""
        self.is_aside = False
        """Whether something of what it was sent is set aside for a barrier, as it has said last."""
        self.lapses = 0
        """How often it has lapsed since more was taken."""
        self.lapsed_bytes = 0
        """How much it had been sent in all when it lapsed first of these."""
        self.learned_wait_ms = LAPSE_MS
        """How long is waited for it in its first silence: longer for one whose calls take long."""
        self.has_spoken = False

    def progress(self, advice: Advice, now_ms: int) -> None:
        """More was taken."""
        if self.lapses and not self.is_aside:
            # What was written off was still on its way; or else it had been taken, and the advice was lost.
            is_late = advice.taken_bytes < self.lapsed_bytes
            longer_ms = min(max(2 * self.learned_wait_ms, self.present_wait_ms), WAIT_MS_MAX)
            self.learned_wait_ms = longer_ms if is_late else LAPSE_MS
        elif self.since_ms is None or now_ms - self.since_ms < self.learned_wait_ms // 4:
            self.learned_wait_ms = max(self.learned_wait_ms // 2, LAPSE_MS)
        self.taken = self.reckoned = advice.taken_bytes
        self.budget, self.buffer = advice.budget_bytes, advice.buffer_bytes
        self.since_ms, self.lapses, self.is_aside = None, 0, advice.is_aside

    @property
    def present_wait_ms(self) -> int:
        """The same, in this silence."""
        if self.is_aside:
            return LAPSE_MS
        longer_ms = min(self.learned_wait_ms << min(self.lapses, 10), LAPSE_MS_MAX)
        return max(self.learned_wait_ms, longer_ms)

    @property
    def lapse_ms(self) -> int:
        """When it lapses. It must hold."""
        assert self.since_ms is not None
        if not self.has_spoken:
            return self.since_ms + FIRST_LAPSE_MS
        wait_ms = self.present_wait_ms
        return min(max(self.since_ms, self.heard_ms) + wait_ms, self.since_ms + PATIENCE * wait_ms)

    def lapse(self, now_ms: int, sent: int) -> bool:
        """It holds, and `sent` bytes were sent to it. Whether it has for so long that it lapses now.

        Once, however much time has passed unseen.
        """
        if self.since_ms is None or now_ms < self.since_ms:
            # It begins to; or the clock was set back.
            self.since_ms = now_ms
        self.heard_ms = min(self.heard_ms, now_ms)
        if self.said_stalled:
            self.said_stalled, self.heard_ms = False, now_ms
        if now_ms < self.lapse_ms:
            return False
        self.since_ms = now_ms
        if not self.lapses:
            self.lapsed_bytes = sent
        self.lapses += 1
        return True


class InFlight:
    """Of one slot. `sent`: bytes in all by index of the target, counted by the outbox."""

    def __init__(self, sent: Mapping[int, int]) -> None:
        self.first_bytes = FIRST_BYTES
        """How much may be sent to a target that has not advised yet."""
        self._sent = sent
        self._limits: dict[int, _Limit] = {}
        self._limited: dict[int, _Limit] = {}
        """Those that hold."""
        self._allowed: dict[int, float] = {}
        """Up to how many bytes in all may be sent now, by target."""
        self._lapse_ms: int | None = None

    def heard(self, target: int, advice: Advice, now_ms: int) -> None:
        """A target has advised."""
        if target in self._sent and target not in self._limits:
            # What was sent first was sent since the last look, and a free target says once that it is.
            self._limits[target] = self._limited[target] = _Limit(self.first_bytes)
        limit = self._limits.get(target)
        if limit is None or not limit.taken <= advice.taken_bytes <= self._sent[target]:
            return
        if advice.taken_bytes > limit.taken or not limit.has_spoken:
            limit.progress(advice, now_ms)
            limit.has_spoken = True
            self._limited[target] = limit
        else:
            limit.said_stalled, limit.is_aside = not advice.is_aside, advice.is_aside
            if advice.taken_bytes == self._sent[target]:
                # It has all, so it waits for more: it is not slower, and has found what it can take.
                limit.budget, limit.buffer = advice.budget_bytes, advice.buffer_bytes
                return
            # What has taken nothing may find that it is slower still; but time goes on.
            limit.budget = min(limit.budget, advice.budget_bytes)
            limit.buffer = min(limit.buffer, advice.buffer_bytes)

    def reckon(self, now_ms: int) -> bool:
        """Look at all targets, and write off what has lapsed. Returns whether it holds: nothing may be sent now."""
        sent, limited = self._sent, self._limited
        if len(sent) > len(self._limits):
            for target in sent.keys() - self._limits.keys():
                self._limits[target] = limited[target] = _Limit(self.first_bytes)
        self._lapse_ms = None
        lapsed = []
        # In one pass, for each step: there may be hundreds of targets.
        for target, limit in limited.items():
            in_flight = sent[target] - limit.reckoned
            if in_flight >= limit.budget:
                if in_flight and not limit.lapse(now_ms, sent[target]):
                    self._lapse_ms = earliest(self._lapse_ms, limit.lapse_ms)
                    continue
                limit.reckoned = sent[target]
                if limit.lapses >= FIRST_LAPSES_MAX and not limit.has_spoken:
                    lapsed.append(target)
                    continue
            else:
                limit.since_ms = None
            self._allowed[target] = limit.reckoned + max(1, limit.budget)
        for target in lapsed:
            del limited[target]
            self._allowed[target] = math.inf
        return self._lapse_ms is not None

    def allows(self, target: int, sent_bytes: int) -> bool:
        """Whether more may be sent to a target to which so much was sent, as of the last `reckon`."""
        return sent_bytes < self._allowed.get(target, self.first_bytes)

    def lapse_ms(self) -> int | None:
        """When the next limit lapses, if nothing more is heard, as of the last `reckon`."""
        return self._lapse_ms

    @property
    def buffer_bytes(self) -> int | None:
        """How large buffers should be, so that what may be in flight is several; None: as large as can be."""
        if not self._limits:
            return max(BUFFER_BYTES_MIN, self.first_bytes // PARTS)
        if not self._limited:
            return None
        return max(BUFFER_BYTES_MIN, min(limit.buffer for limit in self._limited.values()))


class Debloating:
    """Of one attempt of a slot. `sent`: bytes that buffers bring, in all, by index of the target in the next level.

    `target_ms`: how long what is in flight to one slot should last.
    """

    def __init__(
        self, slot: SlotId, attempt: int, target_ms: int, sent: Mapping[int, int], now_ms: Callable[[], int]
    ) -> None:
        self._slot = slot
        self._attempt = attempt & ATTEMPT_MASK
        self._now_ms = now_ms
        self.in_flight = InFlight(sent)
        self.intake = Intake(target_ms, now_ms())
        self.holds = False
        """Whether the slot is to wait until less is in flight, as of the last `look`."""

    def look(self) -> bool:
        """Whether the slot is to wait now."""
        self.holds = self.in_flight.reckon(self._now_ms())
        return self.holds

    @property
    def buffer_bytes(self) -> int | None:
        """How many bytes buffers should bring; None: as many as can be."""
        return self.in_flight.buffer_bytes

    def heard(self, message: bytes) -> None:
        """Advice has arrived. That of a slot of an earlier attempt is dropped."""
        header = decode_header(message)
        if header.attempt == self._attempt:
            taken, budget, buffer, is_aside = decode_segments(message)[0][0]  # type: ignore[index]
            self.in_flight.heard(header.sender, Advice(taken, budget, buffer, is_aside), self._now_ms())

    def outgoing_advice(self) -> Iterator[tuple[SlotId, bytes]]:
        """What is to be said now, and to which slots."""
        level, index = self._slot
        for sender, advice in self.intake.advice(self._now_ms()).items():
            header = Header(NO_KEY_GROUP, ADVICE_EDGE, index, 0, sender, self._attempt)
            yield SlotId(level - 1, sender), encode(header, [([*advice], None)])

    def wake_at_ms(self) -> int | None:
        """When `outgoing_advice` or `look` has something new though nothing has arrived."""
        due_ms = self.intake.due_ms()
        lapse_ms = self.in_flight.lapse_ms() if self.holds else None
        return earliest(due_ms, lapse_ms)
