"""What befalls workers: they are killed, or stopped, or their connection to the driver breaks."""

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
from penstock.hosts.simulator.workers import draw_living, heartbeats

# The load of a simulated job, as its slots report it: drawn, so that an autoscaler has something to decide.


class Load:
    """Of the workers that run."""

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
        """All slots report twice, and what they have done in between decides."""
        self._trace.add("fate", "the load changes")
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
            operator = OperatorReport("", self._records[key], self._records[key], 0, 0, {})
            times_ns = self._busy_ns[key], 0, self._held_ns[key]
            reports[slot].append(TaskReport(vertex, slot.index, 0, 0, 0, 0, *times_ns, 0, 0, 0, [operator]))
        for slot, heartbeat in list(heartbeats(self._running, self._control)):
            assert isinstance(heartbeat.report, Heartbeat)
            loaded = msgspec.structs.replace(heartbeat.report, reports=reports[slot])
            message = msgspec.structs.replace(heartbeat, report=loaded)
            self._driver.handle(Reported(message, self._control.connection(slot)))


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
