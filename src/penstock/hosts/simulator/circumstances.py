"""Parameters of a run other than its program: budgets, buffer sizes, capacities, checkpoints, faults, cancellation."""

from __future__ import annotations

import dataclasses
from random import Random

from penstock.engine.runtime.network.claims import ClaimSettings
from penstock.engine.runtime.network.sender import BufferSize
from penstock.engine.runtime.network.set_aside import AlignmentLimits
from penstock.engine.runtime.task.budget import Budget
from penstock.engine.runtime.task.slot import Slot
from penstock.engine.state.backends.rocksdb.store import OpenStore
from penstock.hosts.simulator.clock import START_MS, Clock
from penstock.hosts.simulator.stores import MemoryStore

NEVER_MS = 1_000_000_000
FIRST_RECORDS = 64
"""Full chunks from the first call on: programs here have few records, and would end before chunks had grown."""


@dataclasses.dataclass(frozen=True)
class Circumstances:
    """All sizes are deliberately tiny, so that every point at which work can be interrupted is reached."""

    start_ms: int = START_MS
    """The first processing time. Never drawn."""
    tick_ns_max: int = 1_000
    step_ns: int = 4_000_000
    step_bytes: int = 1 << 20
    chunk_records: int = 1024
    buffer_records: int = 512
    buffer_bytes: int = 1 << 17
    channel_rows: int = 64
    exactly_once: bool = True
    latency_interval_ms: int = 0
    reuses_objects: bool = False
    """`pipeline.object-reuse`. Never drawn: programs of the simulator keep and change values."""
    checkpoint_at_steps: tuple[int, ...] = ()
    trigger_lost: float = 0.0
    """Probability that a checkpoint trigger to a source is lost."""
    abort_rate: float = 0.0
    """Probability that a checkpoint is aborted some time after its trigger."""
    upload_failure_rate: float = 0.0
    """Probability that a write to checkpoint storage fails."""
    crash_at_steps: tuple[int, ...] = ()
    """When a slot is killed. The job restarts from its latest checkpoint, if there is one."""
    crash_rate: float = 0.0
    """Probability that a slot is killed soon after a checkpoint completes."""
    growth_max: float = 1.0
    """Maximum size of incremental files relative to the full one."""
    rescale_rate: float = 0.0
    """Probability that the job restarts with other parallelisms."""
    retained: int = 1
    """Number of completed checkpoints retained."""
    cancel_at_step: int | None = None
    savepoint_at_steps: tuple[int, ...] = ()
    """When the user triggers a savepoint."""
    stop_rate: float = 0.0
    """Probability that the job stops with the savepoint and is restored from it, possibly with other parallelisms."""
    cached_entries: int | None = None
    """The number of entries in memory of a key-value store backend; None: state is on the heap."""
    open_store: OpenStore = MemoryStore
    """Opens that store. Never drawn."""
    external_store: bool = False
    """Whether keyed state is in a store outside the workers, with `cached_entries` (default: 1) in memory."""
    external_failure_rate: float = 0.0
    """Probability that such a store fails before it stores a value."""
    store_timers: tuple[bool, ...] = (True,)
    """Whether that backend's timers are also in the store, for each attempt in turn."""
    alignment_limits: AlignmentLimits = dataclasses.field(default_factory=AlignmentLimits)
    driver_crash_at_steps: tuple[int, ...] = ()
    """When the driver dies with all its slots. The user restarts the job from the latest checkpoint in storage."""
    driver_crash_rate: float = 0.0
    """Probability that the driver dies during an action, right after it has changed the storage."""
    stopped_rate: float = 0.0
    """Probability that the driver's process is stopped before it changes the storage. It counts as dead, and continues
    while another run has its job."""
    effect_stopped_rate: float = 0.0
    """Probability of the same before another effect: a message to a slot, a commit, a query, a call."""
    late_rate: float = 0.0
    """Probability that a control message is duplicated, or arrives after its attempt."""
    checkpoint_interval_ms: int = NEVER_MS
    pause_ms: int = 0
    concurrent_max: int = 1
    checkpoint_timeout_ms: int = 600_000
    upload_ms_max: int = 0
    """Maximum delay before checkpoint storage starts to write."""
    commit_failure_rate: float = 0.0
    """Probability that a commit fails, which fails and restarts the job."""
    stop_crash_rate: float = 0.0
    """Probability that a slot is killed while the job stops with a savepoint."""
    freeze_at_steps: tuple[int, ...] = ()
    """The steps at which a worker is stopped without dying."""
    cut_at_steps: tuple[int, ...] = ()
    """The steps at which the connection between a worker and the driver breaks and is opened again."""
    slots_missing_rate: float = 0.0
    """Probability that Spark has too few slots for a restart."""
    slot_never_starts_rate: float = 0.0
    """Probability that a slot of a restarted job never registers."""
    lost_while_starting: float = 0.0
    """Probability that the session, the query, a slot or the storage of a restarted attempt is lost while it starts.
    Never drawn."""
    damage_rate: float = 0.0
    """Probability that a restarted job finds its newest checkpoint damaged; output committed since is written again."""
    drain_rate: float = 0.0
    """Probability that a job that is stopped with a savepoint is drained."""
    restart_strategy: int = 0
    """Index of the restart strategy: see master_host.py."""
    full_failover: bool = False
    """Whether all regions are restarted when one fails."""
    in_flight_ms: int = 0
    """Target time for a slot to process the data in flight to it; 0: no limit."""
    in_flight_bytes: int = 1 << 15
    """The limit of data in flight between two slots before the first advice, and the lowest limit."""
    advice_lost_rate: float = 0.0
    """Probability that the advice of a slot is lost."""
    advice_false_rate: float = 0.0
    """Probability that it is doubled, or wrong."""
    unaligned_after_ms: int | None = None
    """How long barriers wait for each other before they overtake records; None: they never overtake."""
    rescale_at_steps: tuple[int, ...] = ()
    """When the user requests other parallelisms while the job runs."""
    load_changes_at_steps: tuple[int, ...] = ()
    """When slots report another load, on which the autoscaler acts; empty: the job has no autoscaler."""
    slots_change_at_steps: tuple[int, ...] = ()
    """When Spark has another number of slots, which the job follows; empty: Spark has as many as the job needs."""
    update_at_steps: tuple[int, ...] = ()
    """When the user replaces the functions of the running job."""
    state_reads_at_steps: tuple[int, ...] = ()
    """When the user queries keyed state."""
    claims: ClaimSettings | None = None
    """The memory in which workers pass rows on; None: they don't."""
    memory_lost_rate: float = 0.0
    """Probability that a worker does not find the memory of another."""
    memory_late_rate: float = 0.0
    """Probability that a sender does not see yet that a receiver has taken a row from it."""
    jump_rate: float = 0.01
    """Weight of advancing the clock while other actions are possible, relative to one of them."""

    savepoints_only: bool = False
    """Whether the job has no checkpoint interval: it restarts from the savepoints of its user. Never drawn."""
    each_superstep: bool = False
    """Whether supersteps wait for checkpoints, so that each has one. Never drawn: it needs an interval."""
    workers_most: int | None = None
    """The most workers of a level, which its slots share; None: each slot has its own. Never drawn."""
    has_directory: bool = True
    """Whether another run finds the job, in the checkpoint directory that the user has set. Never drawn."""

    @property
    def checkpointing(self) -> bool:
        """Whether the job takes checkpoints."""
        return bool(self.checkpoint_at_steps or self.crash_at_steps or self.driver_crash_at_steps)

    @property
    def buffers(self) -> BufferSize:
        """The sizes at which buffers are full."""
        return BufferSize(self.buffer_bytes, self.buffer_records)

    @property
    def has_interval(self) -> bool:
        """Whether checkpoints are periodic. If not, output is committed with savepoints and at the end."""
        return self.checkpointing and not self.savepoints_only

    @staticmethod
    def draw(random: Random) -> Circumstances:
        """Draw random parameters."""
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
        return drawn._with_faults(random)

    def _with_faults(self, random: Random) -> Circumstances:
        # If everything fails, no checkpoint completes. So faults mostly occur alone, and rarely all together.
        fails = self.checkpointing
        return dataclasses.replace(
            self,
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
            freeze_at_steps=_crashes(random) if fails and random.random() < 0.3 else (),
            slots_missing_rate=random.choice([0.0, 0.0, 0.3]),
            slot_never_starts_rate=random.choice([0.0, 0.0, 0.2]),
            drain_rate=random.choice([0.0, 0.0, 0.2]),
            restart_strategy=random.randrange(3),
            cached_entries=random.choice([None, None, 0, 1, 5]),
            alignment_limits=AlignmentLimits(random.choice([0, 200, 1 << 20]), random.choice([1 << 20, 1 << 20, 500])),
            damage_rate=random.choice([0.0, 0.3]) if fails and not self.exactly_once else 0.0,
            stopped_rate=random.choice([0.0, 0.0, 0.02, 0.1]) if fails else 0.0,
            full_failover=random.random() < 0.15,
            store_timers=random.choice([(True,), (True,), (False,), (True, False), (False, True)]),
            cut_at_steps=_crashes(random) if fails and random.random() < 0.3 else (),
            in_flight_ms=random.choice([0, 0, 0, 1, 20, 1_000]),
            advice_lost_rate=random.choice([0.0, 0.2, 1.0]),
            advice_false_rate=random.choice([0.0, 0.2, 0.9]),
            in_flight_bytes=random.choice([1, 60, 400]),
            unaligned_after_ms=random.choice([None, None, 0, 0, 5, 100]),
            rescale_at_steps=_savepoints(random) if fails else (),
            load_changes_at_steps=_savepoints(random) if fails else (),
            slots_change_at_steps=_savepoints(random) if fails else (),
            update_at_steps=_savepoints(random) if fails else (),
            state_reads_at_steps=_state_reads(random),
            effect_stopped_rate=random.choice([0.0, 0.0, 0.001, 0.02]) if fails else 0.0,
            claims=_claims(random),
            memory_lost_rate=random.choice([0.0, 0.0, 0.5]),
            memory_late_rate=random.choice([0.0, 0.3, 0.9]),
        )

    def budget(self, clock: Clock) -> Budget:
        """Return a slot's budget."""
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


