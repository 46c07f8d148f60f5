"""Requests for flame graphs and thread dumps that a job master has not answered yet, and who waits."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import Future

from penstock.common.errors import JobError
from penstock.engine.jobmaster.effects import StacksReply
from penstock.engine.jobmaster.events import StacksRequested
from penstock.engine.runtime.task.events import StacksSampled


class OpenSamplings:
    """Of one job. `post` hands an event to its job master; False: the job has ended."""

    def __init__(self, post: Callable[[StacksRequested], bool]) -> None:
        self._post = post
        self._open: dict[int, Future[list[StacksSampled]]] = {}
        self._numbers = itertools.count()

    def ask(
        self, vertex: int, samples: int, delay_ms: int, depth: int, threads_of: int | None = None
    ) -> Future[list[StacksSampled]]:
        """Ask. The future is given what the tasks have sent, or the error of the reply. Any thread may ask."""
        number, answer = next(self._numbers), Future[list[StacksSampled]]()
        self._open[number] = answer
        if not self._post(StacksRequested(number, vertex, samples, delay_ms, depth, threads_of)):
            self.answer(StacksReply(number, error=_ended()))
        return answer

    def answer(self, reply: StacksReply) -> None:
        """The job master has answered."""
        answer = self._open.pop(reply.request, None)
        if answer is None or not answer.set_running_or_notify_cancel():
            return
        if reply.error is None:
            answer.set_result(reply.stacks)
        else:
            answer.set_exception(reply.error)

    def end(self) -> None:
        """It never will: the job has ended."""
        for number in list(self._open):
            self.answer(StacksReply(number, error=_ended()))


def _ended() -> JobError:
    return JobError("the job has ended")
