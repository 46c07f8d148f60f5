"""Define the interface of a JobMaster for its parts: regions, checkpoints and failures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from penstock.common.job_status import JobStatus
from penstock.engine.checkpoint.completed_checkpoints import CompletedCheckpoints
from penstock.engine.checkpoint.coordinator import CheckpointCoordinator
from penstock.engine.checkpoint.storage_requests import StorageRequests
from penstock.engine.jobmaster.region import Region, Regions
from penstock.engine.jobmaster.settings import JobSettings
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.runtime.ids import SlotId


class ControlledJob(Protocol):
    """A JobMaster for its parts."""

    now_ms: int
    graph: JobGraph
    """The plan of the next attempts."""

    @property
    def name(self) -> str:
        """The job's name in log lines."""

    @property
    def status(self) -> JobStatus:
        """The job's status."""

    @property
    def is_changing(self) -> bool:
        """Whether it is being rescaled or updated. Changes do not overlap."""

    @property
    def regions(self) -> Regions:
        """The regions of the job, each with its present attempt."""

    @property
    def settings(self) -> JobSettings:
        """The job's settings."""

    @property
    def storage(self) -> StorageRequests:
        """Requests to the storage of its checkpoints."""

    @property
    def completed(self) -> CompletedCheckpoints:
        """The checkpoints from which it can be restored."""

    @property
    def coordinator(self) -> CheckpointCoordinator:
        """Triggers checkpoints and collects acknowledgements."""

    def fail(self, region: Region, error: BaseException, slot: SlotId | None = None) -> None:
        """Fail the attempt of a region. `slot`: the slot that failed."""

    def fail_all(self, error: BaseException) -> None:
        """Fail the attempts of all regions."""

    def guarded(self, do: Callable[[], object], region: Region | None = None) -> bool:
        """Make a call that may run users' code; an error fails the region, or all if None. Return whether it worked."""
