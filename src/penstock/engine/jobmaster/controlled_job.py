"""What the parts of a job master share: the regions, the checkpoints, and how a failure is raised."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from penstock.common.job_status import JobStatus
from penstock.engine.checkpoint.completed_checkpoints import CompletedCheckpoints
from penstock.engine.checkpoint.coordinator import CheckpointCoordinator
from penstock.engine.checkpoint.storage_requests import StorageRequests
from penstock.engine.jobmaster.region import Region
from penstock.engine.jobmaster.regions import Regions
from penstock.engine.jobmaster.settings import JobSettings
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.runtime.ids import SlotId


class ControlledJob(Protocol):
    """A job master, as its parts see it."""

    now_ms: int
    graph: JobGraph
    """The plan of its next attempts."""

    @property
    def name(self) -> str:
        """The job as log lines name it."""

    @property
    def status(self) -> JobStatus:
        """Where the job is."""

    @property
    def is_changing(self) -> bool:
        """Whether it is being rescaled or updated: one after the other."""

    @property
    def regions(self) -> Regions:
        """The regions of the job, each with its present attempt."""

    @property
    def settings(self) -> JobSettings:
        """What of its configuration its parts need."""

    @property
    def storage(self) -> StorageRequests:
        """What was asked of the storage of its checkpoints."""

    @property
    def completed(self) -> CompletedCheckpoints:
        """The checkpoints from which it may be restored."""

    @property
    def coordinator(self) -> CheckpointCoordinator:
        """The checkpoints that are under way."""

    def fail(self, region: Region, error: BaseException, slot: SlotId | None = None) -> None:
        """The attempt of a region fails; `slot`: the one that failed."""

    def fail_all(self, error: BaseException) -> None:
        """The job fails: the attempts of all its regions."""

    def guarded(self, do: Callable[[], object], region: Region | None = None) -> bool:
        """Call what may run users' code: an error there fails the region, None: all. True: there was none."""
