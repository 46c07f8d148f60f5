"""Live queries: which tasks are asked, and what is made of their answers.

    a query        its state is not known yet     LISTING     ListStates to all subtasks that may have it
    LISTING        all have answered              READING, or it is over: there is no such state
    READING keys   ReadState to each subtask that owns one of them, by key group; over when all have answered
    READING any    ReadState to one subtask after the other; over when there are enough entries, or no subtask is left
    any            the attempt of a task that was asked does not run any more, or five seconds have passed: over,
                   with an error that says so

Each query is answered once. A question to a task has a number of its own: what comes for one that is not open any more
is dropped. Nothing of this is recorded, and nothing else of the job waits for it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from penstock.common.errors import JobError, StateNotFoundError, StateUnavailableError
from penstock.common.job_status import JobStatus
from penstock.engine.jobmaster.controlled_job import ControlledJob
from penstock.engine.jobmaster.effects import JobEffect, StateReply
from penstock.engine.jobmaster.events import StateReadRequested
from penstock.engine.jobmaster.state_query import LIVE_MOST, LiveState, StateQuery
from penstock.engine.plan.job_graph import JobVertex
from penstock.engine.runtime.operators.keyed import KeyedOperator
from penstock.engine.runtime.task.events import ListStates, Opaque, ReadState, StateRead, StateShape, StatesListed
from penstock.engine.state.container_keys import as_key
from penstock.engine.state.key_groups import key_group_of, subtask_of
from penstock.engine.state.keys import KeyTypeError
from penstock.engine.state.queryable_names import no_queryable_name

READ_TIMEOUT_MS = 5_000
_LISTED_AGAIN_MS = 500
"""How soon tasks are asked again for a state that they did not have."""
_OPEN_MAX = 10_000

State = tuple[int, StateShape]
"""A state, with the vertex whose tasks have it."""


class OpenRead:
    """A query that is not answered yet."""

    def __init__(self, request: int, query: StateQuery, until_ms: int) -> None:
        self.request = request
        self.query = query
        self.until_ms = until_ms
        self.regions: set[int] = set()
        """Those of whose tasks some were asked."""
        self.waits_for: dict[int, Sequence[int]] = {}
        """By the numbers of questions that are open: the positions of the keys that were asked for."""
        self.state: State | None = None
        self.entries: list[Opaque] = []
        self.rows = 0
        self.subtask = 0
        """Without keys: the one that is asked."""


class StateReads:
    """Of one job. `emit` takes its effects, in order."""

    def __init__(self, job: ControlledJob, emit: Callable[[JobEffect], None]) -> None:
        self._job = job
        self._emit = emit
        self._open: dict[int, OpenRead] = {}
        """By request, in the order of their deadlines."""
        self._asked: dict[int, OpenRead] = {}
        """By the number of the question."""
        self._numbers = itertools.count(1)
        self._known: dict[tuple[str, str], State] = {}
        """By state id of the operator, and table."""
        self._named: dict[str, dict[tuple[str, str], State]] = {}
        """By queryable name."""
        self._listed_ms: dict[int, int] = {}
        """When the tasks of a vertex have said what they have."""

    def requested(self, event: StateReadRequested) -> None:
        """A user asks."""
        read = OpenRead(event.request, event.query, self._job.now_ms + READ_TIMEOUT_MS)
        if len(self._open) >= _OPEN_MAX:
            self._over(read, error=StateUnavailableError(f"{_OPEN_MAX} live queries are open already: try again"))
        elif max(len(read.query.keys or ()), read.query.limit) > LIVE_MOST:
            self._over(read, error=JobError(f"a live query has {LIVE_MOST} keys, or entries, at most"))
        else:
            self._open[read.request] = read
            self._go_on_with(read, lambda: self._begin(read, self._found(read.query)))

    def listed(self, report: StatesListed) -> None:
        """A subtask has said which states it has."""
        self._listed_ms[report.vertex] = self._job.now_ms
        for shape in report.states:
            name = shape.operator, shape.state
            state = self._known[name] = report.vertex, shape
            for queryable in shape.queryable_names:
                self._named.setdefault(queryable, {})[name] = state
        read, _ = self._answered(report.read)
        if read is not None and not read.waits_for:
            self._go_on_with(read, lambda: self._begin(read, self._found(read.query), was_listed=True))

    def was_read(self, report: StateRead) -> None:
        """A subtask has said what it holds."""
        read, positions = self._answered(report.read)
        if read is None:
            return
        read.rows += report.rows
        if report.error:
            self._over(read, error=JobError(f"the state can't be read live: {report.error}. Ask read-committed"))
        elif read.query.keys is None:
            read.entries += report.entries
            read.subtask += 1
            self._go_on_with(read, lambda: self._scan(read))
        else:
            for position, entry in zip(positions, report.entries, strict=True):
                read.entries[position] = entry
            if not read.waits_for:
                self._over(read, is_complete=True)

    def go_on(self) -> None:
        """Something happened: what can't be answered any more is answered with the reason."""
        if not self._open:
            return
        for region in self._job.regions:
            if region.status is not JobStatus.RUNNING:
                for read in [read for read in self._open.values() if region.index in read.regions]:
                    self._over(read, error=self._not_running(region.status))
        for read in list(self._open.values()):
            if read.until_ms > self._job.now_ms:
                break
            self._over(read, error=StateUnavailableError(
                f"tasks of {self._job.name} have not answered for {READ_TIMEOUT_MS // 1000} s: a function does not "
                "return, or is held up by back pressure. Try again, or ask read-committed, for which no task is asked"
            ))  # fmt: skip

    def wake_at_ms(self) -> int | None:
        """When the first of those that are open is given up."""
        return next((read.until_ms for read in self._open.values()), None)

    # Which state is meant.

    def _found(self, query: StateQuery) -> State | None:
        if not query.name:
            return self._known.get((query.operator, query.state))
        states = self._named.get(query.name, {})
        if len(states) > 1:
            uids = ", ".join(sorted(uid for uid, _ in states))
            raise StateNotFoundError(f"several operators have a state that is queryable as '{query.name}': {uids}")
        return next(iter(states.values()), None)

    def _list(self, read: OpenRead) -> None:
        now_ms = self._job.now_ms
        vertices = [vertex.id for vertex in self._job.graph.vertices if _may_have(vertex, read.query)]
        due = [v for v in vertices if now_ms - self._listed_ms.get(v, -_LISTED_AGAIN_MS) >= _LISTED_AGAIN_MS]
        if not due:
            raise self._unknown(read.query)
        for vertex in due:
            for subtask in range(self._present(vertex).parallelism):
                self._ask(read, vertex, subtask, ListStates)

    def _unknown(self, query: StateQuery) -> StateNotFoundError:
        if query.name:
            return no_queryable_name(
                query.name, [(uid, state, shape.queryable_names) for (uid, state), (_, shape) in self._known.items()]
            )
        states = sorted(state for uid, state in self._known if uid == query.operator and not state.startswith("("))
        if states:
            has = ", ".join(map(repr, states))
            return StateNotFoundError(f"operator '{query.operator}' has no keyed state '{query.state}'. It has {has}")
        uids = sorted({uid for uid, state in self._known if not state.startswith("(")})
        has = ", ".join(map(repr, uids)) or "none"
        return StateNotFoundError(
            f"there is no operator '{query.operator}' with keyed state. Operators whose state is known: {has}"
        )

    # Asking.

    def _begin(self, read: OpenRead, state: State | None, was_listed: bool = False) -> None:
        read.state = state
        if state is None and was_listed:
            raise self._unknown(read.query)
        if state is None:
            self._list(read)
        elif read.query.keys is None:
            self._scan(read)
        else:
            self._ask_for_keys(read, state, [as_key(key) for key in read.query.keys])

    def _ask_for_keys(self, read: OpenRead, state: State, keys: list[Any]) -> None:
        vertex, shape = state
        present = self._present(vertex)
        positions: dict[int, list[int]] = {}
        for position, key in enumerate(keys):
            group = key_group_of(key, present.max_parallelism)
            subtask = subtask_of(group, present.max_parallelism, present.parallelism)
            positions.setdefault(subtask, []).append(position)
        read.entries = [Opaque([])] * len(keys)
        for subtask, own in sorted(positions.items()):
            of_subtask = Opaque([keys[position] for position in own])
            question = partial(ReadState, operator=shape.operator, state=shape.state, keys=of_subtask)
            self._ask(read, vertex, subtask, question, own)
        if not keys:
            self._over(read, is_complete=True)

    def _scan(self, read: OpenRead) -> None:
        """Without keys: ask the next subtask, if more is wanted and there is one."""
        assert read.state is not None
        (vertex, shape), limit = read.state, read.query.limit
        if read.rows > limit or read.subtask == self._present(vertex).parallelism:
            self._over(read, is_complete=read.rows <= limit)
            return
        # One more than is wanted shows whether there are more.
        wanted = limit - read.rows + 1
        question = partial(ReadState, operator=shape.operator, state=shape.state, limit=wanted)
        self._ask(read, vertex, read.subtask, question)

    def _ask(
        self,
        read: OpenRead,
        vertex: int,
        subtask: int,
        question: Callable[[int], ListStates | ReadState],
        positions: Sequence[int] = (),
    ) -> None:
        region, number = self._job.regions.of_vertex(vertex), next(self._numbers)
        read.regions.add(region.index)
        read.waits_for[number] = positions
        self._asked[number] = read
        region.attempt.send(vertex, subtask, question(number))

    def _present(self, vertex: int) -> JobVertex:
        """A vertex as it runs now: the plan of the next attempts may be another one."""
        attempt = self._job.regions.of_vertex(vertex).attempt
        if attempt.status is not JobStatus.RUNNING:
            raise self._not_running(attempt.status)
        return attempt.graph.vertices[vertex]

    def _not_running(self, status: JobStatus) -> StateUnavailableError:
        return StateUnavailableError(f"tasks of {self._job.name} can't be asked now: they are {status.name}. Try again")

    # Answers.

    def _go_on_with(self, read: OpenRead, do: Callable[[], None]) -> None:
        try:
            do()
        except (StateNotFoundError, StateUnavailableError, KeyTypeError) as error:
            self._over(read, error=error)

    def _answered(self, number: int) -> tuple[OpenRead | None, Sequence[int]]:
        """The query to which a question belongs, and its positions. None: it is over, or was answered before."""
        read = self._asked.pop(number, None)
        return read, read.waits_for.pop(number) if read is not None else ()

    def _over(self, read: OpenRead, is_complete: bool = False, error: Exception | None = None) -> None:
        self._open.pop(read.request, None)
        for number in read.waits_for:
            del self._asked[number]
        if error is not None or read.state is None:
            self._emit(StateReply(read.request, error=error))
            return
        _, shape = read.state
        state = LiveState(shape.operator, shape.state, shape.type, shape.columns, read.entries, is_complete)
        self._emit(StateReply(read.request, state))


def _may_have(vertex: JobVertex, query: StateQuery) -> bool:
    """Whether tasks of a vertex may have the state that is asked for."""
    return any(
        isinstance(node.operator, KeyedOperator) and (bool(query.name) or node.uid == query.operator)
        for node in vertex.nodes
    )