def _claims(random: Random) -> ClaimSettings | None:
    if random.random() < 0.3:
        return None
    return ClaimSettings(
        blocks=random.choice([1, 2, 5, 50]),
        block_bytes=random.choice([16, 100, 1_000]),
        row_bytes_min=random.choice([0, 60, 120]),
    )


def _state_reads(random: Random) -> tuple[int, ...]:
    if random.random() < 0.7:
        return ()
    return tuple(sorted(random.randint(0, 1_200) for _ in range(random.randint(1, 40))))


class TightBudget(Budget):
    """A budget whose chunks stay small, however many records fit into a buffer."""

    __slots__ = ("_chunk_records", "_chunk_records_max")

    def __init__(self, chunk_records_max: int, clock: Clock, step_ns: int, step_bytes: int) -> None:
        self._chunk_records_max = self._chunk_records = chunk_records_max
        super().__init__(clock.read_ns, step_ns, step_bytes)

    @property
    def chunk_records(self) -> int:
        """Number of records that an operator should collect before it emits."""
        return self._chunk_records

    @chunk_records.setter
    def chunk_records(self, records: int) -> None:
        self._chunk_records = max(1, min(records, self._chunk_records_max))


def fit_sizes(slot: Slot, circumstances: Circumstances) -> None:
    """Apply the sizes of the circumstances to a slot: of data in flight, and of incremental files."""
    if slot.debloating is not None:
        slot.debloating.in_flight.first_bytes = circumstances.in_flight_bytes
        slot.debloating.intake.budget_bytes_min = circumstances.in_flight_bytes
    for task in slot.tasks.values():
        for chain in task.snapshots.files:
            chain.growth_max = circumstances.growth_max
