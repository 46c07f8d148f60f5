"""The regions of a job: which one a slot, a vertex or a sink belongs to, and where they are together."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from penstock.common.job_status import JobStatus
from penstock.engine.checkpoint.plan import CheckpointVertex
from penstock.engine.jobmaster.effects import JobEffect
from penstock.engine.jobmaster.region import Region
from penstock.engine.jobmaster.settings import JobSettings
from penstock.engine.plan.job_graph import JobGraph

_STATUS_OF_JOB = (
    (JobStatus.CANCELLING, (JobStatus.CANCELLING, JobStatus.CANCELED)),
    (JobStatus.FAILING, (JobStatus.FAILING, JobStatus.FAILED)),
    (JobStatus.CREATED, (JobStatus.CREATED,)),
    (JobStatus.RUNNING, (JobStatus.RUNNING,)),
)
"""The status of a job is the first one of which a region is in such a state."""


class Regions:
    """In the order of the graph. A graph of later attempts has the same regions, perhaps with other parallelism."""

    def __init__(self, graph: JobGraph, settings: JobSettings, emit: Callable[[JobEffect], None], now_ms: int) -> None:
        self._regions = [Region(index, graph, settings, emit, now_ms) for index in range(len(graph.regions))]
        self._by_level: dict[int, Region] = {}
        self._by_vertex: dict[int, Region] = {}
        self._by_sink: dict[int, Region] = {}
        self.attempts_changed()

    def attempts_changed(self) -> None:
        """Regions have new attempts."""
        for region in self._regions:
            attempt = region.attempt
            self._by_level.update(dict.fromkeys(attempt.graph.regions[region.index], region))
            self._by_vertex.update(dict.fromkeys((vertex.id for vertex in attempt.vertices), region))
            self._by_sink.update(dict.fromkeys(attempt.sinks, region))

    def __iter__(self) -> Iterator[Region]:
        return iter(self._regions)

    def __getitem__(self, index: int) -> Region:
        return self._regions[index]

    def __len__(self) -> int:
        return len(self._regions)

    def of_level(self, level: int) -> Region:
        """The region whose query hosts a level: no stage hosts vertices of two."""
        return self._by_level[level]

    def of_vertex(self, vertex: int) -> Region:
        """The region of a vertex."""
        return self._by_vertex[vertex]

    def of_sink(self, sink: int) -> Region:
        """The region of a sink."""
        return self._by_sink[sink]

    @property
    def vertices(self) -> list[CheckpointVertex]:
        """Those of the present attempts, in the order of the graph."""
        return sorted((vertex for region in self for vertex in region.attempt.vertices), key=lambda vertex: vertex.id)

    @property
    def all_running(self) -> bool:
        """Whether all tasks of the job are running."""
        return all(region.attempt.status is JobStatus.RUNNING for region in self._regions)

    @property
    def all_ended(self) -> bool:
        """Whether no task is left, and the coordinator knows it."""
        return all(region.is_ended for region in self)

    @property
    def down(self) -> list[Region]:
        """Those that are not up: closing, or waiting for their restart, or for the end of the job."""
        return [region for region in self._regions if not region.is_up]

    @property
    def status(self) -> JobStatus:
        """Where the job is, as far as its attempts show it."""
        found = {region.status for region in self}
        return next((status for status, states in _STATUS_OF_JOB if found.intersection(states)), JobStatus.FINISHED)
