"""Faults of workers: they are killed, or stopped, or their connection to the driver breaks."""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Callable, Iterator
from random import Random

import msgspec

from penstock.common.errors import SparkLostError, TaskLostError
from penstock.engine.jobmaster.events import Reported
from penstock.engine.rpc.messages import Heartbeat, OperatorReport, TaskReport
from penstock.engine.runtime.ids import SlotId
from penstock.hosts.simulator.clock import Clock
from penstock.hosts.simulator.host import SlotHost
from penstock.hosts.simulator.job_settings import WINDOW_MS
from penstock.hosts.simulator.master_host import MasterHost
from penstock.hosts.simulator.network import ControlMessages
from penstock.hosts.simulator.report import Trace, name_of
from penstock.hosts.simulator.workers import draw_running, heartbeats


class Load:
    """The load that running workers report. It is drawn at random, so that an autoscaler has decisions to make."""

    def __init__(
        self,
        running: dict[SlotId, SlotHost],
        control: ControlMessages,
        driver: MasterHost,
        clock: Clock,
        random: Random,
        trace: Trace,
    ) -> None:
        self._running = running
        self._control = control
        self._driver = driver
        self._clock = clock
        self._random = random
        self._trace = trace
        self._records: dict[tuple[SlotId, int], int] = defaultdict(int)
        self._busy_ns: dict[tuple[SlotId, int], int] = defaultdict(int)
        self._held_ns: dict[tuple[SlotId, int], int] = defaultdict(int)

    def change(self) -> None:
        """Let all slots report twice. The difference between the two reports is the new load."""
        self._trace.add("faults", "the load changes")
        self._report()
        self._clock.advance_to(self._clock.now_ms() + WINDOW_MS)
        for key in self._keys():
            self._records[key] += self._random.choice([0, 1, 10, 1_000])
            tenths = self._random.choice([0, 1, 5, 10])
            self._busy_ns[key] += tenths * WINDOW_MS * 100_000
            self._held_ns[key] += (10 - tenths) * WINDOW_MS * 100_000
        self._report()

    def _keys(self) -> Iterator[tuple[SlotId, int]]:
        return (
            (slot, vertex)
            for slot, host in self._running.items()
            for vertex in (host.slot.tasks if host.slot is not None else ())
        )

    def _report(self) -> None:
        reports: dict[SlotId, list[TaskReport]] = defaultdict(list)
        for slot, vertex in self._keys():
            key = slot, vertex
            operator = OperatorReport(
                name="",
                records_in=self._records[key],
                records_out=self._records[key],
                late_records_dropped=0,
                watermark=0,
                user={},
            )
            times_ns = self._busy_ns[key], 0, self._held_ns[key]
            reports[slot].append(TaskReport(vertex, slot.index, 0, 0, 0, 0, *times_ns, 0, 0, 0, [operator]))
        for slot, heartbeat in list(heartbeats(self._running, self._control)):
            assert isinstance(heartbeat.report, Heartbeat)
            loaded = msgspec.structs.replace(heartbeat.report, reports=reports[slot])
            message = msgspec.structs.replace(heartbeat, report=loaded)
            self._driver.handle(Reported(message, self._control.connection(slot)))


class StartFault(enum.Enum):
    """A part of a new attempt that may be lost while the attempt starts."""

    SESSION = 0
    QUERY = 1
    SLOT = 2
    STORAGE = 3


class WorkerFaults:
    """Applies faults to running workers. `touched` is called for each affected slot."""

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
        self.load = Load(running=running, control=control, driver=driver, clock=clock, random=random, trace=trace)
        """The load that they report."""
        self._running = running
        self._control = control
        self._driver = driver
        self._random = random
        self._trace = trace
        self._touched = touched

    def crash(self) -> None:
        """Kill a worker. Spark notices it some time later."""
        slot = self._victim()
        if slot is not None:
            self._trace.add("faults", f"{name_of(slot)} is killed")
            self._running[slot].kill()
            self._control.forget(slot)
            region = self._driver.master.regions.of_level(slot.level).index
            self._driver.query_failed(region, TaskLostError(f"{name_of(slot)} was killed"))

    def session_lost(self, region: int) -> None:
        """Lose the session of a new attempt before its query starts."""
        self._trace.add("faults", "Spark's new session is lost")
        self._driver.query_failed(region, SparkLostError("a new session could not be started"))

    def lost_while_starting(self, lost: StartFault | None, region: int, workers: dict[SlotId, SlotHost]) -> None:
        """End the query of a new attempt, or kill one of its workers, before they have opened."""
        if lost is StartFault.QUERY:
            self._trace.add("faults", "Spark's JVM is killed")
            self._driver.query_failed(region, SparkLostError("Spark's JVM has ended"))
        elif lost is StartFault.SLOT:
            slot = self._random.choice(sorted(workers))
            self._trace.add("faults", f"{name_of(slot)} is killed as it starts")
            workers[slot].freeze()
            self._driver.query_failed(region, TaskLostError(f"{name_of(slot)} was killed"))

    def freeze(self) -> None:
        """Stop a worker without killing it: only missing heartbeats show it."""
        slot = self._victim()
        if slot is not None:
            self._trace.add("faults", f"{name_of(slot)} is frozen")
            self._running[slot].freeze()
            self._touched(slot)

    def cut(self) -> None:
        """Break the connection of a worker to the driver, and open it again: only lost messages show it."""
        slot = self._victim()
        if slot is not None:
            self._trace.add("faults", f"the connection of {name_of(slot)} breaks")
            self._control.cut(slot)

    def change_slots(self) -> None:
        """Add or remove executors, and kill the workers that the remaining slots can't run."""
        least = len(self._driver.master.graph.widths)
        slots = self._driver.slots = self._random.choice([least, least + 1, least * 2, least * 3, least * 4])
        self._trace.add("faults", f"Spark has {slots} slots")
        for _ in range(max(0, len(self._running) - slots)):
            self.crash()

    def _victim(self) -> SlotId | None:
        regions = self._driver.master.regions
        up = {slot: host for slot, host in self._running.items() if regions.of_level(slot.level).is_up}
        return draw_running(up, self._random)
