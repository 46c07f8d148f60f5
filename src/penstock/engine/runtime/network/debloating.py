"""Buffer debloating of a slot: it limits the data in flight by processing time, in addition to the size of buffers.

A slot sends advice to the slots that send to it, by the channel between slots: how many bytes it has consumed, and how
many may be in flight (`Intake`). A slot with more output in flight than it was advised is throttled (`InFlight`): it
makes no step and reads no input, as if it waited for room in a pipe. So its own senders are throttled in turn, up to
the sources. Its buffers become as small as its budgets require. Source: Flink docs, "Network memory tuning guide", The
Buffer Debloating Mechanism; docs/internals/decisions/0022-in-flight.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from penstock.common.time.earliest import earliest
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.ids import SlotId
from penstock.engine.runtime.network.buffer import (
    ADVICE_EDGE,
    ATTEMPT_MASK,
    NO_KEY_GROUP,
    Header,
    decode_header,
    decode_message,
    encode_message,
)

# The rules of `Intake`: when a slot advises its senders. Bytes are the content of buffers, without overhead.
#
#     consumed     last advice          slot is   next advice to each sender
#     any bytes    not yet sent         busy      after FIRST_MS, so that the first limit does not throttle the senders
#     any bytes    any                  busy      each `interval_ms`: all bytes consumed so far, and a budget
#     any bytes    while busy           free      the same, once
#     1/URGENT     any                  free      the same, after FIRST_MS: half of a sender's budget was consumed
#     less         while free           free      the same, after FREE_MS
#     no bytes     while free           free      no advice: a slot that waits for input costs no message
#     no bytes     while busy           busy      each `interval_ms`: it lives, though its output may be blocked
#     no bytes     any                  blocked   each `interval_ms`: counts bytes set aside for a barrier gradually
#
# `budget_of` computes budgets: the bytes that the slot consumes in `target_ms`, by its rate while it did not wait for
# input, as in Flink's ThroughputCalculator. A slot that waits for input for at least half of the time is free: it has
# no back pressure. Its budgets are limited as well, because its senders may have a million records for it next.
#
# Bytes set aside for a barrier count as consumed at the slot's rate, up to _SET_ASIDE_BUDGETS. If all counted
# immediately, one sender would send everything it has while another one waits before its barrier. If they did not
# count, throttled senders might hold back the very barrier that it waits for: from a slow operator among fast ones.

FIRST_MS = 10
INTERVAL_MS_MAX = 500
"""Well below LAPSE_MS, after which a sender continues without advice."""
FREE_MS = 1_000
BUFFERS_IN_FLIGHT = 8
"""How many buffers are in flight to a slot, from all senders together. With two senders a slot sends as many advices in
the time of its budgets, with more senders fewer. A row costs as much as hundreds of small records: with so many buffers
from each of eight senders, a slot consumed half as much."""
FREE_BUFFER_BYTES_MIN = 1 << 12
"""A free slot, which may have received only watermarks, must not begin with tiny buffers."""
TARGET_SHARE = 0.75
"""The budget's share of the target time: rates vary, and both sides hold buffers that are not counted."""
COLUMN_ROWS_MAX = 256
"""A slow task gets small buffers. If a call of its function costs much by itself, such as that of a model, its pacing
(`task/column_pacing.py`) asks for as many rows as make a row cheap: a buffer may have so many, up to this."""
BUDGET_BYTES_MIN = 1 << 4
"""Five to eight small numbers. There are as many channels as pairs of slots, in each exchange before a slow one."""
LITTLE = 16
"""A target with less than 1/LITTLE of the largest budget takes little: watermarks, or the few rows of rare keys. If it
made the buffers of all small, a target that takes nearly everything would get a few hundred rows in each."""
URGENT = 2
"""When 1/URGENT of a budget has been consumed, the slot advises without waiting for the interval."""
_SET_ASIDE_BUDGETS = 2
"""With more, the slot would have to process more records behind the barrier before its consumed bytes grow again."""
_COUNTED_MS_MAX = 10_000
"""The longest call that counts. Longer pauses are a machine that slept, or a clock that was set forward."""
_DECAY = 0.9
"""The weight of earlier figures when those of one part of the target time are added."""


class Advice(NamedTuple):
    """Advice of a receiving slot to one of its senders."""

    consumed_bytes: int
    """Bytes consumed of all that the sender has sent."""
    budget_bytes: int
    """Bytes that may be in flight."""
    buffer_bytes: int
    """The largest size of a buffer in flight."""
    has_set_aside: bool
    """Whether bytes of the sender are set aside for a barrier, and do not count as consumed yet."""
    column_rows: int = COLUMN_ROWS_MAX
    """So many rows a buffer of columns may have, even if they are more bytes than it should have."""


