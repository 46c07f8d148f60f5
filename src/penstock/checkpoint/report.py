"""Figures of a checkpoint that has completed or failed, for people."""

from __future__ import annotations

import dataclasses

from penstock.checkpoint.failure import CheckpointFailureReason
from penstock.checkpoint.manifest import Manifest, SubtaskReport
from penstock.checkpoint.pending import PendingCheckpoint


@dataclasses.dataclass(frozen=True)
class CheckpointReport:
    """Times in milliseconds, sizes in bytes. Times but for the duration are those of the slowest subtask.

    Source: Flink docs, "Monitoring Checkpointing".
    """

    checkpoint_id: int
    """Its number, from 1."""
    triggered_ms: int
    """When it was triggered, since the epoch."""
    duration_ms: int
    """From the trigger until it was complete, or aborted."""
    acknowledged: int
    """How many subtasks had taken their part."""
    of_subtasks: int
    """How many subtasks the job had."""
    failure: str = ""
    """Why it was aborted; empty if it completed."""
    start_delay_ms: float = 0
    """From the trigger to the first barrier."""
    alignment_ms: float = 0
    """From the first barrier to the last one."""
    sync_ms: float = 0
    """The part of the snapshot during which no record was processed."""
    async_ms: float = 0
    """The part that was written beside the stream."""
    written_bytes: int = 0
    """What this checkpoint has added."""
    total_bytes: int = 0
    """What a restore would read."""
    subtasks: list[SubtaskReport] = dataclasses.field(default_factory=list)
    """The same by subtask, vertex by vertex in the order of the graph."""
    savepoint: str = ""
    """The directory of a savepoint; empty for a checkpoint."""
    counts: bool = False
    """Whether its failure counts against the tolerance: `CheckpointFailureReason`."""

    @property
    def is_completed(self) -> bool:
        """Whether the job can be restored from it."""
        return not self.failure

    @property
    def in_flight_bytes(self) -> int:
        """Records that were on their way, which its barriers have overtaken."""
        return sum(part.figures.in_flight or 0 for part in self.subtasks)

    @staticmethod
    def completed(manifest: Manifest, savepoint: str = "") -> CheckpointReport:
        """Of a checkpoint whose manifest is stored."""
        figures = [report.figures for report in manifest.subtasks]
        return CheckpointReport(
            manifest.checkpoint_id,
            manifest.triggered_ms,
            manifest.completed_ms - manifest.triggered_ms,
            len(figures),
            len(figures),
            start_delay_ms=max(one.start_delay_ms for one in figures),
            alignment_ms=max(one.alignment_ms for one in figures),
            sync_ms=max(one.sync_ms for one in figures),
            async_ms=max(one.async_ms for one in figures),
            written_bytes=sum(one.written for one in figures),
            total_bytes=sum(one.total for one in figures),
            subtasks=manifest.subtasks,
            savepoint=savepoint,
        )

    @staticmethod
    def failed(
        pending: PendingCheckpoint, reason: CheckpointFailureReason, detail: object, now_ms: int
    ) -> CheckpointReport:
        """Of a checkpoint that was aborted."""
        return CheckpointReport(
            pending.checkpoint_id,
            pending.triggered_ms,
            now_ms - pending.triggered_ms,
            pending.acknowledged,
            pending.of_tasks,
            str(reason.error(detail)),
            savepoint=pending.savepoint,
            counts=reason.counts,
        )
