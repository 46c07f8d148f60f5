"""How a program runs: as a stream, or as a batch."""

from __future__ import annotations

import enum


class RuntimeExecutionMode(enum.Enum):
    """How a DataStream program is executed. Source: Flink docs, "Execution Mode (Batch/Streaming)"."""

    STREAMING = 0
    """All tasks at once; results as they come; event time by watermarks, and checkpoints."""
    BATCH = 1
    """Stage after stage; bounded sources only; event time stands still until all of the input is there."""
    AUTOMATIC = 2
    """BATCH if all sources are bounded, else STREAMING."""
