"""The newest checkpoints and savepoints of a job that have completed or failed, and how many there were.

Source: Flink docs, "Monitoring Checkpointing", History.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import overload

from penstock.checkpoint.failure import CheckpointFailureReason
from penstock.checkpoint.manifest import Manifest
from penstock.checkpoint.pending import PendingCheckpoint
from penstock.checkpoint.report import CheckpointReport

_MOST = 100


class CheckpointHistory(Sequence[CheckpointReport]):
    """As a sequence: the reports of checkpoints, oldest first, also of those that are not retained any more."""

    def __init__(self) -> None:
        self.savepoints: deque[CheckpointReport] = deque(maxlen=_MOST)
        """The same of savepoints."""
        self.completed_count = 0
        """Of checkpoints and savepoints, since the job was submitted."""
        self.failed_count = 0
        self._checkpoints: deque[CheckpointReport] = deque(maxlen=_MOST)

    def completed(self, pending: PendingCheckpoint, manifest: Manifest) -> None:
        """The manifest of a checkpoint is stored."""
        self.completed_count += 1
        self._add(CheckpointReport.completed(manifest, pending.savepoint))

    def failed(self, pending: PendingCheckpoint, reason: CheckpointFailureReason, detail: object, now_ms: int) -> None:
        """A checkpoint was aborted."""
        self.failed_count += 1
        self._add(CheckpointReport.failed(pending, reason, detail, now_ms))

    def _add(self, report: CheckpointReport) -> None:
        (self.savepoints if report.savepoint else self._checkpoints).append(report)

    @overload
    def __getitem__(self, index: int) -> CheckpointReport: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[CheckpointReport]: ...

    def __getitem__(self, index: int | slice) -> CheckpointReport | Sequence[CheckpointReport]:
        return list(self._checkpoints)[index] if isinstance(index, slice) else self._checkpoints[index]

    def __len__(self) -> int:
        return len(self._checkpoints)
