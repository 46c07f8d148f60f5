"""What befalls workers: they are killed, or stopped, or their connection to the driver breaks."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from penstock.common.errors import TaskLostError
from penstock.runtime.ids import SlotId
from penstock.simulator.clock import Clock
from penstock.simulator.host import SlotHost
from penstock.simulator.load import Load
from penstock.simulator.master_host import MasterHost
from penstock.simulator.network import ControlMessages
from penstock.simulator.report import Trace, name_of
from penstock.simulator.workers import draw_living


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
