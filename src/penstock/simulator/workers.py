"""Workers: the hosts of the slots of attempts, as Spark and faults see them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from penstock.jobmaster.attempt import slots_of
from penstock.jobmaster.effects import Deploy
from penstock.plan.pickling import dump_level
from penstock.rpc.messages import FromSlot, Heartbeat
from penstock.runtime.ids import SlotId
from penstock.runtime.task.vertex import LevelSpec
from penstock.simulator.checkers import RegionChecks
from penstock.simulator.circumstances import Circumstances
from penstock.simulator.clock import Clock
from penstock.simulator.host import SlotHost, World
from penstock.simulator.network import Network
from penstock.simulator.storage import MemoryRun


def workers_of(
    effect: Deploy,
    levels: list[LevelSpec],
    clock: Clock,
    circumstances: Circumstances,
    world: World,
    storage: MemoryRun,
) -> dict[SlotId, SlotHost]:
    """One worker for each slot of an attempt, not started yet."""
    payloads = {level.level: dump_level(level) for level in levels}
    return {
        slot: SlotHost(payloads[slot.level], slot, clock, circumstances, world, storage, effect.attempt.number)
        for slot in slots_of(effect.graph, effect.attempt.region)
    }


def draw_living(workers: dict[SlotId, SlotHost], random: Random) -> SlotId | None:
    """One that runs, for a fault."""
    alive = [slot for slot, host in sorted(workers.items()) if not host.is_frozen]
    return random.choice(alive) if alive else None


def heartbeats(workers: dict[SlotId, SlotHost]) -> Iterator[FromSlot]:
    """Those of all living workers. They arrive at once: the thread that sends them has nothing else to do."""
    for slot, host in workers.items():
        if host.sends_heartbeats:
            yield FromSlot(host.attempt, *slot, Heartbeat([]))


class Workers:
    """The workers of a job, the network between them, and what is checked of them, through all its attempts."""

    def __init__(self) -> None:
        self.hosts: dict[SlotId, SlotHost] = {}
        """Of the present attempts, those that are gone included."""
        self.running: dict[SlotId, SlotHost] = {}
        """Those whose query was not stopped."""
        self.network = Network(1)
        self.checks: dict[int, RegionChecks] = {}
        """Of the region that hosts a level, by level."""
        self._cuts_before = 0

    @property
    def cuts(self) -> int:
        """How many cuts were compared."""
        return self._cuts_before + sum(checks.cuts.cuts for checks in set(self.checks.values()))

    def new_job(self, channel_rows: int) -> None:
        """All are gone, and another job begins. `channel_rows`: how many rows a channel holds."""
        self._cuts_before = self.cuts
        self.hosts, self.running, self.checks = {}, {}, {}
        self.network = Network(channel_rows)

    def start(self, levels: range, workers: dict[SlotId, SlotHost], checks: RegionChecks) -> None:
        """The workers of a new attempt of a region. Those of other regions go on."""
        before = self.checks.get(levels.start)
        self._cuts_before += before.cuts.cuts if before is not None else 0
        self.checks.update(dict.fromkeys(levels, checks))
        _remove(self.hosts, levels)
        self.hosts.update(workers)
        self.running.update(workers)

    def stop(self, levels: range) -> None:
        """The workers of a region are killed."""
        for slot, host in self.running.items():
            if slot.level in levels:
                host.kill()
        _remove(self.running, levels)
        self.network.forget(levels)


def _remove(workers: dict[SlotId, SlotHost], levels: range) -> None:
    for slot in [slot for slot in workers if slot.level in levels]:
        del workers[slot]
