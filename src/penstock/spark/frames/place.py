"""Where copies of DataFrames are kept if a program does not say so."""

from __future__ import annotations

from penstock.common import options
from penstock.common.configuration import Configuration
from penstock.common.execution_mode import RuntimeExecutionMode

_BELOW_CHECKPOINTS = "data-frames"


def kept_below(configuration: Configuration) -> str | None:
    """The directory for what a job reads of DataFrames; None: it need not outlast the process.

    Checkpoints in a directory of the user's may be gone on with by another process, which then needs the copies.
    """
    base = configuration.get(options.CHECKPOINT_DIRECTORY)
    if base is None or configuration.get(options.RUNTIME_MODE) is RuntimeExecutionMode.BATCH:
        return None
    return f"{base.rstrip('/')}/{_BELOW_CHECKPOINTS}"
