"""Collected results come once: what the program has been given can't be taken back.

    with a checkpoint interval   results are held back until the checkpoint whose barrier follows them is complete. A
                                 restart drops those that were not released; only a fall-back behind that checkpoint
                                 would send the others again
    without one                  results reach the program at once. A restart sends them again, unless it is from a
                                 savepoint that was committed behind them

Where they would come again the job fails instead, unless its user accepts that. (failover.py asks.)

With its results a task names the last checkpoint that it had taken its snapshot for. Results from before barrier n have
arrived when all tasks have acknowledged n: results and acknowledgements share one connection, in order. They are
released when n is complete, and dropped when the job is restored from an earlier one. (The acknowledgement alone does
not separate them: it is sent when the snapshot is written, and by then the task has emitted more.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.common.configuration import options
from penstock.common.errors import JobError
from penstock.engine.jobmaster.attempt_id import AttemptId
from penstock.engine.jobmaster.effects import Deliver
from penstock.engine.runtime.task.events import Result


class AttemptResults:
    """What the program is given, and is not yet given, of the results of one attempt."""

    def __init__(self, attempt: AttemptId) -> None:
        self.attempt = attempt
        self._held_back: list[Result] = []
        """In the order of each subtask."""
        self._given_after: int | None = None
        """The last checkpoint before the newest results that were given at once; None: there are none."""

    def hold_back(self, result: Result) -> None:
        """A task sent results that wait for a checkpoint."""
        self._held_back.append(result)

    def release(self, checkpoint_id: int) -> list[Result]:
        """A checkpoint is complete. Returns the results that precede its barrier."""
        # What a task sends after its snapshot for this checkpoint is behind the barrier.
        released = [result for result in self._held_back if result.after_checkpoint < checkpoint_id]
        self._held_back = [result for result in self._held_back if result.after_checkpoint >= checkpoint_id]
        return released

    def given(self, after_checkpoint: int) -> None:
        """Results were given at once, from after a task's snapshot for `after_checkpoint`."""
        self._given_after = max(after_checkpoint, self._given_after or 0)

    def would_come_again(self, restored_id: int, from_checkpoint: int) -> bool:
        """Whether results that were given come again if the tasks are restored from this checkpoint.

        `restored_id`: the one from which this attempt was restored.
        """
        # Restored from the same place, or from before it, an attempt sends again all that it has sent.
        is_before = from_checkpoint <= restored_id
        return self._given_after is not None and (is_before or self._given_after >= from_checkpoint)


class CollectedOnce:
    """Of one job. `sinks`: those that are collected. `holds_back`: whether periodic checkpoints release results."""

    def __init__(self, sinks: frozenset[int], holds_back: bool, emit: Callable[[Deliver], None]) -> None:
        self._sinks = sinks
        self._holds_back = holds_back
        self._emit = emit
        self._delivered_with: set[int] = set()
        """Checkpoints with which results that were held back have been delivered."""

    def take(self, results: AttemptResults, result: Result) -> None:
        """A task of an attempt sent results, collected or others."""
        if result.sink_id in self._sinks:
            if self._holds_back:
                results.hold_back(result)
                return
            # Without periodic checkpoints nothing would release them before the end.
            results.given(result.after_checkpoint)
        self._deliver(results, result)

    def completed(self, checkpoint_id: int, of_attempts: Iterable[AttemptResults]) -> None:
        """A checkpoint is complete: deliver what precedes its barrier."""
        for results in of_attempts:
            for result in results.release(checkpoint_id):
                self._delivered_with.add(checkpoint_id)
                self._deliver(results, result)

    def come_again_behind(self, checkpoint_id: int) -> bool:
        """Whether results come again if the job falls back behind this checkpoint."""
        return checkpoint_id in self._delivered_with

    def _deliver(self, results: AttemptResults, result: Result) -> None:
        self._emit(Deliver(results.attempt, result.sink_id, result.subtask, result.values))


def collected_twice(error: BaseException | None) -> JobError:
    """`error`, after which the job is not restarted, because results that the program has would come again."""
    kind = type(error) if isinstance(error, JobError) else JobError
    failure = kind(
        f"{error}\n  The job is not restarted: what execute_and_collect has given to the program would come again. "
        f"With {options.CHECKPOINT_INTERVAL.key} results come when their checkpoint is complete, and come once. "
        f"With {options.ALLOW_DUPLICATES.key} the job is restarted"
    )
    failure.__cause__ = error
    return failure
