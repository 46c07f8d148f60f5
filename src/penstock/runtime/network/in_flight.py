"""What a slot has in flight to each slot of the next level, and whether it may send more: by what those advise.

    limit of a target      event                                        next
    none yet               something is sent to it                      FIRST_BYTES
    any                    advice: what was taken in all, and a budget  that budget; none, if it has none
    any                    advice that is late, or can't be true        the same
    a budget               LAPSE_MS without news that more was taken    none: only the size of Spark's buffers holds

It is advice only. A sender waits for `LAPSE_MS` at most until something more was taken: whatever is lost, late or
wrong, it goes on then. Who has nothing in flight may always send. Source: Flink's buffer debloating.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.runtime.network.intake import PARTS, Advice

LAPSE_MS = 1_000
FIRST_BYTES = 1 << 15
_BUFFER_BYTES_MIN = 128


class _Limit:
    """What was said by one target."""

    __slots__ = ("budget", "since_ms", "taken")

    def __init__(self, now_ms: int) -> None:
        self.budget: int | None = FIRST_BYTES
        self.taken = 0
        self.since_ms = now_ms
        """When more was taken last."""


class InFlight:
    """Of one slot. `sent`: bytes in all by index of the target, counted by the outbox."""

    def __init__(self, sent: Mapping[int, int]) -> None:
        self._sent = sent
        self._limits: dict[int, _Limit] = {}
        self._limited: dict[int, _Limit] = {}
        """Those that have a budget."""

    def heard(self, target: int, advice: Advice, now_ms: int) -> None:
        """A target has advised."""
        limit = self._limits.get(target)
        if limit is None or not limit.taken <= advice.taken_bytes <= self._sent[target]:
            return
        if advice.taken_bytes > limit.taken:
            limit.taken, limit.since_ms = advice.taken_bytes, now_ms
            self._limited[target] = limit
        # Without news of more a budget that has lapsed is not renewed.
        limit.budget = advice.budget_bytes
        if advice.budget_bytes is None:
            self._limited.pop(target, None)

    def holds(self, now_ms: int) -> bool:
        """Whether nothing may be sent now."""
        if len(self._sent) > len(self._limits):
            for target in self._sent.keys() - self._limits.keys():
                self._limits[target] = self._limited[target] = _Limit(now_ms)
        if not self._limited:
            return False
        lapsed = [at for at, one in self._limited.items() if not 0 <= now_ms - one.since_ms < LAPSE_MS]
        for target in lapsed:
            del self._limited[target]
        return any(self._room(target) <= 0 for target in self._limited)

    def room(self) -> int | None:
        """How many bytes may be sent, at least one; None: any number."""
        return max(1, min(map(self._room, self._limited))) if self._limited else None

    def _room(self, target: int) -> int:
        limit, in_flight = self._limited[target], self._sent[target] - self._limited[target].taken
        assert limit.budget is not None
        return limit.budget - in_flight if in_flight else max(1, limit.budget)

    def lapse_ms(self) -> int | None:
        """When the next limit lapses, if nothing more is heard."""
        return min((limit.since_ms + LAPSE_MS for limit in self._limited.values()), default=None)

    @property
    def buffer_bytes(self) -> int | None:
        """How large buffers should be, so that a budget is several of them; None: as large as can be."""
        budgets = [limit.budget for limit in self._limited.values() if limit.budget is not None]
        return max(_BUFFER_BYTES_MIN, min(budgets) // PARTS) if budgets else None
