"""Delivers results and commits to their sinks on the driver, outside of the job master's thread.

Each sink has a lane: its calls are made one after the other, in the order of their effects. Lanes of
different sinks run concurrently on a bounded pool, so a slow committer delays neither checkpoints nor other sinks.
The pool is the host's: threads on Spark's driver, a seeded queue in the simulator.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

from penstock.checkpoint.effects import AbortCommittables, Commit
from penstock.jobmaster.effects import CloseResults, Deliver, RestartResults
from penstock.jobmaster.events import CommitEnded, DeliveryFailed, JobEvent, ResultsClosed
from penstock.jobmaster.results.result_sinks import ResultSink


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
        self._restarts = 0
        self._error: BaseException | None = None
        """The first error since the last restart: if the job is not restarted, it fails with this error at its end."""

    def restart(self, effect: RestartResults) -> None:
        """A new attempt starts: errors so far are forgotten, because what failed is done again."""
        with self._lock:
            self._restarts += 1
            self._error = None
        for sink, lane in self._lanes.items():
            lane.put(partial(self._deliver, effect.attempt, self._restarts, self._sinks[sink].restarted))

    def deliver(self, effect: Deliver) -> None:
        """Deliver results to their sink."""
        # The number of restarts when the effect was given: a late failure from before a restart must not fail the job.
        sink, restarts = self._sinks.get(effect.sink), self._restarts
        if sink is None:
            return

        def take() -> None:
            sink.take(effect.subtask, effect.values.value)

        self._lanes[effect.sink].put(partial(self._deliver, effect.attempt, restarts, take))

    def _deliver(self, attempt: int, restarts: int, call: Callable[[], None]) -> None:
        try:
            call()
        except (Exception, SystemExit) as error:
            self._failed(error, restarts)
            self._post(DeliveryFailed(attempt, error))

    def commit(self, effect: Commit) -> None:
        """Commit, then report the outcome."""
        sink, restarts = self._sinks.get(effect.sink), self._restarts
        if sink is None:
            # Answered nevertheless: an open commit is named by every manifest, and holds up the end of the job.
            self._post(CommitEnded(effect.operation))
            return

        def commit() -> None:
            try:
                (sink.commit_again if effect.again else sink.commit)(effect.subtask, effect.committables)
            except (Exception, SystemExit) as error:
                self._failed(error, restarts)
                self._post(CommitEnded(effect.operation, error))
            else:
                self._post(CommitEnded(effect.operation))

        self._lanes[effect.sink].put(commit)

    def abort(self, effect: AbortCommittables) -> None:
        """Discard committables. Errors are ignored: what is left behind is invisible to readers."""
        sink = self._sinks.get(effect.sink)
        if sink is None:
            return

        def abort() -> None:
            with contextlib.suppress(Exception, SystemExit):
                sink.abort(effect.subtask, effect.committables)

        self._lanes[effect.sink].put(abort)

    def close(self, effect: CloseResults) -> None:
        """When all lanes are empty, notify the sinks of the end of the job, then report ResultsClosed."""
        left = len(self._lanes)

        def lane_ended() -> None:
            nonlocal left
            with self._lock:
                left -= 1
                ended = left == 0
            if ended:
                self._end(effect.error)

        # Queued behind everything that the lanes still have to do.
        for lane in self._lanes.values():
            lane.put(lane_ended)
        if not self._lanes:
            self._pool.submit(partial(self._end, effect.error))

    def _end(self, error: BaseException | None) -> None:
        own = self._error if error is None else None
        if error is None and own is None:
            try:
                for sink in self._sinks.values():
                    sink.succeeded()
            except Exception as failure:
                own = failure
        failed_with = error or own
        # All of them, those that have committed included: each keeps what it has published.
        if failed_with is not None:
            for sink in self._sinks.values():
                sink.failed(failed_with)
        self._post(ResultsClosed(own))
        self._pool.shutdown(wait=False)

    def _failed(self, error: BaseException, restarts: int) -> None:
        with self._lock:
            if restarts == self._restarts:
                self._error = self._error or error


class _Lane:
    """Calls of one sink: at most one runs at a time, in their order."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._calls: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        self._runs = False

    def put(self, call: Callable[[], None]) -> None:
        """Queue a call."""
        with self._lock:
            self._calls.append(call)
            if self._runs:
                return
            self._runs = True
        # Outside of the lock, which the call takes again.
        self._pool.submit(self._run)

    def _run(self) -> None:
        """Run one call; the next one is queued behind those of other lanes, so that no lane occupies the pool.

        Calls catch what users' code raises, SystemExit included: a call that raised would end its lane.
        """
        with self._lock:
            call = self._calls.popleft()
        call()
        with self._lock:
            # Decided under the lock: `put` finds a lane that will run its call, or starts it.
            self._runs = bool(self._calls)
        if self._runs:
            self._pool.submit(self._run)
