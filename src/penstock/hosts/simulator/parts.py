"""Facts about the records of an operator: from the plain evaluation, and for a run that reads some records again."""

from __future__ import annotations

import dataclasses
import enum

from penstock.hosts.simulator.programs import Timed

SPLIT, SPLIT_AND_KEY, SPREAD = "split", "split and key", "spread"


class RereadEffect(enum.IntEnum):
    """How a part differs in a run in which sources reread some records. The strongest statement comes first.

    Numbers are never negative, so sums and counts only grow when a record is repeated.
    """

    REPEATED = 0
    """Exactly its records, some of them repeated: results independent of other records stay the same."""
    MORE = 1
    """All its records, and possibly others."""
    GREATER = 2
    """For each record one with the same origin, path, key and time, and a number at least as high; possibly others."""
    UNKNOWN = 3
    """Unknown: a function reads a number that may have grown, and behaves differently."""


@dataclasses.dataclass(frozen=True)
class Part:
    """Records of one operator, and how they are partitioned."""

    records: list[Timed]
    exact: bool = True
    count: int | None = None
    timed: bool = True
    order: str | None = None
    how: str = "forward"
    parallelism: int = 1
    reread: RereadEffect = RereadEffect.REPEATED
    finals: dict[int, int] | None = None
    """For a running reduce: the greatest, and so last, number of each key."""
