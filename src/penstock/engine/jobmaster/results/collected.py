"""Deliver collected results once: the program cannot return a result that it has received.

    with a checkpoint interval   Results wait until the checkpoint whose barrier follows them is complete. A restart
                                 drops results that were not released; only a fall-back to an older checkpoint would
                                 repeat the others.
    without one                  Results reach the program at once. A restart repeats them, unless it restores a
                                 savepoint that was committed after them.

If results would be repeated the job fails, unless the user allows duplicates (failover.py).

With its results a task sends the number of its last checkpoint. Results from before barrier n have arrived when all
tasks have acknowledged n: results and acknowledgements share one connection, in order. They are released when n is
complete, and dropped when the job is restored from an earlier checkpoint. (The acknowledgement alone does not separate
them: it is sent after the snapshot is written, when the task has already emitted more.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.common.configuration import options
from penstock.common.errors import JobError
from penstock.engine.jobmaster.effects import Deliver
from penstock.engine.runtime.ids import AttemptId
from penstock.engine.runtime.task.events import Result


class AttemptResults:
    """Results of one attempt that wait for a checkpoint, and the position of those already delivered."""

    def __init__(self, attempt: AttemptId) -> None:
        self.attempt = attempt
        self._held_back: list[Result] = []
        """In order for each subtask."""
        self._delivered_after: int | None = None
        """The last checkpoint before the newest results that were delivered at once, or None."""

    def hold_back(self, result: Result) -> None:
        """Hold results until a checkpoint is complete."""
        self._held_back.append(result)

    def release(self, checkpoint_id: int) -> list[Result]:
        """Return, and no longer hold, the results before the barrier of a completed checkpoint."""
        # Results that a task sends after its snapshot for this checkpoint follow the barrier.
        released = [result for result in self._held_back if result.after_checkpoint < checkpoint_id]
        self._held_back = [result for result in self._held_back if result.after_checkpoint >= checkpoint_id]
        return released

    def delivered(self, after_checkpoint: int) -> None:
        """Record that results were delivered at once that follow a task's snapshot for `after_checkpoint`."""
        self._delivered_after = max(after_checkpoint, self._delivered_after or 0)

    def would_repeat(self, restored_id: int, from_checkpoint: int) -> bool:
        """Return whether a restore from `from_checkpoint` would repeat delivered results.

        `restored_id`: the checkpoint from which this attempt was restored.
        """
        # Restored from the same checkpoint or an earlier one, an attempt repeats all of its results.
        is_before = from_checkpoint <= restored_id
        return self._delivered_after is not None and (is_before or self._delivered_after >= from_checkpoint)


class CollectedOnce:
    """Handle results of one job. `sinks`: the collected ones. `holds_back`: whether results wait for checkpoints."""

    def __init__(self, sinks: frozenset[int], holds_back: bool, emit: Callable[[Deliver], None]) -> None:
        self._sinks = sinks
        self._holds_back = holds_back
        self._emit = emit
        self._delivered_with: set[int] = set()
        """Checkpoints that released results."""

    def add(self, results: AttemptResults, result: Result) -> None:
        """Handle results of a task, collected or others."""
        if result.sink_id in self._sinks:
            if self._holds_back:
                results.hold_back(result)
                return
            # Without periodic checkpoints nothing would release them before the end.
            results.delivered(result.after_checkpoint)
        self._deliver(results, result)

    def completed(self, checkpoint_id: int, of_attempts: Iterable[AttemptResults]) -> None:
        """Deliver the results before the barrier of a completed checkpoint."""
        for results in of_attempts:
            for result in results.release(checkpoint_id):
                self._delivered_with.add(checkpoint_id)
                self._deliver(results, result)

    def repeat_without(self, checkpoint_id: int) -> bool:
        """Return whether results would be repeated if the job falls back to a checkpoint before this one."""
        return checkpoint_id in self._delivered_with

    def _deliver(self, results: AttemptResults, result: Result) -> None:
        self._emit(Deliver(results.attempt, result.sink_id, result.subtask, result.values))


def collected_twice_error(error: BaseException | None) -> JobError:
    """Return `error` with the reason why the job is not restarted: collected results would be repeated."""
    kind = type(error) if isinstance(error, JobError) else JobError
    failure = kind(
        f"{error}\n  The job is not restarted, because execute_and_collect would return results again. To get each "
        f"result once, when its checkpoint is complete, set {options.CHECKPOINT_INTERVAL.key}. To restart and accept "
        f"duplicates, set {options.ALLOW_DUPLICATES.key}"
    )
    failure.__cause__ = error
    return failure
