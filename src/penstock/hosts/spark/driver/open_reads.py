"""Live queries that a job master has not answered yet, and who waits: REST, or a client at the control port."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable
from concurrent.futures import Future

from penstock.common.errors import StateUnavailableError
from penstock.engine.jobmaster.effects import StateReply
from penstock.engine.jobmaster.events import StateReadRequested
from penstock.engine.jobmaster.state_query import LiveState, StateQuery
from penstock.engine.rpc.messages import ReadAnswer, ReadCommand
from penstock.engine.state.keys import KeyTypeError

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
            self.answer(StateReply(number, error=_ended()))

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
            self.answer(StateReply(number, error=_ended()))


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


def _ended() -> StateUnavailableError:
    return StateUnavailableError("the job has ended")


def _complete(future: Future[LiveState], reply: StateReply) -> None:
    # Unless its user has cancelled it, and waits no more.
    if not future.set_running_or_notify_cancel():
        return
    if reply.state is not None:
        future.set_result(reply.state)
    else:
        future.set_exception(reply.error or _ended())
