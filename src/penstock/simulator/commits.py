"""What `cluster/results_thread.py` is on the real driver: commits are given out, and done some time later.

They are done in order, one at a time, and the coordinator hears of each still later. All that waits here is lost with
the driver.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random

from penstock.simulator.outside import Outside
from penstock.simulator.sinks import Written


class Commits:
    """Of one driver. `failed` is called if a commit of the present attempt has failed."""

    def __init__(self, outside: Outside, random: Random, failure_rate: float, failed: Callable[[], None]) -> None:
        self.failure_rate = failure_rate
        self.error = False
        """Whether a commit of the present attempt has failed: then the job has, even if all else is done."""
        self._outside = outside
        self._random = random
        self._failed = failed
        self._attempt = 0
        self._waiting: deque[tuple[int, Callable[[], None], Callable[[], None]]] = deque()
        self._done: deque[Callable[[], None]] = deque()

    def begin_attempt(self) -> None:
        """What has failed so far is given out again."""
        self._attempt += 1
        self.error = False

    def commit(
        self, sink: int, subtask: int, committables: list[Written], done: Callable[[], None], again: bool
    ) -> None:
        """To be committed."""
        self._waiting.append((self._attempt, lambda: self._commit(sink, subtask, committables), done))

    def abort(self, sink: int, subtask: int, committables: list[Written]) -> None:
        """To be removed."""
        self._waiting.append((self._attempt, lambda: self._outside.abort(committables), lambda: None))

    def _commit(self, sink: int, subtask: int, committables: list[Written]) -> None:
        if self._random.random() < self.failure_rate:
            raise OSError("the world outside is away")
        self._outside.commit(sink, subtask, committables)

    @property
    def waiting(self) -> bool:
        """Whether something is to be done yet."""
        return bool(self._waiting)

    @property
    def untold(self) -> bool:
        """Whether the coordinator does not know yet of something that was done."""
        return bool(self._done)

    def do_next(self) -> None:
        """Do the oldest."""
        attempt, do, done = self._waiting.popleft()
        try:
            do()
        except OSError:
            if attempt == self._attempt:
                self.error = True
                self._failed()
        else:
            self._done.append(done)

    def tell_next(self) -> None:
        """The coordinator hears of the oldest that was done."""
        self._done.popleft()()
