"""What a measurement is: a program with its options, and goals for its figures."""

from __future__ import annotations

import dataclasses
import enum


class Bound(enum.Enum):
    """Whether a goal is a minimum or a maximum."""

    AT_LEAST = "at least"
    AT_MOST = "at most"


@dataclasses.dataclass(frozen=True)
class Goal:
    """A figure of a program and its goal; `to_reach` None: it is only reported."""

    figure: str
    unit: str
    to_reach: float | None = None
    bound: Bound = Bound.AT_LEAST
    scaled: bool = False


@dataclasses.dataclass(frozen=True)
class Measurement:
    """A program with its options. `steady`: it accepts --warm-up and --seconds, the latter `seconds` unless --quick."""

    item: int
    name: str
    program: str
    options: tuple[str, ...]
    goals: tuple[Goal, ...]
    seconds: int = 20
    warm_up: int = 10
    steady: bool = True
    runs_max: int | None = None
    quick_options: tuple[str, ...] = ()
    """Options added with --quick; later options override earlier ones."""
    large: bool = False
    """Whether it needs so much disk and time that it is left out unless it is asked for (--large)."""


def rate_goal(to_reach: float | None = None) -> Goal:
    """Of records per second, relative to the yardstick."""
    return Goal("records_per_s", "records/s", to_reach, scaled=True)


def latency_goals(to_reach_ms: float | None) -> tuple[Goal, ...]:
    """Of the age of records."""
    return Goal("p99_ms", "ms", to_reach_ms, Bound.AT_MOST), Goal("p50_ms", "ms"), Goal("records_per_s", "records/s")
