"""Functions with operator state or notifications of checkpoints, with Flink's Java names."""

from penstock.api.functions.checkpointed import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from penstock.common.doors.door import publish

__all__ = [
    "CheckpointListener",
    "CheckpointedFunction",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
]

publish(__name__, __all__)
