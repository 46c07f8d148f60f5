"""What tests of SQL share: circumstances of the simulator, random rows, and the check that the planner is there."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest

from penstock.hosts.simulator import Circumstances
from penstock.table.planner.errors import PlannerError
from penstock.table.planner.planner import shared_process

SMALL = Circumstances(chunk_records=3, buffer_records=3, channel_rows=2)
START = datetime(2024, 1, 1)


def need_planner() -> None:
    """Skip the test where neither the planner's jars nor Java can be had."""
    try:
        shared_process()
    except PlannerError as error:
        pytest.skip(f"Flink's planner can't be had here: {error}")


def crashing() -> Iterator[Circumstances]:
    """Yield circumstances with checkpoints, and workers that are killed behind them; state on the heap, and not."""
    for entries in (None, 3):
        yield Circumstances(
            chunk_records=3,
            buffer_records=3,
            channel_rows=2,
            checkpoint_at_steps=(60, 120, 180),
            crash_at_steps=(130, 190),
            cached_entries=entries,
        )


def at(seconds: float) -> datetime:
    """Return a moment."""
    return START + timedelta(seconds=seconds)


def in_time(random: Random, keys: str, count: int) -> list[tuple[Any, ...]]:
    """Return rows of key, number and time, in the order of time."""
    return [(random.choice(keys), random.randrange(100), at(place)) for place in range(count)]
