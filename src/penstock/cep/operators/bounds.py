"""A bound on the partial matches of a key, and what happens to a key that exceeds it."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.cep.errors import MalformedPatternError

DISCARD_OLDEST = "discard_oldest"
FAIL = "fail"


@dataclass(frozen=True)
class Bound:
    """At most `most` partial matches per key. `policy`: DISCARD_OLDEST or FAIL."""

    most: int
    policy: str = DISCARD_OLDEST

    def __post_init__(self) -> None:
        given: object = self.most
        if not isinstance(given, int) or isinstance(given, bool) or given < 1:
            raise MalformedPatternError(f"a bound of partial matches is a positive int, got {given!r:.100}")
        if self.policy not in (DISCARD_OLDEST, FAIL):
            raise MalformedPatternError(
                f"the policy of a bound is '{DISCARD_OLDEST}' or '{FAIL}', got {self.policy!r:.100}"
            )
