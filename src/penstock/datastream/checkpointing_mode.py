"""Consistency modes of checkpoints, at PyFlink's module path."""

from penstock.common.checkpointing import CheckpointingMode

__all__ = ["CheckpointingMode"]
