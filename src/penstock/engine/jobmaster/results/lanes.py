"""Deliver results and commits to their sinks on the driver, outside the JobMaster's thread.

Each sink has a lane, which makes the sink's calls one after the other, in the order of their effects. Lanes of
different sinks run concurrently on a bounded pool, so a slow committer delays neither checkpoints nor other sinks.
The host provides the pool: threads on Spark's driver, a seeded queue in the simulator.

A failed commit is repeated when its region is restarted, since the checkpoint contains it. Until then its sink commits
nothing: many sinks mark the last commit, and the mark of a later one would include the failed one. All commits handed
out before the restart fail with it, and are handed out again.

Delivered results are in no checkpoint, and their checkpoint may already be complete, so no task sends them again. A
failed delivery therefore stays at the head of its lane, and is tried again when its region is restarted.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

from penstock.common.functions.user_calls import RAISED, as_exception
from penstock.engine.checkpoint.effects import AbortCommittables, Commit
from penstock.engine.jobmaster.effects import CloseResults, Deliver, RestartResults
from penstock.engine.jobmaster.events import CommitEnded, DeliveryFailed, JobEvent, ResultsClosed
from penstock.engine.jobmaster.results.result_sinks import ResultSink
from penstock.engine.runtime.ids import AttemptId

_log = logging.getLogger(__name__)


class Pool(Protocol):
    """Execute calls later, possibly concurrently."""

    def submit(self, call: Callable[[], None], /) -> object:
        """Execute a call, which does not raise."""

    def shutdown(self, wait: bool = True) -> None:
        """Accept no more calls."""


class ResultLanes:
    """Deliver and commit the results of one job. The pool's threads call `post` to report outcomes to the JobMaster."""

    def __init__(self, sinks: Mapping[int, ResultSink], post: Callable[[JobEvent], object], pool: Pool) -> None:
        self._sinks = sinks
        self._post = post
        self._pool = pool
        self._lanes = {sink: _Lane(self._pool) for sink in sinks}
        self._lock = threading.Lock()
        self._restarts = dict.fromkeys(sinks, 0)
        """Number of restarts, by sink."""
        self._errors: dict[int, BaseException] = {}
        """The first error of each sink since its last restart, in order. If the regions are not restarted, the job
        fails with the first error at its end."""
        self._not_committed: dict[int, tuple[int, Exception]] = {}
        """The last failed commit of each sink: the number of restarts when it was handed out, and its error."""
        self._attempts: dict[int, AttemptId] = {}
        """The present attempt of each sink's region, after a restart."""
        self._closing = False
        self._incomplete: set[int] = set()
        """Sinks whose last try at the end failed. They get no more calls."""

    def restart(self, effect: RestartResults) -> None:
        """Prepare sinks for a new attempt: forget their errors, because failed calls are repeated."""
        for id in sorted(effect.sinks & self._sinks.keys()):
            with self._lock:
                self._restarts[id] += 1
                self._errors.pop(id, None)
                self._attempts[id] = effect.attempt
            self._lanes[id].put(partial(self._deliver, effect.attempt, id, self._sinks[id].restarted))
            self._lanes[id].release()

    def deliver(self, effect: Deliver) -> None:
        """Deliver results to their sink."""
        sink = self._sinks.get(effect.sink)
        if sink is None:
            return

        def accept() -> None:
            sink.accept(effect.subtask, effect.values.value)

        self._lanes[effect.sink].put(partial(self._deliver, effect.attempt, effect.sink, accept))

    def _deliver(self, attempt: AttemptId, sink: int, call: Callable[[], None]) -> bool:
        """Make the call. Return whether the lane may make its next call."""
        if sink in self._incomplete:
            return True
        try:
            call()
        except RAISED as raised:
            error = as_exception(raised)
            with self._lock:
                # The error counts for the present attempt, even if an earlier one sent the results.
                restarts, attempt = self._restarts[sink], self._attempts.get(sink, attempt)
                if self._closing:
                    self._incomplete.add(sink)
            self._failed(error, sink, restarts)
            self._post(DeliveryFailed(attempt, error))
            return self._closing
        return True

    def commit(self, effect: Commit) -> None:
        """Commit, then report the outcome."""
        sink = self._sinks.get(effect.sink)
        if sink is None:
            # Report it as committed: an open commit stays in every manifest and delays the end of the job.
            self._post(CommitEnded(effect.operation))
            return
        # The number of restarts when the effect was given: a late failure from before a restart must not fail the job.
        restarts = self._restarts[effect.sink]

        def commit() -> bool:
            failed_at, error = self._not_committed.get(effect.sink, (-1, None))
            if error is not None and restarts <= failed_at:
                self._post(CommitEnded(effect.operation, error))
                return True
            try:
                (sink.commit_again if effect.again else sink.commit)(effect.subtask, effect.committables)
            except RAISED as raised:
                error = as_exception(raised)
                self._not_committed[effect.sink] = restarts, error
                self._failed(error, effect.sink, restarts)
                self._post(CommitEnded(effect.operation, error))
            else:
                self._post(CommitEnded(effect.operation))
            return True

        self._lanes[effect.sink].put(commit)

    def abort(self, effect: AbortCommittables) -> None:
        """Discard committables. Ignore errors: readers do not see the rest."""
        sink = self._sinks.get(effect.sink)
        if sink is None:
            return

        def abort() -> bool:
            with contextlib.suppress(*RAISED):
                sink.abort(effect.subtask, effect.committables)
            return True

        self._lanes[effect.sink].put(abort)

    def close(self, effect: CloseResults) -> None:
        """Notify the sinks of the end of the job when all lanes are empty, then report ResultsClosed."""
        left = len(self._lanes)

        def lane_ended() -> bool:
            nonlocal left
            with self._lock:
                left -= 1
                ended = left == 0
            if ended:
                self._end(effect.error)
            return True

        with self._lock:
            self._closing = True
        # Queued behind all remaining calls of the lanes.
        for id, lane in self._lanes.items():
            lane.put(lane_ended)
            if lane.release():
                # The failed call is made again.
                with self._lock:
                    self._errors.pop(id, None)
        if not self._lanes:
            self._pool.submit(partial(self._end, effect.error))

    def _end(self, error: BaseException | None) -> None:
        own = next(iter(self._errors.values()), None) if error is None else None
        if error is None and own is None:
            try:
                for sink in self._sinks.values():
                    sink.succeeded()
            except RAISED as raised:
                own = as_exception(raised)
        failed_with = error or own
        # Also the sinks that have committed: each keeps its published output.
        if failed_with is not None:
            for sink in self._sinks.values():
                sink.failed(failed_with)
        self._post(ResultsClosed(own))
        self._pool.shutdown(wait=False)

    def _failed(self, error: BaseException, sink: int, restarts: int) -> None:
        with self._lock:
            if restarts == self._restarts[sink]:
                self._errors.setdefault(sink, error)