def budget_of(sender_bytes: float, all_bytes: float, *, senders: int, busy_ms: float, target_ms: float) -> int:
    """Return how many bytes a sender may have in flight: what the slot consumes of it in `target_ms`.

    In `busy_ms` the slot consumed `all_bytes` of all `senders`, and `sender_bytes` of this one. A sender that sent less
    than the others gets an equal share, so that it can send more. If `busy_ms` is less than `target_ms`, the slot's
    rate is not known yet, as its own receivers may not have throttled it so far. Then the budget is what it consumed.
    """
    share = max(sender_bytes, all_bytes / senders)
    return int(share * target_ms / max(busy_ms, target_ms))


class _Sender:
    """The input from one slot, in bytes."""

    __slots__ = ("consumed", "finished", "last_advice", "received", "recent", "started")

    def __init__(self) -> None:
        self.received = 0
        """All bytes received."""
        self.started = 0
        """Bytes received, without those set aside."""
        self.consumed = 0
        """Bytes that count as consumed: those started, and a part of those set aside."""
        self.finished = 0
        """Bytes finished since the last count."""
        self.recent = 0.0
        """Bytes finished recently, as of the last count; earlier bytes have decayed."""
        self.last_advice: Advice | None = None

    @property
    def has_set_aside(self) -> bool:
        """Whether bytes are set aside that do not count as consumed."""
        return self.received > self.consumed


