"""What happens to which run, drawn from a seed: printed, stored as JSON, and run again from there."""

from __future__ import annotations

import enum
import itertools
from collections.abc import Collection, Sequence
from random import Random

import msgspec


class Kind(enum.Enum):
    """A fault."""

    WORKER_KILLED = "worker killed"
    WORKER_STOPPED = "worker stopped"
    DAEMON_KILLED = "daemon killed"
    JVM_KILLED = "JVM killed"
    JVM_STOPPED = "JVM stopped"
    DRIVER_KILLED = "driver killed"
    DRIVER_STOPPED = "driver stopped"
    DRIVER_REPLACED = "driver stopped, taken over, continued"
    EXECUTOR_KILLED = "executor killed"
    DISK_FULL = "disk full"
    STORE_HANGS = "store hangs"
    STORE_FAILS = "store fails"
    POWER_LOST = "power lost"
    NETWORK_CUT = "network cut"
    NETWORK_SLOW = "network slow"
    CONNECTIONS_CUT = "connections cut"
    STATE_FLIPPED = "bit flipped in state"
    RECORD_FLIPPED = "bit flipped in the record"


class Moment(enum.Enum):
    """When it happens."""

    ANY = "any time"
    UPLOAD = "state is written"
    PRE_COMMIT = "a sink prepares"
    MANIFEST = "a manifest is stored"
    COMMIT = "a sink commits"
    RESTORE = "state is restored"
    SAVEPOINT = "a savepoint is taken"
    STOP = "the job stops with a savepoint"
    RESCALING = "the job starts with another parallelism"
    LAST = "the last checkpoint"


class Fault(msgspec.Struct, frozen=True):
    """One fault. `chance`: of what is left open, which process or bit; `ms`: how long it lasts, or is waited for."""

    kind: Kind
    moment: Moment
    chance: int
    ms: int


class RunPlan(msgspec.Struct, frozen=True):
    """One job from its beginning to its end, with the faults that befall it, in their order."""

    number: int
    backend: str
    exactly_once: bool
    is_cluster: bool
    faults: list[Fault]


class Plan(msgspec.Struct, frozen=True):
    """All runs of a seed."""

    seed: int
    runs: list[RunPlan]

    @property
    def faults(self) -> int:
        """How many there are."""
        return sum(len(run.faults) for run in self.runs)


_WEIGHTS = {
    # What makes a new JVM necessary takes ten times as long as the others.
    Kind.WORKER_KILLED: 8,
    Kind.WORKER_STOPPED: 3,
    Kind.DAEMON_KILLED: 3,
    Kind.JVM_KILLED: 2,
    Kind.JVM_STOPPED: 1,
    Kind.DRIVER_KILLED: 4,
    Kind.DRIVER_STOPPED: 1,
    Kind.DRIVER_REPLACED: 1,
    Kind.EXECUTOR_KILLED: 5,
    Kind.DISK_FULL: 3,
    Kind.STORE_HANGS: 3,
    Kind.STORE_FAILS: 3,
    Kind.POWER_LOST: 2,
    Kind.NETWORK_CUT: 3,
    Kind.NETWORK_SLOW: 3,
    Kind.CONNECTIONS_CUT: 3,
    Kind.STATE_FLIPPED: 3,
    Kind.RECORD_FLIPPED: 1,
}
OF_CLUSTER = {Kind.EXECUTOR_KILLED}
OF_THE_STORE = {Kind.DISK_FULL, Kind.STORE_HANGS, Kind.STORE_FAILS, Kind.POWER_LOST}
OF_THE_NETWORK = {Kind.NETWORK_CUT, Kind.NETWORK_SLOW, Kind.CONNECTIONS_CUT}
_UNTIMED = {Kind.STATE_FLIPPED, Kind.RECORD_FLIPPED}
"""They are found when something is restored, which is brought about: the moment of the flip does not matter."""
_RESTARTING = {Kind.DRIVER_KILLED, Kind.POWER_LOST}
"""After these the next run of the job may have another parallelism."""
_SELDOM = {Moment.STOP, Moment.LAST}
"""These end a job, so they need a new JVM, too."""
FAULTS_OF_RUN = 16


def possible(has_disk: bool, has_network: bool) -> set[Kind]:
    """The kinds that a run can carry out, by whether it has a disk and a network of its own."""
    return set(Kind) - (set() if has_disk else OF_THE_STORE) - (set() if has_network else OF_THE_NETWORK)


def one_of_each(kinds: Sequence[Kind], seed: int) -> list[Fault]:
    """A fault of each of these kinds, short ones, with the moments in turn that let the job run on."""
    random = Random(seed)
    moments = itertools.cycle([one for one in Moment if one not in _SELDOM and one is not Moment.RESCALING])
    faults = [
        Fault(kind, Moment.ANY if kind in _UNTIMED else next(moments), random.randrange(1 << 30), ms=500)
        for kind in kinds
    ]
    return [*faults[:-1], msgspec.structs.replace(faults[-1], moment=Moment.LAST)]


def draw(seed: int, faults: int, backends: Sequence[str], guarantees: Sequence[bool], kinds: Collection[Kind]) -> Plan:
    """Draw a plan. `kinds`: those that this machine permits."""
    random = Random(seed)
    runs: list[RunPlan] = []
    while (left := faults - sum(len(run.faults) for run in runs)) > 0:
        number = len(runs)
        # Each backend with each guarantee in turn; each fifth run has executors.
        backend = backends[number % len(backends)]
        exactly_once = guarantees[number // len(backends) % len(guarantees)]
        is_cluster = number % 5 == 4 and Kind.EXECUTOR_KILLED in kinds
        possible = [kind for kind in _WEIGHTS if kind in kinds and (is_cluster or kind not in OF_CLUSTER)]
        drawn = [_fault(random, possible) for _ in range(min(FAULTS_OF_RUN, left))]
        runs.append(RunPlan(number, backend, exactly_once, is_cluster, _in_order(drawn)))
    return Plan(seed, runs)


def _in_order(faults: Sequence[Fault]) -> list[Fault]:
    """There is one last checkpoint, at the end: what else was to befall it comes at any time."""
    last = [fault for fault in faults if fault.moment is Moment.LAST]
    others = [msgspec.structs.replace(fault, moment=Moment.ANY) for fault in last[1:]]
    return [*(fault for fault in faults if fault.moment is not Moment.LAST), *others, *last[:1]]


def _fault(random: Random, kinds: Sequence[Kind]) -> Fault:
    kind = random.choices(kinds, [_WEIGHTS[kind] for kind in kinds])[0]
    moments = [Moment.ANY] if kind in _UNTIMED else [*Moment, *(one for one in Moment if one not in _SELDOM)]
    possible = [moment for moment in moments if moment is not Moment.RESCALING or kind in _RESTARTING]
    return Fault(kind, random.choice(possible), random.randrange(1 << 30), random.choice([50, 500, 2_000, 4_000]))
