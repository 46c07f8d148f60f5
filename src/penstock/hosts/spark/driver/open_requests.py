"""Requests of users that the job master has not answered yet: savepoints, another parallelism, other functions."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import Future

from penstock.common.errors import JobError
from penstock.common.functions.user_calls import RAISED, as_exception
from penstock.engine.jobmaster.effects import Reply
from penstock.engine.jobmaster.events import JobEvent


class OpenRequests:
    """Of one job. `call` makes a call on the storage's thread; False: the job has ended. `post` hands an event on."""

    def __init__(self, call: Callable[[Callable[[], None]], bool], post: Callable[[JobEvent], bool]) -> None:
        self._call = call
        self._post = post
        self._open: dict[int, Future[str]] = {}
        self._numbers = itertools.count()

    def request(self, event: Callable[[int], JobEvent]) -> Future[str]:
        """Hand a request of the user to the job master. The future is given the text of the reply."""
        answer: Future[str] = Future()

        def request() -> None:
            number = next(self._numbers)
            try:
                requested = event(number)
            except RAISED as error:
                # Also what a file system's own library raises: the user waits for an answer.
                complete(answer, error=as_exception(error))
                return
            self._open[number] = answer
            if not self._post(requested):
                self.answer(Reply(number, error=_ended()))

        # A place that nothing opens is reported before any task writes; to look may take as long as the store does.
        if not self._call(request):
            complete(answer, error=_ended())
        return answer

    def answer(self, reply: Reply) -> None:
        """The job master has answered."""
        answer = self._open.pop(reply.request, None)
        if answer is not None:
            complete(answer, reply.text, reply.error)

    def end(self) -> None:
        """It never will: the job has ended. Called on the storage's thread, which makes no further calls."""
        for number in list(self._open):
            self.answer(Reply(number, error=_ended()))


def complete(future: Future[str], text: str = "", error: BaseException | None = None) -> None:
    """Complete a future, unless its user has cancelled it and waits no more."""
    if not future.set_running_or_notify_cancel():
        return
    if error is None:
        future.set_result(text)
    else:
        future.set_exception(error)


def _ended() -> JobError:
    return JobError("the job has ended")
