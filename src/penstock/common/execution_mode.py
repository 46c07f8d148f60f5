"""Execution modes of a program: streaming or batch."""

from __future__ import annotations

import enum


class RuntimeExecutionMode(enum.Enum):
    """Execution mode of a DataStream program. Source: Flink docs, "Execution Mode (Batch/Streaming)"."""

    STREAMING = 0
    """All tasks run at once; results are emitted continuously; event time follows watermarks; checkpoints are taken."""
    BATCH = 1
    """Stages run one after another; bounded sources only; event time does not advance before the end of the input."""
    AUTOMATIC = 2
    """BATCH if all sources are bounded, else STREAMING."""
