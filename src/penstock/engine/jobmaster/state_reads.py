"""Answer live queries: select the tasks to ask, and merge their answers.

    a new query    its state is not known yet     LISTING: ListStates to all subtasks that may have it
    LISTING        all have answered              READING, or an error: there is no such state
    READING keys   ReadState to each subtask that owns a key, by key group; ends when all have answered
    READING any    ReadState to one subtask after the other; ends with enough entries or after the last subtask
    any            an error after five seconds, or when the attempt of one of the tasks no longer runs

Each query gets one reply. Each message to a task has a number; answers to messages that are no longer open are dropped.
Queries are not recorded, and the job does not wait for them.
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
from penstock.engine.jobmaster.state_query import LIVE_MAX, LiveState, StateQuery
from penstock.engine.plan.job_graph import JobVertex
from penstock.engine.runtime.task.events import ListStates, Opaque, ReadState, StateRead, StateShape, StatesListed
from penstock.engine.state.container_keys import as_key
from penstock.engine.state.key_groups import key_group_of, subtask_of
from penstock.engine.state.keys import KeyTypeError
from penstock.engine.state.queryable_names import unknown_queryable_name

READ_TIMEOUT_MS = 5_000
_LIST_AGAIN_MS = 500
"""Interval between ListStates to the same vertex."""
_OPEN_MAX = 10_000

State = tuple[int, StateShape]
"""A state with the vertex whose tasks have it."""


class OpenRead:
    """A query without a reply yet."""

    def __init__(self, request: int, query: StateQuery, until_ms: int) -> None:
        self.request = request
        self.query = query
        self.until_ms = until_ms
        self.regions: set[int] = set()
        """Regions of the tasks that got a message."""
        self.waits_for: dict[int, Sequence[int]] = {}
        """Positions of the requested keys, by the numbers of open messages."""
        self.state: State | None = None
        self.entries: list[Opaque] = []
        self.rows = 0
        self.subtask = 0
        """Without keys: the subtask that is read."""


class StateReads:
    """Answer live queries of one job. `emit` receives its effects, in order."""

    def __init__(self, job: ControlledJob, emit: Callable[[JobEffect], None]) -> None:
        self._job = job
        self._emit = emit
        self._open: dict[int, OpenRead] = {}
        """Open queries by request, in the order of their deadlines."""
        self._by_message: dict[int, OpenRead] = {}
        """Open queries by the numbers of messages to tasks."""
        self._numbers = itertools.count(1)
        self._known: dict[tuple[str, str], State] = {}
        """Known states by state id of the operator and name of the state."""
        self._named: dict[str, dict[tuple[str, str], State]] = {}
        """Known states by queryable name."""
        self._listed_ms: dict[int, int] = {}
        """When tasks of a vertex last listed their states."""

    def requested(self, event: StateReadRequested) -> None:
        """Handle a user's query."""
        read = OpenRead(event.request, event.query, self._job.now_ms + READ_TIMEOUT_MS)
        if len(self._open) >= _OPEN_MAX:
            self._end(read, error=StateUnavailableError(f"{_OPEN_MAX} live queries are already open: try again"))
        elif max(len(read.query.keys or ()), read.query.limit) > LIVE_MAX:
            self._end(read, error=JobError(f"a live query can have at most {LIVE_MAX} keys or entries"))
        else:
            self._open[read.request] = read
            self._reply_errors_of(read, lambda: self._begin(read, self._found(read.query)))

    def states_listed(self, report: StatesListed) -> None:
        """Handle a subtask's list of states."""
        self._listed_ms[report.vertex] = self._job.now_ms
        for shape in report.states:
            name = shape.operator, shape.state
            state = self._known[name] = report.vertex, shape
            for queryable in shape.queryable_names:
                self._named.setdefault(queryable, {})[name] = state
        read, _ = self._answered(report.read)
        if read is not None and not read.waits_for:
            self._reply_errors_of(read, lambda: self._begin(read, self._found(read.query), was_listed=True))

    def state_read(self, report: StateRead) -> None:
        """Handle entries of a subtask."""
        read, positions = self._answered(report.read)
        if read is None:
            return
        read.rows += report.rows
        if report.error:
            self._end(read, error=JobError(f"the state can't be read live: {report.error}. Query it read-committed"))
        elif read.query.keys is None:
            read.entries += report.entries
            read.subtask += 1
            self._reply_errors_of(read, lambda: self._scan(read))
        else:
            for position, entry in zip(positions, report.entries, strict=True):
                read.entries[position] = entry
            if not read.waits_for:
                self._end(read, is_complete=True)

    def advance(self) -> None:
        """Reply with an error to queries that can no longer be answered."""
        if not self._open:
            return
        for region in self._job.regions:
            if region.status is not JobStatus.RUNNING:
                for read in [read for read in self._open.values() if region.index in read.regions]:
                    self._end(read, error=self._not_running(region.status))
        for read in list(self._open.values()):
            if read.until_ms > self._job.now_ms:
                break
            self._end(read, error=StateUnavailableError(
                f"tasks of {self._job.name} have not answered for {READ_TIMEOUT_MS // 1000} s: a function does not "
                "return, or back pressure delays it. Try again, or query read-committed, which needs no task"
            ))  # fmt: skip

    def wake_at_ms(self) -> int | None:
        """Return the first deadline of the open queries, or None."""
        return next((read.until_ms for read in self._open.values()), None)

    # Finding the state.

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
        due = [v for v in vertices if now_ms - self._listed_ms.get(v, -_LIST_AGAIN_MS) >= _LIST_AGAIN_MS]
        if not due:
            raise self._unknown(read.query)
        for vertex in due:
            for subtask in range(self._present(vertex).parallelism):
                self._send(read, vertex, subtask, ListStates)

    def _unknown(self, query: StateQuery) -> StateNotFoundError:
        if query.name:
            return unknown_queryable_name(
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

    # Messages to tasks.

    def _begin(self, read: OpenRead, state: State | None, was_listed: bool = False) -> None:
        read.state = state
        if state is None and was_listed:
            raise self._unknown(read.query)
        if state is None:
            self._list(read)
        elif read.query.keys is None:
            self._scan(read)
        else:
            self._read_keys(read, state, [as_key(key) for key in read.query.keys])

    def _read_keys(self, read: OpenRead, state: State, keys: list[Any]) -> None:
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
            message = partial(ReadState, operator=shape.operator, state=shape.state, keys=of_subtask)
            self._send(read, vertex, subtask, message, positions=own)
        if not keys:
            self._end(read, is_complete=True)

    def _scan(self, read: OpenRead) -> None:
        """Read the next subtask, if more entries are needed and there is one."""
        assert read.state is not None
        (vertex, shape), limit = read.state, read.query.limit
        if read.rows > limit or read.subtask == self._present(vertex).parallelism:
            self._end(read, is_complete=read.rows <= limit)
            return
        # One row more than requested shows whether there are more.
        wanted = limit - read.rows + 1
        message = partial(ReadState, operator=shape.operator, state=shape.state, limit=wanted)
        self._send(read, vertex, read.subtask, message)

    def _send(
        self,
        read: OpenRead,
        vertex: int,
        subtask: int,
        message: Callable[[int], ListStates | ReadState],
        positions: Sequence[int] = (),
    ) -> None:
        region, number = self._job.regions.of_vertex(vertex), next(self._numbers)
        read.regions.add(region.index)
        read.waits_for[number] = positions
        self._by_message[number] = read
        region.attempt.send(vertex, subtask, message(number))

    def _present(self, vertex: int) -> JobVertex:
        """Return a vertex of the present attempt, whose plan may differ from the next one's."""
        attempt = self._job.regions.of_vertex(vertex).attempt
        if attempt.status is not JobStatus.RUNNING:
            raise self._not_running(attempt.status)
        return attempt.graph.vertices[vertex]

    def _not_running(self, status: JobStatus) -> StateUnavailableError:
        return StateUnavailableError(
            f"cannot query tasks of {self._job.name}: they are {status.name}, not RUNNING. Try again"
        )

    # Answers.

    def _reply_errors_of(self, read: OpenRead, do: Callable[[], None]) -> None:
        try:
            do()
        except (StateNotFoundError, StateUnavailableError, KeyTypeError) as error:
            self._end(read, error=error)

    def _answered(self, number: int) -> tuple[OpenRead | None, Sequence[int]]:
        """Return the query to which a message belongs, and its positions. None if it is no longer open."""
        read = self._by_message.pop(number, None)
        return read, read.waits_for.pop(number) if read is not None else ()

    def _end(self, read: OpenRead, is_complete: bool = False, error: Exception | None = None) -> None:
        self._open.pop(read.request, None)
        for number in read.waits_for:
            del self._by_message[number]
        if error is not None or read.state is None:
            self._emit(StateReply(read.request, error=error))
            return
        _, shape = read.state
        state = LiveState(
            operator=shape.operator,
            state=shape.state,
            type=shape.type,
            columns=shape.columns,
            entries=read.entries,
            is_complete=is_complete,
        )
        self._emit(StateReply(read.request, state))


def _may_have(vertex: JobVertex, query: StateQuery) -> bool:
    """Return whether tasks of a vertex may have the state of a query."""
    return any(node.operator.is_keyed and (bool(query.name) or node.uid == query.operator) for node in vertex.nodes)
