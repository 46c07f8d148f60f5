"""The execution modes of a job: each difference between STREAMING and BATCH by its name.

Code asks for the difference it depends on, never for the mode. Source: Flink docs, "Execution Mode (Batch/Streaming)".
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ExecutionMode:
    """The behavior of a job in a mode. There are two, STREAMING and BATCH; each is one object in every process."""

    name: str
    """The value of `execution.runtime-mode`."""
    blocking_exchanges: bool
    """Whether a level begins when the level before it has ended: levels take turns in the same slots, and Spark stores
    what one sends to the next, so that no receiver waits for a buffer or is overrun. Otherwise all levels run at once.
    """
    sorts_inputs: bool
    """Whether rows are sorted on their way to the next level, by key group first: a buffer holds one key group only,
    elements would lose their position, and a task sorts its keyed inputs by key and time."""
    ends_keys: bool
    """Whether a keyed operator gets all records of a key before the next key: the state of a key ends with its last
    record, so it needs no store, and only final results are emitted."""
    repeats_tasks: bool
    """Whether a task may run twice, while others use the output of either run: it must read and send the same records
    in the same order. So sources get their splits before the job starts."""
    advances_time: bool
    """Whether watermarks are emitted before the end of the input."""
    takes_checkpoints: bool
    """Whether the job takes checkpoints and savepoints, and can start from them. Otherwise it commits at its end."""
    has_job_master: bool
    """Whether a JobMaster controls the tasks while they run. Otherwise Spark does: one Spark job, stage after stage."""

    def __reduce__(self) -> str:
        # By name: an unpickled mode is the mode itself.
        return self.name


STREAMING = ExecutionMode(
    name="STREAMING",
    blocking_exchanges=False,
    sorts_inputs=False,
    ends_keys=False,
    repeats_tasks=False,
    advances_time=True,
    takes_checkpoints=True,
    has_job_master=True,
)
BATCH = ExecutionMode(
    name="BATCH",
    blocking_exchanges=True,
    sorts_inputs=True,
    ends_keys=True,
    repeats_tasks=True,
    advances_time=False,
    takes_checkpoints=False,
    has_job_master=False,
)
