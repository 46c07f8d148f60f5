"""Delivers results and commits to their sinks on the driver, outside of the job master's thread.

Each sink has a lane: its calls are made one after the other, in the order of their effects. Lanes of
different sinks run concurrently on a bounded pool, so a slow committer delays neither checkpoints nor other sinks.
The pool is the host's: threads on Spark's driver, a seeded queue in the simulator.

A commit that fails is repeated when its region is restarted, since the checkpoint names it. Until then its sink commits
nothing: many tell by a mark what was committed, and the mark of a later commit would count for the one that failed. All
that was handed out before the restart fails with it, and is handed out again.

What is delivered is named by no checkpoint, and may belong to one that is complete: no task sends it again. So a
delivery that fails stays at the head of its lane, with everything behind it, and is tried again when its region is
restarted.
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
from penstock.engine.jobmaster.attempt_id import AttemptId
from penstock.engine.jobmaster.effects import CloseResults, Deliver, RestartResults
from penstock.engine.jobmaster.events import CommitEnded, DeliveryFailed, JobEvent, ResultsClosed
from penstock.engine.jobmaster.results.result_sinks import ResultSink

_log = logging.getLogger(__name__)


class Pool(Protocol):
    """Executes calls, later and perhaps concurrently."""

    def submit(self, call: Callable[[], None], /) -> object:
        """Execute this call. It does not raise."""

    def shutdown(self, wait: bool = True) -> None:
        """No more calls will be submitted."""


class ResultLanes:
    """Of one job. `post` reports outcomes to the job master; the pool's threads call it."""

    def __init__(self, sinks: Mapping[int, ResultSink], post: Callable[[JobEvent], object], pool: Pool) -> None:
        self._sinks = sinks
        self._post = post
        self._pool = pool
        self._lanes = {sink: _Lane(self._pool) for sink in sinks}
        self._lock = threading.Lock()
        self._restarts = dict.fromkeys(sinks, 0)
        """By sink."""
        self._errors: dict[int, BaseException] = {}
        """The first error of each sink since its last restart, in their order: if its region is not restarted, the job
        fails with the first of them at its end."""
        self._not_committed: dict[int, tuple[int, Exception]] = {}
        """By sink, the number of its restarts when the last commit that has failed was handed out, and why it has."""
        self._attempts: dict[int, AttemptId] = {}
        """By sink, the attempt of its region, once it was restarted."""
        self._closing = False
        self._incomplete: set[int] = set()
        """Sinks that could not take something though it was tried again at the end: they get nothing that follows."""

    def restart(self, effect: RestartResults) -> None:
        """A new attempt starts: errors of its sinks so far are forgotten, because what failed is done again."""
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

        def take() -> None:
            sink.take(effect.subtask, effect.values.value)

        self._lanes[effect.sink].put(partial(self._deliver, effect.attempt, effect.sink, take))

    def _deliver(self, attempt: AttemptId, sink: int, call: Callable[[], None]) -> bool:
        """Returns whether the lane may go on."""
        if sink in self._incomplete:
            return True
        try:
            call()
        except RAISED as raised:
            error = as_exception(raised)
            with self._lock:
                # It concerns the present attempt, also if a former one has sent it.
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
            # Answered nevertheless: an open commit is named by every manifest, and holds up the end of the job.
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
        """Discard committables. Errors are ignored: what is left behind is invisible to readers."""
        sink = self._sinks.get(effect.sink)
        if sink is None:
            return

        def abort() -> bool:
            with contextlib.suppress(*RAISED):
                sink.abort(effect.subtask, effect.committables)
            return True

        self._lanes[effect.sink].put(abort)

    def close(self, effect: CloseResults) -> None:
        """When all lanes are empty, notify the sinks of the end of the job, then report ResultsClosed."""
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
        # Queued behind everything that the lanes still have to do.
        for id, lane in self._lanes.items():
            lane.put(lane_ended)
            if lane.release():
                # It is tried once more.
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
        # All of them, those that have committed included: each keeps what it has published.
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
    """Calls of one sink: at most one runs at a time, in their order. One that returns False is to be made again."""

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
        # Outside of the lock, which the call takes again.
        self._pool.submit(self._run)

    def release(self) -> bool:
        """Make the call again that has returned False, if there is one. Returns whether there is."""
        with self._lock:
            self._is_released = self._runs
            is_held, self._is_held = self._is_held, False
            self._runs = self._runs or is_held
        if is_held:
            self._pool.submit(self._run)
        return is_held

    def _run(self) -> None:
        """Run one call; the next one is queued behind those of other lanes, so that no lane occupies the pool.

        Calls catch whatever users' code raises. One that raises nevertheless, because its outcome
        can't be posted, does not end its lane.
        """
        with self._lock:
            call = self._calls[0]
            # What was released before concerns calls before this one.
            self._is_released = False
        is_done = True
        try:
            is_done = call()
        except BaseException:
            # A pool of threads keeps what a call raises to itself.
            _log.exception("the outcome of a sink's call could not be reported")
            raise
        finally:
            with self._lock:
                if is_done:
                    self._calls.popleft()
                self._is_held = not is_done and not self._is_released
                # Decided under the lock: `put` finds a lane that will run its call, or starts it.
                self._runs = runs = bool(self._calls) and not self._is_held
            if runs:
                self._pool.submit(self._run)
