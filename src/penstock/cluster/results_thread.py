"""What tasks send to the driver, handed to its takers in a thread of its own: a slow one holds up no checkpoint."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any

from penstock.jobmaster.results.takers import ResultTaker


class ResultsThread:
    """Of one job. `failed` is called, in this thread, with the first error of an attempt; `error` keeps it."""

    def __init__(self, takers: dict[int, ResultTaker], failed: Callable[[Exception], None]) -> None:
        self.error: Exception | None = None
        self._takers = takers
        self._failed = failed
        self._attempt = 0
        self._waiting: queue.SimpleQueue[tuple[int, Callable[[], None]] | None] = queue.SimpleQueue()

    def start(self, at_the_end: Callable[[], None]) -> None:
        """Begin. `at_the_end` is called in this thread after `end`, when all is handed over."""
        threading.Thread(target=self._serve, args=(at_the_end,), name="penstock-results", daemon=True).start()

    def begin_attempt(self) -> None:
        """The job starts anew: what has failed so far is done again."""
        self._attempt += 1
        self.error = None
        for taker in self._takers.values():
            self._put(taker.restarted)

    def take(self, sink: int, subtask: int, values: Callable[[], list[Any]]) -> None:
        """Values that count at once."""
        taker = self._takers.get(sink)
        if taker is not None:
            self._put(lambda: taker.take(subtask, values()))

    def commit(
        self,
        sink: int,
        subtask: int,
        values: Callable[[], list[Any]],
        done: Callable[[], None],
        again: bool = False,
    ) -> None:
        """Values whose checkpoint is complete. `done` is called in this thread once the taker has committed them.

        `again`: the job has gone back to that checkpoint.
        """
        taker = self._takers.get(sink)

        def commit() -> None:
            if taker is not None:
                (taker.commit_again if again else taker.commit)(subtask, values())
            done()

        self._put(commit)

    def abort(self, sink: int, subtask: int, values: list[Any]) -> None:
        """Values whose checkpoint has not come about, and will not."""
        taker = self._takers.get(sink)

        def abort() -> None:
            # What can't be removed stays, unseen: the job has other worries.
            with contextlib.suppress(Exception):
                assert taker is not None
                taker.abort(subtask, values)

        if taker is not None:
            self._put(abort)

    def end(self) -> None:
        """Nothing more comes."""
        self._waiting.put(None)

    def _put(self, call: Callable[[], None]) -> None:
        self._waiting.put((self._attempt, call))

    def _serve(self, at_the_end: Callable[[], None]) -> None:
        while (item := self._waiting.get()) is not None:
            attempt, call = item
            try:
                call()
            except Exception as error:
                if attempt == self._attempt:
                    self.error = self.error or error
                    self._failed(error)
        at_the_end()
