"""What a slot takes of its input, by sending slot, and how much of it each sender may have in flight: advice to them.

    takes        said last      next           said to each sender
    something    nothing yet    limited, free  soon, so that the senders' first limit does not hold them
    any          limited        limited, free  each `interval_ms`: what was taken in all, and a budget
    any          free           limited        the same, when the slot has no time left
    any          free           free           nothing: a slot that waits for input costs no message

The rule is `budget_of`: bytes that the slot takes in `target_ms`, by its rate while it was not waiting for input, as in
Flink's ThroughputCalculator. A slot that waits for input for half of the time or longer has no back pressure to bound.
"""

from __future__ import annotations

from typing import NamedTuple

FIRST_MS = 10
LAPSE_MS = 1_000
"""After so long without advice a sender takes its limit for one that has lapsed."""
INTERVAL_MS_MAX = LAPSE_MS // 2
PARTS = 8
"""A budget is so many buffers. With two senders so much is said in the time that it is for, with more of them less."""
AIM = 0.75
"""The share of that time that is aimed at: rates vary, and what is in the hands of both sides comes on top."""
BUDGET_BYTES_MIN = 1 << 10
_KEPT = 0.9
"""The weight of all that was before, against what was taken in a part of that time."""


class Advice(NamedTuple):
    """Of a receiving slot, to one that sends to it."""

    taken_bytes: int
    """Of all that it was sent."""
    budget_bytes: int | None
    """How much may be on its way; None: any amount."""


def budget_of(own_bytes: float, all_bytes: float, senders: int, busy_ms: float, target_ms: float) -> int:
    """How much one of `senders` may have in flight: what of it is taken in `target_ms`.

    `own_bytes` of `all_bytes` were its own, taken in `busy_ms`. Who has sent less than others may have an equal share,
    to be able to send more.
    """
    share = max(own_bytes, all_bytes / senders)
    return int(share * target_ms / busy_ms)


class Intake:
    """Of one slot. `target_ms`: for how long what is on its way to it should last."""

    def __init__(self, target_ms: int, now_ms: int) -> None:
        self._target_ms = target_ms * AIM
        self._whole_ms = target_ms
        self.budget_bytes_min = BUDGET_BYTES_MIN
        self._taken: dict[int, int] = {}
        """Bytes in all, by index of the sender."""
        self._counted: dict[int, int] = {}
        """The same, as of the last advice."""
        self._recent: dict[int, float] = {}
        self._recent_ms = 0.0
        self._recent_idle_ms = 0.0
        self._since_ms = now_ms
        self._idle_ns = 0
        self._has_begun = False
        """Whether something had come by the last look."""
        self._has_spoken = False
        self.limits = True
        """Whether senders keep to the limit that was advised, or to their first one."""

    @property
    def interval_ms(self) -> int:
        """Between two advices: a part of the target, and a larger one the more senders there are."""
        part = self._whole_ms * max(2, len(self._taken)) // (2 * PARTS)
        return max(FIRST_MS, min(part, self._whole_ms // 2, INTERVAL_MS_MAX))

    def took(self, sender: int, size: int) -> None:
        """A buffer of a slot was taken, whether it is processed now, set aside, or passed on."""
        self._taken[sender] = self._taken.get(sender, 0) + size

    def idle(self, ns: int) -> None:
        """The slot has waited for input."""
        self._idle_ns += ns

    def due_ms(self) -> int | None:
        """When something is to be said though nothing happens."""
        if not (self.limits and self._has_begun):
            return None
        return self._since_ms + (self.interval_ms if self._has_spoken else FIRST_MS)

    def advice(self, now_ms: int) -> dict[int, Advice]:
        """What is to be said now, by index of the sender."""
        elapsed_ms = now_ms - self._since_ms
        if elapsed_ms < 0 or not self._has_begun:
            # The clock was set back; or nothing had come yet, and to wait for that does not count.
            self._since_ms, self._idle_ns, self._has_begun = now_ms, 0, bool(self._taken)
            return {}
        if elapsed_ms < (self.interval_ms if self._has_spoken else FIRST_MS):
            return {}
        self._count(now_ms, elapsed_ms)
        did_limit = self.limits
        # What has just begun waits for its first records, even if they come faster than it can take them.
        self.limits = self._recent_ms < self._target_ms / 2 or self._recent_idle_ms < self._recent_ms / 2
        if not (self.limits or did_limit) and self._has_spoken:
            return {}
        self._has_spoken = True
        return {sender: Advice(taken, self._budget(sender)) for sender, taken in self._taken.items()}

    def _count(self, now_ms: int, elapsed_ms: int) -> None:
        # By time: with many senders, to whom it speaks rarely, what was long ago would count for longer.
        kept = _KEPT ** max(1.0, elapsed_ms * PARTS / self._whole_ms)
        for sender, taken in self._taken.items():
            fresh = taken - self._counted.get(sender, 0)
            self._recent[sender] = self._recent.get(sender, 0.0) * kept + fresh
            self._counted[sender] = taken
        self._recent_ms = self._recent_ms * kept + elapsed_ms
        self._recent_idle_ms = self._recent_idle_ms * kept + min(self._idle_ns / 1e6, elapsed_ms)
        self._since_ms, self._idle_ns = now_ms, 0

    def _budget(self, sender: int) -> int | None:
        if not self.limits:
            return None
        busy_ms = max(1.0, self._recent_ms - self._recent_idle_ms)
        recent = self._recent
        budget = budget_of(recent[sender], sum(recent.values()), len(recent), busy_ms, self._target_ms)
        return max(self.budget_bytes_min, budget)
