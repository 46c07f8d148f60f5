"""Requests that the JobMaster has not answered yet: users' requests, live queries, samples of stacks."""

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
    """Track the users' requests to a job. `call` makes a call on the storage thread, `post` posts an event.

    Both return False after the job has ended.
    """

    def __init__(self, call: Callable[[Callable[[], None]], bool], post: Callable[[JobEvent], bool]) -> None:
        self._call = call
        self._post = post
        self._open: dict[int, Future[str]] = {}
        self._numbers = itertools.count()

    def request(self, event: Callable[[int], JobEvent]) -> Future[str]:
        """Post a request of the user to the JobMaster. The future gets the text of the reply."""
        answer: Future[str] = Future()

        def request() -> None:
            number = next(self._numbers)
            try:
                requested = event(number)
            except RAISED as error:
                # Also for errors of a file system's library: the user waits for an answer.
                complete(answer, error=as_exception(error))
                return
            self._open[number] = answer
            if not self._post(requested):
                self.answer(Reply(number, error=_ended()))

        # Make the event on the storage thread: it checks the savepoint's directory before a task writes there, and the
        # store may be slow.
        if not self._call(request):
            complete(answer, error=_ended())
        return answer

    def answer(self, reply: Reply) -> None:
        """Complete the request with the JobMaster's reply."""
        answer = self._open.pop(reply.request, None)
        if answer is not None:
            complete(answer, reply.text, reply.error)

    def end(self) -> None:
        """Fail all open requests: the job has ended. Called as the storage thread's last call."""
        for number in list(self._open):
            self.answer(Reply(number, error=_ended()))


def complete(future: Future[str], text: str = "", error: BaseException | None = None) -> None:
    """Complete a future, unless the user has canceled it."""
    if not future.set_running_or_notify_cancel():
        return
    if error is None:
        future.set_result(text)
    else:
        future.set_exception(error)


def _ended() -> JobError:
    return JobError("the job has ended")


Done = Callable[[StateReply], None]


class OpenReads:
    """Track live queries of a job's state, from REST or from a client at the control port.

    The control thread calls `answer`; any thread may start a query.
    """

    def __init__(self) -> None:
        self._open: dict[int, Done] = {}
        self._numbers = itertools.count()

    def begin(self, query: StateQuery, done: Done, post: Callable[[StateReadRequested], bool]) -> None:
        """Start a query. `done` is called once. `post` posts the event, or returns False after the job has ended."""
        number = next(self._numbers)
        self._open[number] = done
        if not post(StateReadRequested(number, query)):
            self.answer(StateReply(number, error=_no_state()))

    def query(self, query: StateQuery, post: Callable[[StateReadRequested], bool]) -> Future[LiveState]:
        """Start a query, like `begin`. The future gets the state, or the error of the reply."""
        answer: Future[LiveState] = Future()
        self.begin(query, lambda reply: _complete(answer, reply), post)
        return answer

    def command(
        self, command: ReadCommand, send: Callable[[ReadAnswer], None], handle: Callable[[StateReadRequested], None]
    ) -> None:
        """Start a query for a client at the control port, on the control thread. `send` may be called by any thread."""

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
        """Complete the query with the JobMaster's reply."""
        done = self._open.pop(reply.request, None)
        if done is not None:
            done(reply)

    def end(self) -> None:
        """Fail all open queries: the job has ended."""
        for number in list(self._open):
            self.answer(StateReply(number, error=_no_state()))


def _query_of(command: ReadCommand) -> StateQuery:
    """Return the query of a client at the control port. Raises KeyTypeError if a key is not a Python literal."""
    keys = None
    if command.keys is not None:
        try:
            keys = tuple(map(ast.literal_eval, command.keys))
        except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
            raise KeyTypeError(f"expected a Python literal as a key: {error}") from None
    return StateQuery(name=command.name, operator=command.operator, state=command.state, keys=keys, limit=command.limit)


def _answer_of(number: int, reply: StateReply) -> ReadAnswer:
    """Return the answer to a client at the control port. Rows stay as the task has pickled them."""
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
    # False if the user has canceled it.
    if not future.set_running_or_notify_cancel():
        return
    if reply.state is not None:
        future.set_result(reply.state)
    else:
        future.set_exception(reply.error or _no_state())


class OpenSamplings:
    """Track requests for flame graphs and thread dumps of a job.

    `post` posts an event to the JobMaster, or returns False after the job has ended.
    """

    def __init__(self, post: Callable[[StacksRequested], bool]) -> None:
        self._post = post
        self._open: dict[int, Future[list[StacksSampled]]] = {}
        self._numbers = itertools.count()

    def request(
        self, vertex: int, *, samples: int, delay_ms: int, depth: int, threads_of: int | None = None
    ) -> Future[list[StacksSampled]]:
        """Request samples. The future gets the tasks' samples, or the error of the reply. For any thread."""
        number, answer = next(self._numbers), Future[list[StacksSampled]]()
        self._open[number] = answer
        event = StacksRequested(number, vertex, samples=samples, delay_ms=delay_ms, depth=depth, threads_of=threads_of)
        if not self._post(event):
            self.answer(StacksReply(number, error=_ended()))
        return answer

    def answer(self, reply: StacksReply) -> None:
        """Complete the request with the JobMaster's reply."""
        answer = self._open.pop(reply.request, None)
        if answer is None or not answer.set_running_or_notify_cancel():
            return
        if reply.error is None:
            answer.set_result(reply.stacks)
        else:
            answer.set_exception(reply.error)

    def end(self) -> None:
        """Fail all open requests: the job has ended."""
        for number in list(self._open):
            self.answer(StacksReply(number, error=_ended()))
