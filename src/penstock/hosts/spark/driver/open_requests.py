"""Requests that the job master has not answered yet: of users, live queries, samples of stacks."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable
from concurrent.futures import Future

from penstock.common.errors import JobError, StateUnavailableError
from penstock.common.functions.user_calls import RAISED, as_exception
from penstock.engine.jobmaster.effects import Reply, StacksReply, StateReply
from penstock.engine.jobmaster.events import JobEvent, StacksRequested, StateReadRequested
from penstock.engine.jobmaster.state_query import LiveState, StateQuery
from penstock.engine.rpc.messages import ReadAnswer, ReadCommand
from penstock.engine.runtime.task.events import StacksSampled
from penstock.engine.state.keys import KeyTypeError


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


# Live queries that a job master has not answered yet, and who waits: REST, or a client at the control port.

Done = Callable[[StateReply], None]


class OpenReads:
    """Of one job. Replies are handed on by the control thread; queries may be made by any."""

    def __init__(self) -> None:
        self._open: dict[int, Done] = {}
        self._numbers = itertools.count()

    def begin(self, query: StateQuery, done: Done, post: Callable[[StateReadRequested], bool]) -> None:
        """Ask. `done` is called once. `post` hands the event to the job master; False: the job has ended."""
        number = next(self._numbers)
        self._open[number] = done
        if not post(StateReadRequested(number, query)):
            self.answer(StateReply(number, error=_no_state()))

    def ask(self, query: StateQuery, post: Callable[[StateReadRequested], bool]) -> Future[LiveState]:
        """The same. The future is given what the tasks have, or the error of the reply."""
        answer: Future[LiveState] = Future()
        self.begin(query, lambda reply: _complete(answer, reply), post)
        return answer

    def command(
        self, command: ReadCommand, send: Callable[[ReadAnswer], None], handle: Callable[[StateReadRequested], None]
    ) -> None:
        """The same for a client at the control port, by the control thread. `send` may be called by any."""

        def done(reply: StateReply) -> None:
            send(_answer_of(command.number, reply))

        def post(event: StateReadRequested) -> bool:
            handle(event)
            return True

        try:
            self.begin(_query_of(command), done, post)
        except KeyTypeError as error:
            done(StateReply(0, error=error))

    def answer(self, reply: StateReply) -> None:
        """The job master has answered."""
        done = self._open.pop(reply.request, None)
        if done is not None:
            done(reply)

    def end(self) -> None:
        """It never will: the job has ended."""
        for number in list(self._open):
            self.answer(StateReply(number, error=_no_state()))


def _query_of(command: ReadCommand) -> StateQuery:
    """What a client at the control port asks for. Raises KeyTypeError if a key is no literal."""
    keys = None
    if command.keys is not None:
        try:
            keys = tuple(map(ast.literal_eval, command.keys))
        except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
            raise KeyTypeError(f"a key is a Python literal: {error}") from None
    return StateQuery(command.name, command.operator, command.state, keys, command.limit)


def _answer_of(number: int, reply: StateReply) -> ReadAnswer:
    """What it is told. Rows stay as the task has pickled them."""
    state, error = reply.state, reply.error
    if state is None:
        return ReadAnswer(number, type(error).__name__, str(error))
    return ReadAnswer(
        number,
        operator=state.operator,
        state=state.state,
        schema=state.type,
        columns=state.columns,
        entries=state.entries,
        is_complete=state.is_complete,
    )


def _no_state() -> StateUnavailableError:
    return StateUnavailableError("the job has ended")


def _complete(future: Future[LiveState], reply: StateReply) -> None:
    # Unless its user has cancelled it, and waits no more.
    if not future.set_running_or_notify_cancel():
        return
    if reply.state is not None:
        future.set_result(reply.state)
    else:
        future.set_exception(reply.error or _no_state())


# Requests for flame graphs and thread dumps that a job master has not answered yet, and who waits.


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
