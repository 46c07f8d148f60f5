"""What checkpoints promise, under PyFlink's module path."""

from penstock.common.checkpointing import CheckpointingMode

__all__ = ["CheckpointingMode"]