class _Lane:
    """Make the calls of one sink in order, one at a time. A call that returns False is made again after `release`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._calls: deque[Callable[[], bool]] = deque()
        self._lock = threading.Lock()
        self._runs = False
        self._is_held = False
        """Whether the first call waits for `release`."""
        self._is_released = False
        """Whether `release` was called while the first call ran."""

    def put(self, call: Callable[[], bool]) -> None:
        """Queue a call."""
        with self._lock:
            self._calls.append(call)
            if self._runs or self._is_held:
                return
            self._runs = True
        # Outside the lock, which the call acquires again.
        self._pool.submit(self._run)

    def release(self) -> bool:
        """Make a call that has returned False again. Return whether there is one."""
        with self._lock:
            self._is_released = self._runs
            is_held, self._is_held = self._is_held, False
            self._runs = self._runs or is_held
        if is_held:
            self._pool.submit(self._run)
        return is_held

    def _run(self) -> None:
        """Make one call. Submit the next one behind those of other lanes, so that no lane occupies the pool.

        Calls catch errors of users' code. A call raises only if its outcome cannot be posted; its lane continues.
        """
        with self._lock:
            call = self._calls[0]
            # An earlier release belongs to an earlier call.
            self._is_released = False
        is_done = True
        try:
            is_done = call()
        except BaseException:
            # A pool of threads would drop the error.
            _log.exception("the outcome of a sink's call could not be reported")
            raise
        finally:
            with self._lock:
                if is_done:
                    self._calls.popleft()
                self._is_held = not is_done and not self._is_released
                # Decide under the lock, so that `put` finds either a running lane or starts it.
                self._runs = runs = bool(self._calls) and not self._is_held
            if runs:
                self._pool.submit(self._run)
