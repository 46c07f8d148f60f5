"""What a run meets beside its program: budgets, buffer sizes, capacities, checkpoints, and when it is cancelled."""

from __future__ import annotations

import dataclasses
from random import Random
from typing import Any

from penstock.runtime.network.set_aside import AlignmentLimits
from penstock.runtime.task.budget import Budget
from penstock.simulator.clock import Clock

NEVER_MS = 1_000_000_000


@dataclasses.dataclass(frozen=True)
class Circumstances:
    """All sizes are tiny on purpose, so that each place at which work can be interrupted is reached."""

    tick_ns_max: int = 1_000
    step_ns: int = 4_000_000
    step_bytes: int = 1 << 20
    chunk_records: int = 1024
    buffer_records: int = 512
    buffer_bytes: int = 1 << 17
    channel_rows: int = 64
    exactly_once: bool = True
    latency_interval_ms: int = 0
    checkpoint_at_steps: tuple[int, ...] = ()
    trigger_lost: float = 0.0
    """How likely it is that a source is not told of a checkpoint."""
    abort_rate: float = 0.0
    """How likely it is that a checkpoint is given up, some time after it began."""
    upload_failure_rate: float = 0.0
    """How likely it is that a write to checkpoint storage fails."""
    crash_at_steps: tuple[int, ...] = ()
    """When a slot is killed. The job starts again from its latest checkpoint, if there are any."""
    crash_rate: float = 0.0
    """How likely it is that a slot is killed soon after a checkpoint is complete."""
    growth_max: float = 1.0
    """How large the changes of a snapshot may grow, against its full file."""
    rescale_rate: float = 0.0
    """How likely it is that the job starts again with other parallelisms."""
    retained: int = 1
    """How many completed checkpoints are kept."""
    cancel_at_step: int | None = None
    savepoint_at_steps: tuple[int, ...] = ()
    """When the user takes a savepoint."""
    stop_rate: float = 0.0
    """How likely it is that the job stops with one, and is started from it, perhaps with other parallelisms."""
    cached_entries: int | None = None
    """State is in a key-value store, with so many entries in memory; None: on the heap."""
    alignment_limits: AlignmentLimits = dataclasses.field(default_factory=AlignmentLimits)
    driver_crash_at_steps: tuple[int, ...] = ()
    """When the driver dies, with all its slots. The user starts the job from the latest checkpoint in storage."""
    driver_crash_rate: float = 0.0
    """How likely it is that the driver dies in the middle of what it does, right after it has changed the storage."""
    late_rate: float = 0.0
    """How likely it is that a control message comes twice, or after its attempt."""
    checkpoint_interval_ms: int = NEVER_MS
    pause_ms: int = 0
    concurrent_max: int = 1
    checkpoint_timeout_ms: int = 600_000
    upload_ms_max: int = 0
    """How long checkpoint storage may take before it begins to write."""
    commit_failure_rate: float = 0.0
    """How likely it is that a commit fails: with it fails the job, and starts again."""
    stop_crash_rate: float = 0.0
    """How likely it is that a slot is killed while the job stops with a savepoint."""
    jump_rate: float = 0.01
    """How often the clock jumps while there is something to do, against one for each thing that could be done."""

    @property
    def checkpointing(self) -> bool:
        """Whether the job takes checkpoints."""
        return bool(self.checkpoint_at_steps or self.crash_at_steps or self.driver_crash_at_steps)

    @staticmethod
    def draw(random: Random) -> Circumstances:
        """Circumstances by chance."""
        tick_ns_max = random.choice([10, 1_000, 100_000, 3_000_000])
        exactly_once = random.random() < 0.8
        crash_at_steps = _crashes(random) if exactly_once else ()
        drawn = Circumstances(
            tick_ns_max=tick_ns_max,
            step_ns=tick_ns_max * random.choice([2, 3, 5, 20, 1000]),
            step_bytes=random.choice([1, 60, 300, 2_000, 1 << 20]),
            chunk_records=random.choice([1, 2, 3, 7, 50, 1024]),
            buffer_records=random.choice([1, 2, 5, 20, 512]),
            buffer_bytes=random.choice([40, 150, 600, 1 << 17]),
            channel_rows=random.choice([1, 1, 2, 4, 64]),
            exactly_once=exactly_once,
            latency_interval_ms=random.choice([0, 0, 0, 50]),
            checkpoint_at_steps=_steps(random, often=bool(crash_at_steps)),
            trigger_lost=random.choice([0.0, 0.0, 0.1]),
            abort_rate=random.choice([0.0, 0.0, 0.01]),
            upload_failure_rate=random.choice([0.0, 0.0, 0.0, 0.02]),
            crash_at_steps=crash_at_steps,
            crash_rate=random.choice([0.3, 0.8]) if crash_at_steps else 0.0,
            growth_max=random.choice([1.0, 1_000.0, 1_000.0]),
            rescale_rate=random.choice([0.0, 0.5, 1.0]),
            retained=random.choice([1, 1, 2, 5]),
            cancel_at_step=random.randint(0, 400) if random.random() < 0.06 else None,
            savepoint_at_steps=_savepoints(random),
            stop_rate=random.choice([0.0, 0.5, 1.0]),
        )
        if not exactly_once and (crash_at_steps := _crashes(random)):
            drawn = dataclasses.replace(
                drawn,
                crash_at_steps=crash_at_steps,
                checkpoint_at_steps=_steps(random, often=True),
                crash_rate=random.choice([0.3, 0.8]),
            )
        # Where everything fails nothing is ever complete: so each of these alone, now and then, and seldom all at once.
        fails = drawn.checkpointing
        return dataclasses.replace(
            drawn,
            driver_crash_at_steps=_driver_crashes(random) if fails else (),
            driver_crash_rate=random.choice([0.0, 0.0, 0.0, 0.0, 0.05]) if fails else 0.0,
            late_rate=random.choice([0.0, 0.0, 0.1, 0.5]),
            checkpoint_interval_ms=random.choice([NEVER_MS, NEVER_MS, NEVER_MS, 100, 2_000]),
            pause_ms=random.choice([0, 0, 500]),
            concurrent_max=random.choice([1, 1, 2, 3]),
            checkpoint_timeout_ms=random.choice([3_000, 3_000, 3_000, 3_000, 500, 60]),
            upload_ms_max=random.choice([0, 0, 0, 20, 1_000]),
            commit_failure_rate=random.choice([0.0, 0.0, 0.0, 0.0, 0.02]) if fails else 0.0,
            stop_crash_rate=random.choice([0.0, 0.5]),
            cached_entries=random.choice([None, None, 0, 1, 5]),
            alignment_limits=AlignmentLimits(random.choice([0, 200, 1 << 20]), random.choice([1 << 20, 1 << 20, 500])),
        )

    def budget(self, clock: Clock) -> Budget:
        """A slot's budget."""
        return TightBudget(self.chunk_records, clock, self.step_ns, self.step_bytes)


