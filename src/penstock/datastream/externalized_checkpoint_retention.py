"""Retention of checkpoints after cancellation, at PyFlink's module path."""

from penstock.common.checkpointing import ExternalizedCheckpointRetention

__all__ = ["ExternalizedCheckpointRetention"]
