"""What becomes of the checkpoints of a cancelled job, under PyFlink's module path."""

from penstock.common.checkpointing import ExternalizedCheckpointRetention

__all__ = ["ExternalizedCheckpointRetention"]
