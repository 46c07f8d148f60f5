"""What becomes of the checkpoints of a cancelled job, under PyFlink's module path."""

from penstock.common.checkpointing import ExternalizedCheckpointRetention
from penstock.common.door import publish

__all__ = ["ExternalizedCheckpointRetention"]

publish(__name__, __all__)
