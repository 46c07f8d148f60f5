"""Workers: the hosts of the slots of attempts, for Spark and faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from penstock.engine.jobmaster.attempt import slots_of
from penstock.engine.jobmaster.effects import Deploy
from penstock.engine.plan.pickling import dump_level
from penstock.engine.rpc.messages import FromSlot, Heartbeat
from penstock.engine.runtime.ids import SlotId
from penstock.engine.runtime.network.buffer import decode_header, encode_message
from penstock.engine.runtime.network.debloating import Advice
from penstock.hosts.simulator.checkers import RegionChecks
from penstock.hosts.simulator.circumstances import Circumstances
from penstock.hosts.simulator.clock import Clock
from penstock.hosts.simulator.external_store import ExternalStore
from penstock.hosts.simulator.host import SlotHost, World
from penstock.hosts.simulator.network import ControlMessages, FeedbackNetwork, Network
from penstock.hosts.simulator.results import collecting_sinks
from penstock.hosts.simulator.shared_memory import SimulatedMemory
from penstock.hosts.simulator.storage import MemoryRun
from penstock.hosts.simulator.worker_places import WorkerPlaces

_BYTES_MAX = (1, 100, 10_000, 1 << 40)


class AdviceInTransit:
    """Advice between slots, in transit. It arrives in any order, also in later attempts, and never stops a job.

    It may be lost, late, doubled and wrong.
    """

    def __init__(self, circumstances: Circumstances, random: Random) -> None:
        self._random = random
        self._lost_rate = circumstances.advice_lost_rate
        self._false_rate = circumstances.advice_false_rate
        self._messages: list[tuple[SlotId, bytes]] = []

    def __bool__(self) -> bool:
        return bool(self._messages)

    def send(self, target: SlotId, message: bytes) -> None:
        """Send advice to a slot."""
        self._messages.append((target, message))

    def next(self) -> tuple[SlotId, bytes] | None:
        """Return a random message that arrives now; None if it was lost."""
        random, messages = self._random, self._messages
        place = random.randrange(len(messages))
        target, message = messages[place]
        is_false = random.random() < self._false_rate
        if is_false and random.random() < 0.5:
            # The message stays, and arrives once more.
            return target, message
        del messages[place]
        if random.random() < self._lost_rate:
            return None
        if is_false:
            taken, budget, buffer = (random.randrange(random.choice(_BYTES_MAX)) for _ in range(3))
            advice = Advice(taken, budget, buffer, has_set_aside=taken % 2 == 0)
            message = encode_message(decode_header(message), [*advice])
        return target, message


def draw_running(workers: dict[SlotId, SlotHost], random: Random) -> SlotId | None:
    """Draw a running worker for a fault."""
    alive = [slot for slot, host in sorted(workers.items()) if not host.is_frozen]
    return random.choice(alive) if alive else None


def heartbeats(workers: dict[SlotId, SlotHost], control: ControlMessages) -> Iterator[tuple[SlotId, FromSlot]]:
    """Return the heartbeats of all living workers. They arrive immediately: their thread only sends heartbeats."""
    for slot, host in workers.items():
        if host.sends_heartbeats:
            yield slot, FromSlot(host.attempt, *slot, Heartbeat([], control.heartbeat(slot)))


class Workers:
    """The workers of a job, the network between them, and their checks, through all attempts."""

    def __init__(
        self, circumstances: Circumstances, clock: Clock, world: World, exact_time: bool, random: Random
    ) -> None:
        self._circumstances = circumstances
        self._clock = clock
        self._world = world
        self._exact_time = exact_time
        self._random = random
        self.hosts: dict[SlotId, SlotHost] = {}
        """Workers of the current attempts, including dead ones."""
        self.running: dict[SlotId, SlotHost] = {}
        """Workers whose query was not stopped."""
        self.network = Network(1)
        self.feedback = FeedbackNetwork(random)
        self.advice = AdviceInTransit(circumstances, random)
        self.checks: dict[int, RegionChecks] = {}
        """Checks of the region that hosts a level, by level."""
        self.places = WorkerPlaces()
        self._external = ExternalStore(circumstances.external_failure_rate, Random(0))
        self._cuts_before = 0
        self._parallelisms: set[tuple[int, ...]] = set()

    @property
    def were_rescaled(self) -> bool:
        """Whether attempts, of any job, had different parallelisms."""
        return len(self._parallelisms) > 1

    @property
    def cuts(self) -> int:
        """How many cuts were compared."""
        return self._cuts_before + sum(checks.cuts.cuts for checks in set(self.checks.values()))

    def new_job(self) -> None:
        """Remove all workers, because another job starts."""
        self._cuts_before = self.cuts
        self.hosts, self.running, self.checks = {}, {}, {}
        self.network = Network(self._circumstances.channel_rows)
        # Late messages for slots of the former job do not arrive: each job has other keys.
        self.feedback = FeedbackNetwork(self._random)
        self.advice = AdviceInTransit(self._circumstances, self._random)

    def start(self, effect: Deploy, job_id: str, storage: MemoryRun) -> dict[SlotId, SlotHost]:
        """Return the workers of a new attempt of a region, before their start. Workers of other regions continue."""
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
            each_superstep=circumstances.each_superstep,
            restore=effect.restored,
            workers=self._worker_counts(effect.graph.widths),
            claims=circumstances.claims,
        )[effect.levels.start : effect.levels.stop]
        payloads = {level.level: dump_level(level) for level in levels}
        workers = {
            slot: SlotHost(
                payload=payloads[slot.level],
                slot_id=slot,
                clock=self._clock,
                circumstances=circumstances,
                world=self._world,
                storage=storage,
                attempt=number,
                external=self._external,
            )
            for slot in slots_of(effect.graph, region)
        }
        lost_rate, late_rate = circumstances.memory_lost_rate, circumstances.memory_late_rate
        self.places.started(levels, SimulatedMemory(lost_rate, late_rate, self._random))
        before = self.checks.get(effect.levels.start)
        self._cuts_before += before.cuts.cuts if before is not None else 0
        edges = {id: edge for level in levels for id, edge in level.edges.items()}
        checks = RegionChecks(
            edges,
            collecting_sinks(effect.graph),
            exact_time=self._exact_time,
            exactly_once=circumstances.exactly_once,
        )
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
        """Send a buffer that a slot feeds back."""
        self.checks[slot.level].channels.fed_back(row)
        self.feedback.send(slot, target, row)

    def advised(self, touch: Callable[[SlotId], None]) -> None:
        """Deliver some advice, or lose it. `touch` is called with the slot that it reaches."""
        arrived = self.advice.next()
        host = self.running.get(arrived[0]) if arrived is not None else None
        if arrived is not None and host is not None and host.is_open and not host.is_frozen:
            host.receive_advice(arrived[1])
            touch(host.id)

    def stop(self, levels: range) -> None:
        """Kill the workers of a region."""
        for slot, host in self.running.items():
            if slot.level in levels:
                host.kill()
        _remove(self.running, levels)
        self.network.forget(levels)
        self.feedback.stopped(levels, self._circumstances.late_rate)


def _remove(workers: dict[SlotId, SlotHost], levels: range) -> None:
    for slot in [slot for slot in workers if slot.level in levels]:
        del workers[slot]