class Intake:
    """Measures the input of one slot, and advises its senders. `target_ms`: how long the data in flight should last."""

    def __init__(self, target_ms: int, now_ms: int) -> None:
        self._target_ms = target_ms * TARGET_SHARE
        self._whole_ms = target_ms
        self.budget_bytes_min = BUDGET_BYTES_MIN
        self._senders: dict[int, _Sender] = {}
        """All senders, by index."""
        self._consumed_of: dict[int, _Sender] = {}
        """Senders with consumed bytes."""
        self._current: tuple[_Sender, int] | None = None
        """Sender and size of the last buffer, until it is known to be finished: it does not count for the rate."""
        self._counted_senders = 0
        """How many senders had consumed bytes at the last count."""
        self._advised_ms = now_ms
        self._recent = 0.0
        """Bytes finished recently, of all senders."""
        self._recent_busy_ms = 0.0
        """The busy time of `_recent`. It decays with busy time only, so the rate is still known after a pause."""
        self._recent_ms = 0.0
        self._recent_idle_ms = 0.0
        """The idle part of `_recent_ms`, which decays with the clock."""
        self._counted_ms = now_ms
        self._idle_ns = 0
        self._has_input = False
        """Whether input had arrived at the last count."""
        self._has_unreported = False
        """Whether bytes were consumed since the last advice."""
        self._is_urgent = False
        """Whether so many bytes were consumed that a sender may soon have no room."""
        self.is_busy = True
        """Whether the slot has back pressure, or has just started."""
        self.column_rows = COLUMN_ROWS_MAX
        """How many rows a buffer of columns may have in any case."""

    @property
    def interval_ms(self) -> int:
        """The time between two advices: a part of the target time, which grows with the number of senders."""
        part = self._whole_ms * max(2, len(self._consumed_of)) // (2 * BUFFERS_IN_FLIGHT)
        return max(FIRST_MS, min(part, self._whole_ms // 2, INTERVAL_MS_MAX))

    def consumed_bytes(self, sender: int) -> int:
        """Return the bytes of a slot that count as consumed."""
        return self._consumed_of[sender].consumed if sender in self._consumed_of else 0

    def received(self, sender: int, size: int) -> None:
        """Count a buffer of a slot that a task starts or sets aside next."""
        self._sender(sender).received += size

    def started(self, index: int, size: int) -> None:
        """Count a buffer of a slot that a task has started, or that was relayed."""
        self.finished()
        sender = self._sender(index)
        self._current = (sender, size)
        sender.started += size
        if sender.started > sender.consumed:
            self._consume(index, sender.started)

    def finished(self) -> None:
        """Count the current buffer as finished."""
        if self._current is not None:
            sender, size = self._current
            sender.finished += size
            self._current = None

    def _sender(self, index: int) -> _Sender:
        sender = self._senders.get(index)
        if sender is None:
            sender = self._senders[index] = _Sender()
        return sender

    def _consume(self, index: int, consumed: int) -> None:
        sender = self._consumed_of[index] = self._senders[index]
        sender.consumed = consumed
        self._has_unreported = True
        last = sender.last_advice
        if last is None or (consumed - last.consumed_bytes) * URGENT >= last.budget_bytes:
            self._is_urgent = True

    @property
    def _is_blocked(self) -> bool:
        """Whether bytes of any sender are set aside and do not count as consumed."""
        return any(sender.has_set_aside for sender in self._senders.values())

    def idle(self, ns: int) -> None:
        """Count `ns` nanoseconds in which the slot has waited for input."""
        self.finished()
        self._idle_ns += ns

    def due_ms(self) -> int | None:
        """Return when the next advice is due without further events (ms), or None."""
        if not self._has_input:
            return None
        if self._is_urgent:
            return self._counted_ms + FIRST_MS
        if self.is_busy or self._is_blocked:
            return self._counted_ms + self.interval_ms
        if not self._has_unreported:
            return None
        return max(self._counted_ms + self.interval_ms, self._advised_ms + FREE_MS)

    def resend(self) -> None:
        """Repeat the advice, which may not have arrived."""
        for sender in self._senders.values():
            sender.last_advice = None
        self._is_urgent = self._has_input

    def advice(self, now_ms: int) -> dict[int, Advice]:
        """Return the advice to send now, by index of the sender."""
        elapsed_ms = now_ms - self._counted_ms
        if elapsed_ms < 0 or not self._has_input:
            # Either the clock was set back, or no input had arrived: that wait does not count.
            self._counted_ms = self._advised_ms = now_ms
            self._idle_ns, self._has_input = 0, bool(self._senders)
            return {}
        if elapsed_ms < (FIRST_MS if self._is_urgent else self.interval_ms):
            return {}
        self._count(now_ms, elapsed_ms)
        was_busy, is_blocked = self.is_busy, self._is_blocked
        if is_blocked:
            self._consume_set_aside(elapsed_ms)
        # A slot that has just started counts as busy: it waits for its first records even if they come too fast for it.
        self.is_busy = self._recent_ms < self._target_ms / 2 or self._recent_idle_ms < self._recent_ms / 2
        reports = self._has_unreported and now_ms - self._advised_ms >= FREE_MS
        if not (self.is_busy or was_busy or is_blocked or self._is_urgent or reports):
            return {}
        self._is_urgent, self._has_unreported, self._advised_ms = False, False, now_ms
        advice = {}
        for index, sender in self._consumed_of.items():
            advice[index] = sender.last_advice = self._advice(sender)
        return advice

    def _consume_set_aside(self, elapsed_ms: int) -> None:
        for index, sender in self._senders.items():
            if sender.has_set_aside:
                budget = self._budget(sender)
                in_time = int(budget * min(elapsed_ms, _COUNTED_MS_MAX) / self._target_ms)
                most = min(sender.received, sender.started + _SET_ASIDE_BUDGETS * budget)
                self._consume(index, max(sender.consumed, min(most, sender.consumed + max(1, in_time))))

    def _count(self, now_ms: int, elapsed_ms: float) -> None:
        idle_ms = min(self._idle_ns / 1e6, elapsed_ms)
        # Limited separately: a call after a long time without input is still work.
        busy_ms, idle_ms = min(elapsed_ms - idle_ms, _COUNTED_MS_MAX), min(idle_ms, _COUNTED_MS_MAX)
        elapsed_ms = busy_ms + idle_ms
        # Decay by time, not by count: with many senders counts are rare, and old figures would weigh for longer.
        decay = _DECAY ** (busy_ms * BUFFERS_IN_FLIGHT / self._whole_ms)
        for sender in self._consumed_of.values():
            sender.recent = sender.recent * decay + sender.finished
            sender.finished = 0
        self._recent = sum(sender.recent for sender in self._consumed_of.values())
        self._counted_senders = len(self._consumed_of)
        self._recent_busy_ms = self._recent_busy_ms * decay + busy_ms
        decay = _DECAY ** (elapsed_ms * BUFFERS_IN_FLIGHT / self._whole_ms)
        self._recent_ms = self._recent_ms * decay + elapsed_ms
        self._recent_idle_ms = self._recent_idle_ms * decay + idle_ms
        self._counted_ms, self._idle_ns = now_ms, 0

    def _budget(self, sender: _Sender) -> int:
        if not self._counted_senders:
            return self.budget_bytes_min
        budget = budget_of(
            sender.recent,
            self._recent,
            senders=self._counted_senders,
            busy_ms=self._recent_busy_ms,
            target_ms=self._target_ms,
        )
        return max(self.budget_bytes_min, budget)

    def _advice(self, sender: _Sender) -> Advice:
        budget = self._budget(sender)
        if self.is_busy:
            buffer = budget // max(1, BUFFERS_IN_FLIGHT // len(self._consumed_of))
        else:
            buffer = max(budget // 2, FREE_BUFFER_BYTES_MIN)
        return Advice(sender.consumed, budget, buffer, sender.has_set_aside, column_rows=self.column_rows)


# The rules of `InFlight`: how much a slot may have in flight to each slot of the next level, its targets. A target is
# throttling if the bytes in flight have reached its limit. A lapse writes off the bytes in flight, and keeps the limit.
#
#     limit of a target   event                                                        next limit
#     not set             bytes are sent to it                                         FIRST_BYTES
#     any                 advice with more consumed bytes                              the budget of the advice
#     any                 advice with the same consumed bytes                          the same, or a smaller budget
#     any                 advice that is late, or can't be true                        the same
#     any, throttling     no advice during its wait                                    the same; lapse
#     any, throttling     for LAPSE_MS it has set bytes aside                          the same; lapse
#     any, throttling     advice without more consumed bytes during five waits         the same; lapse
#     FIRST_BYTES, thr.   each FIRST_LAPSE_MS without advice                           the same; lapse
#     FIRST_BYTES         after FIRST_LAPSES_MAX of these                              none: Spark's buffers limit it
#
# Limits are advice: a sender continues even if messages are lost, late or wrong. A target that has stopped advising is
# paused, or in a long call of a user's function, or its advice was lost. So after its wait it gets one more budget: the
# input that it finds after a pause is in proportion to the pause, not everything that the sender has. The wait is
# LAPSE_MS, and doubles each time it proves too short: otherwise a task with calls of ten seconds would get ten budgets
# for each call. A target that waits for a barrier, which may be behind unsent records, gets a budget each LAPSE_MS. A
# target that advises but consumes nothing is throttled itself: its turn comes, and more input would only add to its
# queue. A target that has not advised yet is still opening. A slot without bytes in flight to a target may always send
# to it. Source: Flink's buffer debloating.

LAPSE_MS = 1_000
LAPSE_MS_MAX = 4_000
"""Without advice each wait is longer than the one before, up to this. If advice never comes, a job continues so."""
WAIT_MS_MAX = 64_000
STALLED_WAITS_MAX = 5
"""A target with a second of queued work consumes nothing of some sender for a second. More input would add to it."""
FIRST_LAPSE_MS = 5_000
FIRST_LAPSES_MAX = 12
"""Leaves a sink a minute to open. After that advice probably does not arrive, and the job would crawl."""
FIRST_BYTES = 1 << 6
"""The limit until the first advice, which comes 10 ms after the first record: about twenty small records. There are as
many channels as pairs of slots, in each exchange, and a slow sink has to consume all of them first. Budgets of a fast
target double with each advice."""
BUFFER_BYTES_MIN = 1 << 4


class _Limit:
    """The limit of one target, by its advice."""

    # fmt: off
    __slots__ = (
        "budget", "buffer", "column_rows", "consumed", "first_lapse_bytes", "has_advised", "has_set_aside", "lapses",
        "learned_wait_ms", "reports_stall", "settled", "stalled_ms", "throttling_since_ms",
    )
    # fmt: on

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.buffer = budget // BUFFERS_IN_FLIGHT
        self.column_rows = COLUMN_ROWS_MAX
        self.consumed = 0
        self.settled = 0
        """Bytes that are not in flight: consumed or written off."""
        self.throttling_since_ms: int | None = None
        """When the limit was reached, or lapsed; None: the target has room."""
        self.reports_stall = False
        """Whether, since the last update, advice said that the target consumes nothing, and not for a barrier."""
        self.stalled_ms = 0
        """When `reports_stall` was last seen (ms)."""
        self.has_set_aside = False
        """Whether the last advice said that bytes are set aside for a barrier."""
        self.lapses = 0
        """How often the limit has lapsed since more was consumed."""
        self.first_lapse_bytes = 0
        """All bytes sent to the target at the first of these lapses."""
        self.learned_wait_ms = LAPSE_MS
        """The first wait without advice: longer for a target whose calls take long."""
        self.has_advised = False

    def progress(self, advice: Advice, now_ms: int) -> None:
        """Apply advice with more consumed bytes."""
        if self.lapses and not self.has_set_aside:
            # If the bytes written off were still in flight, wait longer. If they were consumed, only advice was lost.
            is_late = advice.consumed_bytes < self.first_lapse_bytes
            longer_ms = min(max(2 * self.learned_wait_ms, self.current_wait_ms), WAIT_MS_MAX)
            self.learned_wait_ms = longer_ms if is_late else LAPSE_MS
        elif self.throttling_since_ms is None or now_ms - self.throttling_since_ms < self.learned_wait_ms // 4:
            self.learned_wait_ms = max(self.learned_wait_ms // 2, LAPSE_MS)
        self.consumed = self.settled = advice.consumed_bytes
        self.budget, self.buffer = advice.budget_bytes, advice.buffer_bytes
        self.throttling_since_ms, self.lapses, self.has_set_aside = None, 0, advice.has_set_aside

    @property
    def current_wait_ms(self) -> int:
        """How long to wait now: longer after each lapse."""
        if self.has_set_aside:
            return LAPSE_MS
        longer_ms = min(self.learned_wait_ms << min(self.lapses, 10), LAPSE_MS_MAX)
        return max(self.learned_wait_ms, longer_ms)

    @property
    def lapse_ms(self) -> int:
        """When the limit lapses. The target must be throttling."""
        assert self.throttling_since_ms is not None
        if not self.has_advised:
            return self.throttling_since_ms + FIRST_LAPSE_MS
        wait_ms = self.current_wait_ms
        last_ms = self.throttling_since_ms + STALLED_WAITS_MAX * wait_ms
        return min(max(self.throttling_since_ms, self.stalled_ms) + wait_ms, last_ms)

    def lapse(self, now_ms: int, sent: int) -> bool:
        """Return whether the limit of a throttling target lapses now. `sent`: all bytes sent to it.

        It lapses once, even if time for several lapses has passed.
        """
        if self.throttling_since_ms is None or now_ms < self.throttling_since_ms:
            # Throttling begins, or the clock was set back.
            self.throttling_since_ms = now_ms
        self.stalled_ms = min(self.stalled_ms, now_ms)
        if self.reports_stall:
            self.reports_stall, self.stalled_ms = False, now_ms
        if now_ms < self.lapse_ms:
            return False
        self.throttling_since_ms = now_ms
        if not self.lapses:
            self.first_lapse_bytes = sent
        self.lapses += 1
        return True


class InFlight:
    """Limits the output of one slot in flight. `sent`: all bytes sent, by index of the target, from the outbox."""

    def __init__(self, sent: Mapping[int, int]) -> None:
        self.first_bytes = FIRST_BYTES
        """The limit of a target that has not advised yet (bytes)."""
        self._sent = sent
        self._limits: dict[int, _Limit] = {}
        self._limited: dict[int, _Limit] = {}
        """The limits that apply: without those that ended because no advice arrived."""
        self._allowed: dict[int, float] = {}
        """The sum of bytes that may be sent, by target."""
        self._lapse_ms: int | None = None
        self.version = 0
        """Grows when the size of any target's buffers may be another one."""

    def advise(self, target: int, advice: Advice, now_ms: int) -> None:
        """Apply the advice of a target."""
        if target in self._sent and target not in self._limits:
            # The first bytes were sent since the last update. Do not ignore the advice: a free target advises once.
            self._limits[target] = self._limited[target] = _Limit(self.first_bytes)
        limit = self._limits.get(target)
        if limit is None or not limit.consumed <= advice.consumed_bytes <= self._sent[target]:
            return
        self.version += 1
        limit.column_rows = advice.column_rows
        if advice.consumed_bytes > limit.consumed or not limit.has_advised:
            limit.progress(advice, now_ms)
            limit.has_advised = True
            self._limited[target] = limit
        else:
            limit.reports_stall, limit.has_set_aside = not advice.has_set_aside, advice.has_set_aside
            if advice.consumed_bytes == self._sent[target]:
                # The target has consumed everything, so it waits for more: its new budget is right, even a larger one.
                limit.budget, limit.buffer = advice.budget_bytes, advice.buffer_bytes
                return
            # A target that consumes nothing may lower its budget, but not raise it.
            limit.budget = min(limit.budget, advice.budget_bytes)
            limit.buffer = min(limit.buffer, advice.buffer_bytes)

    def update(self, now_ms: int) -> bool:
        """Check all targets, and write off lapsed bytes. Returns whether the slot must wait before it sends more."""
        sent, limited = self._sent, self._limited
        if len(sent) > len(self._limits):
            self.version += 1
            for target in sent.keys() - self._limits.keys():
                self._limits[target] = limited[target] = _Limit(self.first_bytes)
        self._lapse_ms = None
        lapsed = []
        # One pass, because each step calls this, and there may be hundreds of targets.
        for target, limit in limited.items():
            in_flight = sent[target] - limit.settled
            if in_flight >= limit.budget:
                if in_flight and not limit.lapse(now_ms, sent[target]):
                    self._lapse_ms = earliest(self._lapse_ms, limit.lapse_ms)
                    continue
                limit.settled = sent[target]
                if limit.lapses >= FIRST_LAPSES_MAX and not limit.has_advised:
                    lapsed.append(target)
                    continue
            else:
                limit.throttling_since_ms = None
            self._allowed[target] = limit.settled + max(1, limit.budget)
        for target in lapsed:
            del limited[target]
            self._allowed[target] = math.inf
            self.version += 1
        return self._lapse_ms is not None

    def allows(self, target: int, sent_bytes: int) -> bool:
        """Return whether a target may be sent more, after `sent_bytes` in all, as of the last `update`."""
        return sent_bytes < self._allowed.get(target, self.first_bytes)

    def lapse_ms(self) -> int | None:
        """Return when the next limit lapses without further advice (ms), as of the last `update`."""
        return self._lapse_ms

    def buffer_sizes(self) -> Callable[[int], int | None]:
        """Return a function of a target that returns the size of its buffers (bytes); None: the largest.

        Several fit into the smallest budget, but for targets that take little: their small ones are theirs alone.
        """
        most = max((limit.budget for limit in self._limited.values()), default=0)
        of_many = min((limit.buffer for limit in self._limited.values() if limit.budget * LITTLE >= most), default=None)

        def size(target: int) -> int | None:
            if target not in self._limits:
                return max(BUFFER_BYTES_MIN, self.first_bytes // BUFFERS_IN_FLIGHT)
            if of_many is None:
                return None
            limit = self._limited.get(target)
            return max(BUFFER_BYTES_MIN, of_many if limit is None else min(limit.buffer, of_many))

        return size

    @property
    def column_rows(self) -> int:
        """How many rows a buffer of columns may have in any case: as many as the target that asks for most."""
        return max((limit.column_rows for limit in self._limited.values()), default=COLUMN_ROWS_MAX)


class Debloating:
    """Buffer debloating of one attempt of a slot.

    `sent`: the content of all buffers sent so far, by index of the target in the next level (bytes). `target_ms`: how
    long the data in flight to one slot should last.
    """

    def __init__(
        self,
        slot: SlotId,
        *,
        attempt: int,
        target_ms: int,
        sent: Mapping[int, int],
        now_ms: Callable[[], int],
    ) -> None:
        self._slot = slot
        self._attempt = attempt & ATTEMPT_MASK
        self._now_ms = now_ms
        self.in_flight = InFlight(sent)
        self.intake = Intake(target_ms, now_ms())
        self.is_throttled = False
        """Whether the slot must wait until less is in flight, as of the last `update`."""

    def update(self) -> bool:
        """Return whether the slot must wait now."""
        self.is_throttled = self.in_flight.update(self._now_ms())
        return self.is_throttled

    def receive(self, message: bytes) -> None:
        """Apply advice that has arrived. Advice of an earlier attempt is dropped."""
        header = decode_header(message)
        if header.attempt == self._attempt:
            self.in_flight.advise(header.sender, Advice(*decode_message(message)), self._now_ms())

    def outgoing_advice(self) -> Iterator[tuple[SlotId, bytes]]:
        """Yield the advice to send now, each with its slot."""
        level, index = self._slot
        for sender, advice in self.intake.advice(self._now_ms()).items():
            header = Header(
                NO_KEY_GROUP,
                ADVICE_EDGE,
                index,
                sequence=0,
                target=sender,
                attempt=self._attempt,
                kind=ChunkKind.MESSAGE,
            )
            yield SlotId(level - 1, sender), encode_message(header, [*advice])

    def wake_at_ms(self) -> int | None:
        """Return when to call `outgoing_advice` or `update` even if nothing arrives (ms), or None."""
        due_ms = self.intake.due_ms()
        lapse_ms = self.in_flight.lapse_ms() if self.is_throttled else None
        return earliest(due_ms, lapse_ms)
