"""What a slot has in flight to each slot of the next level, and whether it may send more: by what those advise.

    limit of a target      event                                        next
    none yet               something is sent to it                      FIRST_BYTES
    any                    advice: what was taken in all, and a budget  that budget; none, if it has none
    any                    advice by which no more was taken            the same, or the smaller budget
    any                    advice that is late, or can't be true        the same
    a budget               each LAPSE_MS in which no more was taken     LAPSE_FACTOR times as much
    the same               after LAPSES_MAX of these                    none: only the size of Spark's buffers holds

It is advice only: whatever is lost, late or wrong, a sender goes on after `LAPSE_MS`, and soon as if it had never heard
of it. Who has nothing in flight may always send. Source: Flink's buffer debloating.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.runtime.network.intake import LAPSE_MS, PARTS, Advice

LAPSE_FACTOR = 4
LAPSES_MAX = 6
FIRST_BYTES = 1 << 11
"""Until the first advice, which comes 10 ms after the first record: hundreds of small records, not thousands. There are
as many channels as pairs of slots, in each exchange, and a slow sink has to take all of that before it is in time."""
_BUFFER_BYTES_MIN = 128


class _Limit:
    """What was said by one target."""

    __slots__ = ("budget", "lapsed", "room", "since_ms", "taken")

    def __init__(self, budget: int, now_ms: int) -> None:
        self.budget = budget
        self.room = budget
        """How much may be in flight now: the budget, or more when nothing is heard of it."""
        self.taken = 0
        self.since_ms = now_ms
        """When more was taken last."""
        self.lapsed = 0
        """How often it had lapsed when it was looked at last."""

    def lapse(self, now_ms: int) -> int:
        """How often it has lapsed."""
        if now_ms < self.since_ms:
            # The clock was set back.
            self.since_ms = now_ms
        self.lapsed = (now_ms - self.since_ms) // LAPSE_MS
        return self.lapsed

    @property
    def next_ms(self) -> int:
        """When it lapses for the next time. Not by the present time, which may have passed it unseen."""
        return self.since_ms + LAPSE_MS * (self.lapsed + 1)


class InFlight:
    """Of one slot. `sent`: bytes in all by index of the target, counted by the outbox."""

    def __init__(self, sent: Mapping[int, int]) -> None:
        self.first_bytes = FIRST_BYTES
        """How much may be sent to a target that has not advised yet."""
        self._sent = sent
        self._limits: dict[int, _Limit] = {}
        self._limited: dict[int, _Limit] = {}
        """Those that hold."""

    def heard(self, target: int, advice: Advice, now_ms: int) -> None:
        """A target has advised."""
        limit = self._limits.get(target)
        if limit is None or not limit.taken <= advice.taken_bytes <= self._sent[target]:
            return
        if advice.budget_bytes is None:
            limit.taken = advice.taken_bytes
            self._limited.pop(target, None)
        elif advice.taken_bytes > limit.taken:
            limit.taken, limit.since_ms, limit.lapsed = advice.taken_bytes, now_ms, 0
            limit.budget = limit.room = advice.budget_bytes
            self._limited[target] = limit
        else:
            # What has taken nothing may find that it is slower still; but time goes on.
            limit.budget = min(limit.budget, advice.budget_bytes)

    def holds(self, now_ms: int) -> bool:
        """Whether nothing may be sent now."""
        if len(self._sent) > len(self._limits):
            for target in self._sent.keys() - self._limits.keys():
                self._limits[target] = self._limited[target] = _Limit(self.first_bytes, now_ms)
        if not self._limited:
            return False
        for target, limit in list(self._limited.items()):
            lapses = limit.lapse(now_ms)
            if lapses >= LAPSES_MAX:
                del self._limited[target]
            else:
                limit.room = max(1, limit.budget) * LAPSE_FACTOR**lapses
        return any(self._left(target) <= 0 for target in self._limited)

    def room(self) -> int | None:
        """How many bytes may be sent, at least one; None: any number."""
        if not self._limits:
            return self.first_bytes
        return max(1, min(map(self._left, self._limited))) if self._limited else None

    def _left(self, target: int) -> int:
        limit, in_flight = self._limited[target], self._sent[target] - self._limited[target].taken
        return limit.room - in_flight if in_flight else max(1, limit.room)

    def lapse_ms(self) -> int | None:
        """When the next limit lapses, if nothing more is heard: in the past, if `holds` has not been asked since."""
        return min((limit.next_ms for limit in self._limited.values()), default=None)

    @property
    def buffer_bytes(self) -> int | None:
        """How large buffers should be, so that what may be in flight is several; None: as large as can be."""
        if not self._limits:
            return max(_BUFFER_BYTES_MIN, self.first_bytes // PARTS)
        if not self._limited:
            return None
        return max(_BUFFER_BYTES_MIN, min(limit.room for limit in self._limited.values()) // PARTS)
