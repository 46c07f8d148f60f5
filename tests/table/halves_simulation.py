"""A simulation that stops with a savepoint between the halves of its sources, and starts again from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from random import Random

from tests.table.halves_source import PAUSE_MS, HalvesSource, new_pauses

from penstock.engine.checkpoint.manifest import Manifest
from penstock.engine.jobmaster.events import SavepointRequested
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.runtime.checkpoint_options import CheckpointOptions
from penstock.hosts.simulator import Circumstances, Simulation, Trace
from penstock.hosts.simulator.storage import SAVEPOINTS

_NEVER = 1 << 40
_SAVEPOINT = f"{SAVEPOINTS}halves"


class HalvesSimulation(Simulation):
    """Runs a job whose sources are HalvesSources."""

    def __init__(
        self,
        graph: JobGraph,
        random: Random,
        circumstances: Circumstances,
        restored: Callable[[Manifest], JobGraph],
    ) -> None:
        """`restored` returns the plan of the job that starts from the savepoint."""
        self._pauses = new_pauses()
        self._sources = halves(graph)
        self._restored = restored
        self._is_requested = False
        circumstances = dataclasses.replace(circumstances, rescale_rate=1.0)
        if not circumstances.checkpointing:
            circumstances = dataclasses.replace(circumstances, checkpoint_at_steps=(_NEVER,))
        super().__init__(graph, random, circumstances, Trace(None), rescaled=lambda random: self._planned())

    def step(self) -> None:
        """Execute one event; stop with a savepoint before, if all first halves have been processed."""
        waits = None if self._is_requested else self._pauses.last_ms(self._sources)
        # Timers of what has been read fire in the first half of the pause.
        if waits is not None and self.clock.now_ms() >= waits + PAUSE_MS // 2:
            self._is_requested = True
            options = CheckpointOptions(savepoint=_SAVEPOINT, stop=True)
            self.driver.request(SavepointRequested(-1, options))
        super().step()

    def _planned(self) -> JobGraph:
        return self._restored(self.storage.savepoints[_SAVEPOINT])


def halves(graph: JobGraph) -> int:
    """Return the number of sources that have halves. Others, such as VALUES, end at once."""
    return sum(isinstance(vertex.source, HalvesSource) for vertex in graph.sources)
