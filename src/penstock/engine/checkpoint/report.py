"""Measurements of a completed or failed checkpoint, for users."""

from __future__ import annotations

import dataclasses

from penstock.engine.checkpoint.failure import CheckpointFailureReason
from penstock.engine.checkpoint.manifest import Manifest, SubtaskReport
from penstock.engine.checkpoint.pending import PendingCheckpoint
from penstock.engine.runtime.ids import SubtaskId


@dataclasses.dataclass(frozen=True)
class CheckpointReport:
    """A completed or failed checkpoint. Times in milliseconds, sizes in bytes.

    Start delay, alignment, synchronous and asynchronous time are the maxima over the subtasks.

    Source: Flink docs, "Monitoring Checkpointing".
    """

    checkpoint_id: int
    """Its number, from 1."""
    triggered_ms: int
    """When it was triggered, in milliseconds since 1970."""
    duration_ms: int
    """From the trigger until it completed or was aborted."""
    acknowledged: int
    """How many subtasks had acknowledged."""
    of_subtasks: int
    """How many subtasks the job had."""
    failure: str = ""
    """Why it was aborted; empty if it completed."""
    start_delay_ms: float = 0
    """From the trigger to the first barrier."""
    alignment_ms: float = 0
    """From the first barrier to the last one."""
    sync_ms: float = 0
    """The part of the snapshot during which the task processed no record."""
    async_ms: float = 0
    """The part that was written while the task processed records."""
    written_bytes: int = 0
    """Bytes that this checkpoint added."""
    total_bytes: int = 0
    """Bytes that a restore would read."""
    in_flight_bytes: int = 0
    """Bytes of records in flight that its barriers have overtaken."""
    subtasks: list[SubtaskReport] = dataclasses.field(default_factory=list)
    """Measurements of the subtasks that acknowledged, by vertex in the order of the graph."""
    tasks: list[SubtaskId] = dataclasses.field(default_factory=list)
    """The tasks of `subtasks`, in the same order."""
    parallelism: dict[int, int] = dataclasses.field(default_factory=dict)
    """How many subtasks each vertex had, by its id."""
    savepoint: str = ""
    """The directory of a savepoint; empty for a checkpoint."""
    stops: bool = False
    """Whether the job stops with it."""
    counts: bool = False
    """Whether its failure counts against the tolerance: `CheckpointFailureReason`."""

    @property
    def is_completed(self) -> bool:
        """Whether the job can be restored from it."""
        return not self.failure

    @staticmethod
    def completed(pending: PendingCheckpoint, manifest: Manifest) -> CheckpointReport:
        """Return the report of a checkpoint whose manifest is stored."""
        return _report(pending, manifest.completed_ms)

    @staticmethod
    def failed(
        pending: PendingCheckpoint, reason: CheckpointFailureReason, detail: object, now_ms: int
    ) -> CheckpointReport:
        """Return the report of an aborted checkpoint."""
        return _report(pending, now_ms, str(reason.error(detail)), reason.counts)


def _report(pending: PendingCheckpoint, ended_ms: int, failure: str = "", counts: bool = False) -> CheckpointReport:
    of_tasks = sorted(pending.reports.items())
    figures = [report.figures for _, report in of_tasks]
    return CheckpointReport(
        checkpoint_id=pending.checkpoint_id,
        triggered_ms=pending.triggered_ms,
        duration_ms=ended_ms - pending.triggered_ms,
        acknowledged=pending.acknowledged,
        of_subtasks=pending.task_count,
        failure=failure,
        start_delay_ms=max((one.start_delay_ms for one in figures), default=0),
        alignment_ms=max((one.alignment_ms for one in figures), default=0),
        sync_ms=max((one.sync_ms for one in figures), default=0),
        async_ms=max((one.async_ms for one in figures), default=0),
        written_bytes=sum(one.written for one in figures),
        total_bytes=sum(one.total for one in figures),
        in_flight_bytes=sum(one.in_flight or 0 for one in figures),
        subtasks=[report for _, report in of_tasks],
        tasks=[task for task, _ in of_tasks],
        parallelism=dict(pending.parallelism),
        savepoint=pending.savepoint,
        stops=pending.request.options.stop,
        counts=counts,
    )
