"""A slot that sends much to a fast one, and next to nothing to a slow one that others keep busy: it is not slowed.

A model of two senders, by a virtual clock: one has millions of records for the slow slot, the other watermarks.
"""

from __future__ import annotations

from collections import deque

import pytest
from tests.unit.plain_buffers import encoded

from penstock.engine.runtime.network.buffer import NO_KEY_GROUP, Header, Watermark, content_bytes
from penstock.engine.runtime.network.debloating import Advice, InFlight, Intake

PIPE_MS = 10
WATERMARKS_MS = 200
RECORD_BYTES = 4
FAST_BYTES_PER_MS = 2_000
WATERMARK_BYTES = content_bytes(encoded(Header(NO_KEY_GROUP, 0, 1, 0, 0, 0), [Watermark(1_790_000_000_000)]))


class Sender:
    """What a slot has in flight, and the advice that is on its way to it: when, of which target."""

    def __init__(self, *targets: int) -> None:
        self.sent = dict.fromkeys(targets, 0)
        self.in_flight = InFlight(self.sent)
        self.advice: deque[tuple[int, int, Advice]] = deque()

    def may_send(self, now_ms: int) -> bool:
        """Whether it has heard enough for that by now."""
        while self.advice and self.advice[0][0] <= now_ms:
            _, target, advice = self.advice.popleft()
            self.in_flight.advise(target, advice, now_ms)
        return not self.in_flight.update(now_ms)


class Slots:
    """Sender 0 has millions for the slow slot, sender 1 watermarks for that and millions for a fast one."""

    def __init__(self, record_ms: int, target_ms: int) -> None:
        self._now_ms = 0
        self._record_ms = record_ms
        self._busy, self._other = Sender(0), Sender(0, 1)
        self._slow, self._fast = Intake(target_ms, 0), Intake(target_ms, 0)
        self._to_slow: deque[tuple[int, int, int]] = deque()
        self._to_fast: deque[tuple[int, int]] = deque()
        self._records_left = 0
        self._busy_until_ms = 0

    def run(self, ms: int) -> int:
        """Let time pass. Returns how much the fast slot was sent meanwhile."""
        before = self._other.sent[1]
        for _ in range(ms):
            self._now_ms += 1
            self._send()
            self._take()
            self._take_fast()
        return self._other.sent[1] - before

    def _send(self) -> None:
        now_ms, sent = self._now_ms, self._busy.sent
        if self._busy.may_send(now_ms):
            size = max(1, (self._busy.in_flight.buffer_sizes()(0) or 4_096) // RECORD_BYTES) * RECORD_BYTES
            while self._busy.in_flight.allows(0, sent[0]):
                sent[0] += size
                self._to_slow.append((now_ms + PIPE_MS, 0, size))
        if not self._other.may_send(now_ms):
            return
        if now_ms % WATERMARKS_MS == 0:
            self._other.sent[0] += WATERMARK_BYTES
            self._to_slow.append((now_ms + PIPE_MS, 1, WATERMARK_BYTES))
        left = FAST_BYTES_PER_MS
        size = min(self._other.in_flight.buffer_sizes()(1) or left, left)
        while left > 0 and all(self._other.in_flight.allows(to, sent) for to, sent in self._other.sent.items()):
            self._other.sent[1] += size
            self._to_fast.append((now_ms + PIPE_MS, size))
            left -= size

    def _take(self) -> None:
        now_ms = self._now_ms
        if now_ms < self._busy_until_ms:
            return
        if not self._records_left and self._to_slow and self._to_slow[0][0] <= now_ms:
            _, sender, size = self._to_slow.popleft()
            self._slow.received(sender, size)
            self._slow.started(sender, size)
            self._records_left = size // RECORD_BYTES if sender == 0 else 0
        if self._records_left:
            self._records_left -= 1
            self._busy_until_ms = now_ms + self._record_ms
        else:
            self._slow.idle(1_000_000)
        for sender, advice in self._slow.advice(now_ms).items():
            (self._busy, self._other)[sender].advice.append((now_ms + PIPE_MS, 0, advice))

    def _take_fast(self) -> None:
        while self._to_fast and self._to_fast[0][0] <= self._now_ms:
            _, size = self._to_fast.popleft()
            self._fast.received(1, size)
            self._fast.started(1, size)
        self._fast.idle(600_000)
        for advice in self._fast.advice(self._now_ms).values():
            self._other.advice.append((self._now_ms + PIPE_MS, 1, advice))


@pytest.mark.thorough
@pytest.mark.parametrize(("record_ms", "target_ms"), [(20, 1_000), (100, 333)])
def test_watermarks_to_a_slow_slot_do_not_hold_their_sender(record_ms: int, target_ms: int) -> None:
    """One would fill what may be on its way to a slot that takes twenty bytes in a tenth of a second."""
    slots = Slots(record_ms, target_ms)
    slots.run(2_000)
    assert slots.run(6_000) > 0.9 * 6_000 * FAST_BYTES_PER_MS
