"""The load of a simulated job, as its slots report it: drawn, so that an autoscaler has something to decide."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from random import Random

import msgspec

from penstock.engine.jobmaster.events import Reported
from penstock.engine.rpc.messages import Heartbeat, OperatorReport, TaskReport
from penstock.engine.runtime.ids import SlotId
from penstock.hosts.simulator.autoscaling import WINDOW_MS
from penstock.hosts.simulator.clock import Clock
from penstock.hosts.simulator.host import SlotHost
from penstock.hosts.simulator.master_host import MasterHost
from penstock.hosts.simulator.network import ControlMessages
from penstock.hosts.simulator.report import Trace
from penstock.hosts.simulator.workers import heartbeats


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
