"""How long to wait before another try."""

from __future__ import annotations

import msgspec

from penstock.connectors.base.options import checked_at_least

PAUSE_MAX_MS = 86_400_000
"""What a server may want at the most: a day. Longer numbers may be too long for a number, or for a clock."""
_DIGITS_MAX = 18


def wanted_pause_ms(digits: str, unit_ms: int = 1) -> int:
    """How long a server wants to be left alone, of the digits that it has sent: `PAUSE_MAX_MS` at the most."""
    return min(int(digits) * unit_ms, PAUSE_MAX_MS) if len(digits) <= _DIGITS_MAX else PAUSE_MAX_MS


class Backoff(msgspec.Struct, frozen=True):
    """Twice as long each time, from `first_ms` to `most_ms`, and never shorter than the server wants it."""

    first_ms: int = 500
    most_ms: int = 30_000

    @classmethod
    def checked(cls, backoff_ms: int, backoff_max_ms: int) -> Backoff:
        """Return one with these pauses. Raise ValueError below 1, or if the longest is the shorter one."""
        first_ms = checked_at_least("backoff_ms", backoff_ms, 1)
        return cls(first_ms, checked_at_least("backoff_max_ms", backoff_max_ms, first_ms))

    def pause_ms(self, tries: int, retry_after_ms: int | None, chance: float) -> int:
        """Before the next try, after `tries` that have failed. `chance`, of [0, 1), takes off up to half.

        So that subtasks which have failed together don't come again together.
        """
        most = min(self.most_ms, self.first_ms * 2 ** min(tries - 1, 32))
        return max(int(most * (1 - chance / 2)), retry_after_ms or 0)