def _steps(random: Random, often: bool) -> tuple[int, ...]:
    if random.random() < (0.1 if often else 0.5):
        return ()
    return tuple(sorted(random.randint(0, 800) for _ in range(random.randint(1, 20 if often else 6))))


def _crashes(random: Random) -> tuple[int, ...]:
    if random.random() < 0.6:
        return ()
    return tuple(sorted(random.randint(0, 900) for _ in range(random.randint(1, 4))))


def _driver_crashes(random: Random) -> tuple[int, ...]:
    if random.random() < 0.7:
        return ()
    return tuple(sorted(random.randint(0, 900) for _ in range(random.randint(1, 3))))


def _savepoints(random: Random) -> tuple[int, ...]:
    if random.random() < 0.7:
        return ()
    return tuple(sorted(random.randint(0, 900) for _ in range(random.randint(1, 3))))


class TightBudget(Budget):
    """A budget whose chunks stay small, however many records would fit a buffer."""

    __slots__ = ("_chunk_records", "_chunk_records_max")

    def __init__(self, chunk_records_max: int, clock: Clock, step_ns: int, step_bytes: int) -> None:
        self._chunk_records_max = self._chunk_records = chunk_records_max
        super().__init__(clock.read_ns, step_ns, step_bytes)

    @property
    def chunk_records(self) -> int:
        """How many records an operator should gather before it emits."""
        return self._chunk_records

    @chunk_records.setter
    def chunk_records(self, records: int) -> None:
        self._chunk_records = max(1, min(records, self._chunk_records_max))


def shrink_buffers(slot: Any, circumstances: Circumstances) -> None:
    """Make the buffers of a slot's tasks as small, and their chains of files as long, as the circumstances say."""
    for task in slot.tasks.values():
        for chain in task.snapshots.files:
            chain.growth_max = circumstances.growth_max
        for edge in task.edges:
            edge._records_max = circumstances.buffer_records
            edge._buffer_bytes = circumstances.buffer_bytes
