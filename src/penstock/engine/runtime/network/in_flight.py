"""What a slot has in flight to each slot of the next level, and whether it may send more: by what those advise.

    limit of a target          event                                        next
    none yet                   something is sent to it                      FIRST_BYTES
    any                        advice: what was taken in all, and a budget  that budget
    any                        advice by which no more was taken            the same, or the smaller budget
    any                        advice that is late, or can't be true        the same
    any, and it holds          its wait, in which nothing is heard          the same: what is in flight is written off
    any, and it holds          LAPSE_MS in which it has some of it aside    the same: what is in flight is written off
    any, and it holds          five waits in which no more was taken        the same: what is in flight is written off
    FIRST_BYTES, and it holds  each FIRST_LAPSE_MS without advice           the same: what is in flight is written off
    FIRST_BYTES                after FIRST_LAPSES_MAX of these              none: only the size of Spark's buffers holds

It is advice only: whatever is lost, late or wrong, a sender goes on. A target that has advised and is silent is in a
pause, or in a call of its user's that takes its time, or its advice is lost. So it gets one budget more after its wait:
what comes after a pause is in proportion to it, and not as much as there is. The wait is `LAPSE_MS`, and doubles each
time it was too short, as one learns when more is taken: a task whose calls all take ten seconds would be sent ten
budgets for each of them. One that waits for a barrier, which may be behind what is not sent, gets one each `LAPSE_MS`.
One that speaks, and takes nothing, holds itself: its turn comes, and more of the same would come on top. One that has
not advised yet is still opening. Who has nothing in flight may always send. Source: Flink's buffer debloating.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from penstock.common.time.earliest import earliest
from penstock.engine.runtime.network.intake import PARTS, Advice

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
