"""The keyed state of the newest completed checkpoint of one job: what has been committed, and nothing after it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from penstock.common.errors import CheckpointError, StateNotFoundError
from penstock.common.job_status import JobStatus
from penstock.engine.jobmaster.execution_graph import ExecutionGraph
from penstock.engine.snapshots.committed_state import CommittedState

T = TypeVar("T")
_ENDING = (JobStatus.CANCELLING, JobStatus.CANCELED, JobStatus.FAILING, JobStatus.FAILED, JobStatus.FINISHED)
_LOOKS = 200
_BETWEEN_LOOKS_S = 0.05


class NewestState:
    """Keep an index until a newer checkpoint has completed. `looks`: how often to look for a newer one."""

    def __init__(self, looks: int = _LOOKS) -> None:
        self._looks = looks
        self._state: CommittedState | None = None
        self._lock = threading.Lock()

    def ask(self, graph: Callable[[], ExecutionGraph], directory: str, question: Callable[[CommittedState], T]) -> T:
        """Answer from the newest checkpoint below the job's directory of checkpoints.

        Raises StateNotFoundError if there is none, CheckpointError if it can't be read, and what `question` raises.
        """
        newest = _newest(graph())
        while True:
            if newest is None:
                raise StateNotFoundError(_why_none(graph().status))
            try:
                return question(self._of(directory, newest))
            except StateNotFoundError:
                raise
            except CheckpointError:
                # It may have been subsumed, and its files deleted, since it was looked up.
                before, newest = newest, _another(graph, newest, self._looks)
                if newest == before:
                    raise

    def _of(self, directory: str, checkpoint_id: int) -> CommittedState:
        with self._lock:
            if self._state is None or self._state.checkpoint_id != checkpoint_id:
                self._state = CommittedState(f"{directory}/chk-{checkpoint_id}")
            return self._state


def _another(graph: Callable[[], ExecutionGraph], before: int, looks: int) -> int | None:
    """Return the number of the newest checkpoint once it is not `before`, else `before` after `looks` tries.

    A job publishes a checkpoint with a short delay.
    """
    for _ in range(looks):
        newest = _newest(graph())
        if newest != before:
            return newest
        time.sleep(_BETWEEN_LOOKS_S)
    return before


def _why_none(status: JobStatus) -> str:
    if status in _ENDING:
        return f"the job is {status.name}: its checkpoints, from which queries are answered, are deleted"
    return "the job has no completed checkpoint yet, from which queries are answered"


def _newest(graph: ExecutionGraph) -> int | None:
    return max(graph.checkpoints.retained, default=None)
