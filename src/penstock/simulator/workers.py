"""The workers of one attempt: the hosts of its slots, as Spark and faults see them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from penstock.jobmaster.attempt import slots_of
from penstock.jobmaster.effects import Deploy
from penstock.plan.pickling import dump_level
from penstock.rpc.messages import FromSlot, Heartbeat
from penstock.runtime.ids import SlotId
from penstock.runtime.task.vertex import LevelSpec
from penstock.simulator.circumstances import Circumstances
from penstock.simulator.clock import Clock
from penstock.simulator.host import SlotHost, World
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
    payloads = [dump_level(level) for level in levels]
    return {
        slot: SlotHost(payloads[slot.level], slot, clock, circumstances, world, storage, effect.attempt)
        for slot in slots_of(effect.graph)
    }


def draw_living(workers: dict[SlotId, SlotHost], random: Random) -> SlotId | None:
    """One that runs, for a fault."""
    alive = [slot for slot, host in sorted(workers.items()) if not host.is_frozen]
    return random.choice(alive) if alive else None


def heartbeats(workers: dict[SlotId, SlotHost], attempt: int) -> Iterator[FromSlot]:
    """Those of all living workers. They arrive at once: the thread that sends them has nothing else to do."""
    for slot, host in workers.items():
        if host.sends_heartbeats and host.attempt == attempt:
            yield FromSlot(attempt, *slot, Heartbeat([]))
