"""Figures of a completed checkpoint, for people."""

from __future__ import annotations

from penstock.checkpoint.manifest import Manifest


class CheckpointReport:
    """Times in milliseconds, sizes in bytes. Alignment, sync and async are those of the slowest subtask."""

    def __init__(self, manifest: Manifest) -> None:
        figures = [report.figures for report in manifest.subtasks]
        self.checkpoint_id = manifest.checkpoint_id
        self.triggered_ms = manifest.triggered_ms
        self.duration_ms = manifest.completed_ms - manifest.triggered_ms
        self.alignment_ms = max(one.alignment_ms for one in figures)
        self.sync_ms = max(one.sync_ms for one in figures)
        self.async_ms = max(one.async_ms for one in figures)
        self.written_bytes = sum(one.written for one in figures)
        self.total_bytes = sum(one.total for one in figures)
        self.subtasks = manifest.subtasks
