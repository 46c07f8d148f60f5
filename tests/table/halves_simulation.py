"""A simulation that stops with a savepoint between the halves of its sources, and starts again from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from random import Random

from tests.table.halves_source import PAUSE_MS, HalvesSource, new_pauses

from penstock.common.errors import JobError
from penstock.engine.jobmaster.events import SavepointRequested
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.plan.rescaling import parallelism_of_job, rescaled
from penstock.engine.runtime.checkpoint_options import CheckpointOptions
from penstock.hosts.simulator import Circumstances, Simulation, Trace
from penstock.hosts.simulator.storage import SAVEPOINTS

_NEVER = 1 << 40


class HalvesSimulation(Simulation):
    """Runs a job whose sources are HalvesSources. `parallelism`: the one after the savepoint, where it may change."""

    def __init__(
        self,
        graph: JobGraph,
        random: Random,
        circumstances: Circumstances,
        parallelism: int,
        restored: Callable[[], None],
    ) -> None:
        """`restored` is called when the job starts from its savepoint."""
        after = _with_parallelism(graph, parallelism)
        self._pauses = new_pauses()
        self._sources = halves(graph)
        self._restored = restored
        self._is_requested = False
        circumstances = dataclasses.replace(circumstances, rescale_rate=1.0)
        if not circumstances.checkpointing:
            circumstances = dataclasses.replace(circumstances, checkpoint_at_steps=(_NEVER,))
        super().__init__(graph, random, circumstances, Trace(None), rescaled=lambda random: after)

    def _start_next_job(self, savepoint: str | None = None) -> None:
        self._restored()
        super()._start_next_job(savepoint)

    def step(self) -> None:
        """Execute one event; stop with a savepoint before, if all first halves have been processed."""
        waits = None if self._is_requested else self._pauses.last_ms(self._sources)
        # Timers of what has been read fire in the first half of the pause.
        if waits is not None and self.clock.now_ms() >= waits + PAUSE_MS // 2:
            self._is_requested = True
            options = CheckpointOptions(savepoint=f"{SAVEPOINTS}halves", stop=True)
            self.driver.request(SavepointRequested(-1, options))
        super().step()


def halves(graph: JobGraph) -> int:
    """Return the number of sources that have halves. Others, such as VALUES, end at once."""
    return sum(isinstance(vertex.source, HalvesSource) for vertex in graph.sources)


def _with_parallelism(graph: JobGraph, parallelism: int) -> JobGraph:
    try:
        return rescaled(graph, parallelism_of_job(graph, parallelism))
    except JobError:
        # All of its operators have one subtask.
        return graph
