"""What befalls workers: they are killed, or stopped, or their connection to the driver breaks."""

from __future__ import annotations

import enum
from collections.abc import Callable
from random import Random

from penstock.common.errors import SparkLostError, TaskLostError
from penstock.engine.runtime.ids import SlotId
from penstock.hosts.simulator.clock import Clock
from penstock.hosts.simulator.host import SlotHost
from penstock.hosts.simulator.load import Load
from penstock.hosts.simulator.master_host import MasterHost
from penstock.hosts.simulator.network import ControlMessages
from penstock.hosts.simulator.report import Trace, name_of
from penstock.hosts.simulator.workers import draw_living


class Start(enum.Enum):
    """What an attempt needs to start."""

    SESSION = 0
    QUERY = 1
    SLOT = 2
    STORAGE = 3


class WorkerFaults:
    """Those of the workers that run. `touched` is called for a slot that one befalls."""

    def __init__(
        self,
        running: dict[SlotId, SlotHost],
        control: ControlMessages,
        driver: MasterHost,
        clock: Clock,
        random: Random,
        trace: Trace,
        touched: Callable[[SlotId], None],
    ) -> None:
        self.load = Load(running, control, driver, clock, random, trace)
        """What they report of it."""
        self._running = running
        self._control = control
        self._driver = driver
        self._random = random
        self._trace = trace
        self._touched = touched

    def crash(self) -> None:
        """A worker is killed: Spark notices it some time later."""
        slot = self._victim()
        if slot is not None:
            self._trace.add("fate", f"{name_of(slot)} is killed")
            self._running[slot].kill()
            self._control.forget(slot)
            region = self._driver.master.regions.of_level(slot.level).index
            self._driver.query_failed(region, TaskLostError(f"{name_of(slot)} was killed"))

    def session_lost(self, region: int) -> None:
        """The session of a new attempt is lost before its query has begun."""
        self._trace.add("fate", "Spark's new session is lost")
        self._driver.query_failed(region, SparkLostError("a new session could not be started"))

    def lost_while_starting(self, lost: Start | None, region: int, workers: dict[SlotId, SlotHost]) -> None:
        """The query of a new attempt, or one of its workers, ends before they have opened."""
        if lost is Start.QUERY:
            self._trace.add("fate", "Spark's JVM is killed")
            self._driver.query_failed(region, SparkLostError("Spark's JVM has ended"))
        elif lost is Start.SLOT:
            slot = self._random.choice(sorted(workers))
            self._trace.add("fate", f"{name_of(slot)} is killed as it starts")
            workers[slot].freeze()
            self._driver.query_failed(region, TaskLostError(f"{name_of(slot)} was killed"))

    def freeze(self) -> None:
        """A worker is stopped without dying: only its missing heartbeats show it."""
        slot = self._victim()
        if slot is not None:
            self._trace.add("fate", f"{name_of(slot)} is frozen")
            self._running[slot].freeze()
            self._touched(slot)

    def cut(self) -> None:
        """The connection of a worker to the driver breaks and is made again: only what is lost shows it."""
        slot = self._victim()
        if slot is not None:
            self._trace.add("fate", f"the connection of {name_of(slot)} breaks")
            self._control.cut(slot)

    def change_slots(self) -> None:
        """An executor comes, or one is lost with the workers that it runs: what the driver has then is what is left."""
        least = len(self._driver.master.graph.widths)
        slots = self._driver.slots = self._random.choice([least, least + 1, least * 2, least * 3, least * 4])
        self._trace.add("fate", f"Spark has {slots} slots")
        for _ in range(max(0, len(self._running) - slots)):
            self.crash()

    def _victim(self) -> SlotId | None:
        regions = self._driver.master.regions
        up = {slot: host for slot, host in self._running.items() if regions.of_level(slot.level).is_up}
        return draw_living(up, self._random)
