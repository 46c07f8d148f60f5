"""Workers: the hosts of the slots of attempts, as Spark and faults see them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from penstock.engine.jobmaster.attempt import slots_of
from penstock.engine.jobmaster.effects import Deploy
from penstock.engine.plan.pickling import dump_level
from penstock.engine.rpc.messages import FromSlot, Heartbeat
from penstock.engine.runtime.ids import SlotId
from penstock.engine.runtime.network.buffer import decode_header, encode
from penstock.engine.runtime.network.debloating import Advice
from penstock.hosts.simulator.checkers import RegionChecks
from penstock.hosts.simulator.circumstances import Circumstances
from penstock.hosts.simulator.clock import Clock
from penstock.hosts.simulator.external_store import ExternalStore
from penstock.hosts.simulator.host import SlotHost, World
from penstock.hosts.simulator.network import ControlMessages, FeedbackNetwork, Network
from penstock.hosts.simulator.storage import MemoryRun
from penstock.hosts.simulator.worker_places import WorkerPlaces

# Advice between slots, in transit: it may be lost, late, doubled and wrong, which must never stop a job.

_BYTES_MAX = (1, 100, 10_000, 1 << 40)


class AdviceInTransit:
    """Arrives in any order, in later attempts, too."""

    def __init__(self, circumstances: Circumstances, random: Random) -> None:
        self._random = random
        self._lost_rate = circumstances.advice_lost_rate
        self._false_rate = circumstances.advice_false_rate
        self._messages: list[tuple[SlotId, bytes]] = []

    def __bool__(self) -> bool:
        return bool(self._messages)

    def send(self, target: SlotId, message: bytes) -> None:
        """A slot advises another one."""
        self._messages.append((target, message))

    def next(self) -> tuple[SlotId, bytes] | None:
        """Some message that arrives now; None: it was lost."""
        random, messages = self._random, self._messages
        place = random.randrange(len(messages))
        target, message = messages[place]
        is_false = random.random() < self._false_rate
        if is_false and random.random() < 0.5:
            # It comes once more.
            return target, message
        del messages[place]
        if random.random() < self._lost_rate:
            return None
        if is_false:
            taken, budget, buffer = (random.randrange(random.choice(_BYTES_MAX)) for _ in range(3))
            said = Advice(taken, budget, buffer, is_aside=taken % 2 == 0)
            message = encode(decode_header(message), [([*said], None)])
        return target, message


def draw_living(workers: dict[SlotId, SlotHost], random: Random) -> SlotId | None:
    """One that runs, for a fault."""
    alive = [slot for slot, host in sorted(workers.items()) if not host.is_frozen]
    return random.choice(alive) if alive else None


def heartbeats(workers: dict[SlotId, SlotHost], control: ControlMessages) -> Iterator[tuple[SlotId, FromSlot]]:
    """Those of all living workers. They arrive at once: the thread that sends them has nothing else to do."""
    for slot, host in workers.items():
        if host.sends_heartbeats:
            yield slot, FromSlot(host.attempt, *slot, Heartbeat([], control.heartbeat(slot)))


class Workers:
    """The workers of a job, the network between them, and what is checked of them, through all its attempts."""

    def __init__(
        self, circumstances: Circumstances, clock: Clock, world: World, exact_time: bool, random: Random
    ) -> None:
        self._circumstances = circumstances
        self._clock = clock
        self._world = world
        self._exact_time = exact_time
        self._random = random
        self.hosts: dict[SlotId, SlotHost] = {}
        """Of the present attempts, those that are gone included."""
        self.running: dict[SlotId, SlotHost] = {}
        """Those whose query was not stopped."""
        self.network = Network(1)
        self.feedback = FeedbackNetwork(random)
        self.advice = AdviceInTransit(circumstances, random)
        self.checks: dict[int, RegionChecks] = {}
        """Of the region that hosts a level, by level."""
        self.places = WorkerPlaces()
        self._external = ExternalStore(circumstances.external_failure_rate, Random(0))
        self._cuts_before = 0
        self._parallelisms: set[tuple[int, ...]] = set()

    @property
    def were_rescaled(self) -> bool:
        """Whether there were attempts, of any job, with different parallelisms."""
        return len(self._parallelisms) > 1

    @property
    def cuts(self) -> int:
        """How many cuts were compared."""
        return self._cuts_before + sum(checks.cuts.cuts for checks in set(self.checks.values()))

    def new_job(self) -> None:
        """All are gone, and another job begins."""
        self._cuts_before = self.cuts
        self.hosts, self.running, self.checks = {}, {}, {}
        self.network = Network(self._circumstances.channel_rows)
        # What is late for a slot of another job does not get in: that job had other keys.
        self.feedback = FeedbackNetwork(self._random)
        self.advice = AdviceInTransit(self._circumstances, self._random)

    def start(self, effect: Deploy, job_id: str, storage: MemoryRun) -> dict[SlotId, SlotHost]:
        """The workers of a new attempt of a region, which have not started yet. Those of other regions go on."""
        circumstances, (region, number) = self._circumstances, effect.attempt
        self._parallelisms.add(tuple(vertex.parallelism for vertex in effect.graph.vertices))
        levels = effect.graph.levels(
            job_id,
            attempt=number,
            epoch=storage.epoch,
            exactly_once=circumstances.exactly_once,
            unaligned_after_ms=circumstances.unaligned_after_ms,
            in_flight_ms=circumstances.in_flight_ms,
            latency_interval_ms=circumstances.latency_interval_ms,
            reuses_objects=circumstances.reuses_objects,
            checkpointing=circumstances.has_interval,
            restore=effect.restored,
            workers=self._worker_counts(effect.graph.widths),
        )[effect.levels.start : effect.levels.stop]
        payloads = {level.level: dump_level(level) for level in levels}
        workers = {
            slot: SlotHost(
                payloads[slot.level], slot, self._clock, circumstances, self._world, storage, number, self._external
            )
            for slot in slots_of(effect.graph, region)
        }
        self.places.started(levels)
        before = self.checks.get(effect.levels.start)
        self._cuts_before += before.cuts.cuts if before is not None else 0
        edges = {id: edge for level in levels for id, edge in level.edges.items()}
        checks = RegionChecks(edges, self._exact_time, circumstances.exactly_once)
        self.checks.update(dict.fromkeys(effect.levels, checks))
        _remove(self.hosts, effect.levels)
        self.hosts.update(workers)
        self.running.update(workers)
        self.feedback.started(workers.keys())
        return workers

    def _worker_counts(self, widths: tuple[int, ...]) -> tuple[int, ...]:
        most = self._circumstances.workers_most
        return () if most is None else tuple(min(width, most) for width in widths)

    def fed_back(self, slot: SlotId, target: SlotId, row: bytes) -> None:
        """A slot feeds a buffer back."""
        self.checks[slot.level].channels.fed_back(row)
        self.feedback.send(slot, target, row)

    def advised(self, touch: Callable[[SlotId], None]) -> None:
        """Some advice arrives, or is lost. `touch` is called with the slot that it reaches."""
        arrived = self.advice.next()
        host = self.running.get(arrived[0]) if arrived is not None else None
        if arrived is not None and host is not None and host.is_open and not host.is_frozen:
            host.receive_advice(arrived[1])
            touch(host.id)

    def stop(self, levels: range) -> None:
        """The workers of a region are killed."""
        for slot, host in self.running.items():
            if slot.level in levels:
                host.kill()
        _remove(self.running, levels)
        self.network.forget(levels)
        self.feedback.stopped(levels, self._circumstances.late_rate)


def _remove(workers: dict[SlotId, SlotHost], levels: range) -> None:
    for slot in [slot for slot in workers if slot.level in levels]:
        del workers[slot]
