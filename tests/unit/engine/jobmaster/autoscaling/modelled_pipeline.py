"""A pipeline as a model: rates, costs and selectivities; its subtasks report what they would have counted.

All tasks of a slot share its time. If a slot has more to do than it can, all sources are held back by as much, and
what they don't emit waits, as in a topic of Kafka.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Mapping
from random import Random

from penstock.engine.jobmaster.autoscaling.autoscaler import Autoscaler
from penstock.engine.jobmaster.autoscaling.decision import ScalingDecision
from penstock.engine.jobmaster.autoscaling.settings import AutoscalerSettings
from penstock.engine.jobmaster.autoscaling.topology import Feed, ScaledVertex, slots_of
from penstock.engine.rpc.messages import OperatorReport, TaskReport

STEP_MS = 15_000
RESTART_MS = 1_500


@dataclasses.dataclass(frozen=True)
class Modelled:
    """A vertex. `cost_us`: of one record; `skew`: how much more than the mean its busiest subtask gets.

    `waits`: all its subtasks wait for one database, so each record takes the longer the more of them there are.
    """

    name: str
    level: int
    cost_us: float
    feeds: tuple[int, ...] = ()
    selectivity: float = 1.0
    keyed: bool = False
    most: int = 1024
    skew: float = 0.0
    offered: Callable[[int], float] = lambda now_ms: 0.0
    """Of a source: records each second, by the time."""
    tells_pending: bool = True
    fixed: str = ""
    waits: bool = False
    group: int | None = None
    """The first of the vertices that have one parallelism with it; None: it is alone."""


def feeds_of(vertex: Modelled) -> tuple[Feed, ...]:
    return tuple(Feed(id, 0) for id in vertex.feeds)


class Pipeline:
    """Runs by itself: each step its tasks report, and the autoscaler is asked and obeyed."""

    def __init__(
        self,
        vertices: list[Modelled],
        settings: AutoscalerSettings,
        parallelism: Mapping[str, int] | None = None,
        noise: float = 0.0,
        seed: int = 0,
        slots: int | None = None,
    ) -> None:
        self.vertices = vertices
        self.parallelism = [(parallelism or {}).get(vertex.name, 1) for vertex in vertices]
        self.now_ms = 1_000_000
        self.decisions: list[ScalingDecision] = []
        self.notes: list[str] = []
        self.pending = [0.0] * len(vertices)
        self._slots = slots
        self._noise, self._random = noise, Random(seed)
        self.autoscaler = Autoscaler(settings)
        self._start()

    @property
    def topology(self) -> list[ScaledVertex]:
        return [
            ScaledVertex(
                id,
                v.name,
                v.level,
                self.parallelism[id],
                v.most,
                tuple(Feed(f, 0) for f in v.feeds),
                v.keyed,
                id if v.group is None else v.group,
                v.fixed,
            )
            for id, v in enumerate(self.vertices)
        ]

    @property
    def subtasks(self) -> int:
        return sum(self.parallelism)

    def widths(self) -> dict[str, int]:
        return {vertex.name: self.parallelism[id] for id, vertex in enumerate(self.vertices)}

    def loads(self, now_ms: int | None = None) -> list[float]:
        """For each vertex how busy its busiest slot would be if nothing was held back and nothing pending; 1: full."""
        flows = self._flows([v.offered(now_ms or self.now_ms) for v in self.vertices])
        slots = self._slot_loads(flows)
        return [max(slots[v.level, i] for i in range(self.parallelism[id])) for id, v in enumerate(self.vertices)]

    def run(self, ms: int) -> list[ScalingDecision]:
        """Time passes. Returns what was decided meanwhile."""
        before, end_ms = len(self.decisions), self.now_ms + ms
        while self.now_ms < end_ms:
            self.now_ms += STEP_MS
            self._step()
            proposed = self.autoscaler.propose(self.now_ms)
            if proposed is not None:
                self._obey(proposed)
        return self.decisions[before:]

    def starts_again(self, parallelism: Mapping[str, int] | None = None) -> None:
        """After a failure; or, by name, with another parallelism, which a user has asked for."""
        self.autoscaler.stopped()
        for id, vertex in enumerate(self.vertices):
            self.parallelism[id] = (parallelism or {}).get(vertex.name, self.parallelism[id])
        self._start()

    def _obey(self, proposed: ScalingDecision) -> None:
        free = None if self._slots is None else self._slots - slots_of(self.topology, {})
        decision = self.autoscaler.decide(proposed, free)
        self.notes += decision.notes
        if decision.vertices:
            self.decisions.append(decision)
            for id, subtasks in decision.parallelism.items():
                assert 1 <= subtasks <= self.vertices[id].most
                self.parallelism[id] = subtasks
            for id, vertex in enumerate(self.vertices):
                self.pending[id] += vertex.offered(self.now_ms) * RESTART_MS / 1000
            self.now_ms += RESTART_MS
            self._start()

    def _start(self) -> None:
        self._counts: list[list[list[float]]] = [[[0.0] * 5 for _ in range(p)] for p in self.parallelism]
        self.autoscaler.started(self.topology, self.now_ms)

    def _flows(self, emitted: list[float]) -> list[float]:
        flows: list[float] = []
        for id, vertex in enumerate(self.vertices):
            came = sum(flows[f] * self.vertices[f].selectivity for f in vertex.feeds)
            flows.append(came if vertex.feeds else emitted[id])
        return flows

    def _shares(self, id: int) -> list[float]:
        """Which part of the records of a vertex each of its subtasks gets."""
        p, skew = self.parallelism[id], self.vertices[id].skew
        busiest = min(1.0, (1 + skew) / p)
        return [1.0] if p == 1 else [busiest, *[(1 - busiest) / (p - 1)] * (p - 1)]

    def _cost_us(self, id: int) -> float:
        vertex = self.vertices[id]
        return vertex.cost_us * self.parallelism[id] if vertex.waits else vertex.cost_us

    def _slot_loads(self, flows: list[float]) -> dict[tuple[int, int], float]:
        loads: dict[tuple[int, int], float] = defaultdict(float)
        for id, vertex in enumerate(self.vertices):
            flow, cost_us = flows[id], self._cost_us(id)
            for subtask, share in enumerate(self._shares(id)):
                loads[vertex.level, subtask] += flow * share * cost_us / 1e6
        return loads

    def _step(self) -> None:
        s = STEP_MS / 1000
        wanted = [
            v.offered(self.now_ms) * self._disturbed() + self.pending[id] / s if not v.feeds else 0.0
            for id, v in enumerate(self.vertices)
        ]
        flows = self._flows(wanted)
        slots = self._slot_loads(flows)
        held = 1 / max(1.0, *slots.values())
        if held < 1.0:
            flows = [flow * held for flow in flows]
            slots = self._slot_loads(flows)
        reports = []
        for id, vertex in enumerate(self.vertices):
            if not vertex.feeds:
                self.pending[id] = max(0.0, (wanted[id] - flows[id]) * s)
            counts, flow, cost_us = self._counts[id], flows[id], self._cost_us(id)
            for subtask, share in enumerate(self._shares(id)):
                count, records = counts[subtask], flow * share * s
                busy = min(1.0, records / s * cost_us / 1e6 * self._disturbed())
                free = max(0.0, 1 - slots[vertex.level, subtask])
                count[0] += records
                count[1] += records * vertex.selectivity
                count[2] += busy * s * 1e9
                count[3] += (free if held == 1.0 else 0.0) * s * 1e9
                count[4] += (free if held < 1.0 else 0.0) * s * 1e9
                reports.append(self._report(id, subtask, count))
        self.autoscaler.reported(reports, self.now_ms)

    def _report(self, id: int, subtask: int, count: list[float]) -> TaskReport:
        vertex = self.vertices[id]
        is_source = not vertex.feeds
        user = {"pendingRecords": round(self.pending[id] / self.parallelism[id])} if is_source else {}
        out = count[0] if is_source else count[1]
        counters = OperatorReport(
            vertex.name, 0 if is_source else round(count[0]), round(out), 0, 0, user if vertex.tells_pending else {}
        )
        times = (round(count[2]), round(count[3]), round(count[4]))
        return TaskReport(id, subtask, 0, 0, 0, 0, *times, 0, 0, 0, [counters])

    def _disturbed(self) -> float:
        return max(0.05, self._random.gauss(1.0, self._noise)) if self._noise else 1.0
