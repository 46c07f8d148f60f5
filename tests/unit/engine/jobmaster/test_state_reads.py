"""Live queries: which tasks are asked, and what is made of their answers."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.engine.jobmaster.played_job import Job, plan, savepoint_requested

from penstock.common.errors import JobError, StateNotFoundError, StateUnavailableError
from penstock.engine.jobmaster.effects import JobEffect, SendToSlot, StateReply
from penstock.engine.jobmaster.events import CancelRequested, RescaleRequested, StateReadRequested
from penstock.engine.jobmaster.state_query import LiveState, StateQuery
from penstock.engine.jobmaster.state_reads import READ_TIMEOUT_MS
from penstock.engine.rpc.messages import Register
from penstock.engine.runtime.task.events import (
    Acknowledge,
    Finished,
    ListStates,
    Opaque,
    ReadState,
    StateRead,
    StateShape,
    StatesListed,
)
from penstock.engine.state.key_groups import key_group_of, subtask_of
from penstock.engine.state.keys import KeyTypeError

LEVEL = VERTEX = 1
TABLE = "(reduce)"


class Asked:
    """A job of two subtasks with a reduce, whose tasks are played by the test."""

    def __init__(self, parallelism: int = 2) -> None:
        self.job = Job(graph=plan(parallelism))
        self.uid = next(node.uid for node in self.job.graph.vertices[VERTEX].nodes if "Reduce" in node.name)
        self.request = 0
        self.registers()

    def registers(self) -> None:
        for vertex in self.job.master.graph.vertices:
            for subtask in range(vertex.parallelism):
                self.job.report(vertex.level, Register(), index=subtask)

    def asks(self, *keys: Any, name: str = "", uid: str | None = None, state: str = TABLE, limit: int = 0) -> list[Any]:
        """What tasks are sent, as (subtask, event), or what is replied."""
        self.request += 1
        operator = "" if name else self.uid if uid is None else uid
        query = StateQuery(name, operator, "" if name else state, keys or None, limit)
        return told(self.job.handle(StateReadRequested(self.request, query)))

    def lists(self, events: list[Any], *names: str, states: tuple[str, ...] = (TABLE,)) -> list[Any]:
        """All that were asked say what they have. `names`: those by which the first one is queryable."""
        found: list[Any] = []
        for subtask, event in events:
            assert isinstance(event, ListStates)
            shapes = [
                StateShape(self.uid, "Reduce", state, "", ["key", "value"], list(names) if not number else [])
                for number, state in enumerate(states)
            ]
            found += told(self.job.report(LEVEL, StatesListed(VERTEX, subtask, event.read, shapes), index=subtask))
        return found

    def reads(self, subtask: int, event: ReadState, *rows: list[Any], error: str = "", **more: Any) -> list[Any]:
        answer = StateRead(VERTEX, subtask, event.read, [Opaque(one) for one in rows], sum(map(len, rows)), error)
        return told(self.job.report(LEVEL, answer, index=subtask, **more))

    def knows(self) -> Asked:
        """The state has been asked for before."""
        for subtask, event in self.lists(self.asks()):
            self.reads(subtask, event, error="never mind")
        return self


def told(effects: list[JobEffect]) -> list[Any]:
    found: list[Any] = []
    for effect in effects:
        if isinstance(effect, SendToSlot) and isinstance(effect.message.event, ReadState | ListStates):
            found.append((effect.slot.index, effect.message.event))
        elif isinstance(effect, StateReply):
            found.append(effect)
    return found


def values(replies: list[Any]) -> LiveState:
    (reply,) = replies
    assert isinstance(reply, StateReply) and reply.state is not None, reply
    return reply.state


def error(replies: list[Any]) -> BaseException:
    (reply,) = replies
    assert reply.state is None and reply.error is not None
    return reply.error  # type: ignore[no-any-return]


def owner(key: Any, parallelism: int = 2) -> int:
    return subtask_of(key_group_of(key, 128), 128, parallelism)


def test_each_key_is_asked_of_the_task_that_owns_it() -> None:
    """A user would be told that a key has no state, by a task that never sees it."""
    asked = Asked()
    listing = asked.asks(1, 2, 3, 4, 2)
    assert [subtask for subtask, _ in listing] == [0, 1]
    assert asked.lists(listing[:1]) == []
    questions = asked.lists(listing[1:])
    keys = {subtask: event.keys.value for subtask, event in questions}
    assert keys == {subtask: [key for key in (1, 2, 3, 4, 2) if owner(key) == subtask] for subtask in (0, 1)}
    (first, one), (second, other) = questions
    assert asked.reads(first, one, *([(key, -key)] for key in keys[first])) == []
    state = values(asked.reads(second, other, *([(key, -key)] for key in keys[second])))
    assert [entry.value for entry in state.entries] == [[(key, -key)] for key in (1, 2, 3, 4, 2)]
    assert (state.operator, state.state, state.columns, state.is_complete) == (
        asked.uid, TABLE, ["key", "value"], True
    )  # fmt: skip


def test_any_entries_are_asked_of_one_task_after_the_other() -> None:
    """To look at five entries of a thousand subtasks would hold up all of them."""
    asked = Asked().knows()
    ((subtask, event),) = asked.asks(limit=3)
    assert (subtask, event.limit, event.keys) == (0, 4, None)
    ((subtask, event),) = asked.reads(0, event, [(1, 1), (2, 2)])
    assert (subtask, event.limit) == (1, 2)
    state = values(asked.reads(1, event, [(5, 5)]))
    assert [row for entry in state.entries for row in entry.value] == [(1, 1), (2, 2), (5, 5)] and state.is_complete
    ((_, event),) = asked.asks(limit=1)
    assert not values(asked.reads(0, event, [(1, 1), (2, 2)])).is_complete


def test_a_state_is_found_by_its_queryable_name() -> None:
    """A user would have to know uids of operators."""
    asked = Asked()
    questions = asked.lists(asked.asks(1, name="sums"), "sums", "totals")
    assert [(subtask, event.operator, event.state) for subtask, event in questions] == [(owner(1), asked.uid, TABLE)]
    assert len(asked.asks(1, name="totals")) == 1, "known from then on"


def test_what_is_not_there_is_said_with_what_is() -> None:
    """A slip of the pen would look like a key without state."""
    asked = Asked()
    unknown = error(asked.lists(asked.asks(1, name="summs"), "sums", states=(TABLE, "own")))
    assert isinstance(unknown, StateNotFoundError) and "Queryable names: 'sums'" in str(unknown)
    assert "'sums'" in str(error(asked.asks(1, name="other"))), "tasks are not asked again at once"
    assert f"--operator {asked.uid} own" in str(error(asked.asks(1, name="own"))), "its own name is no queryable one"
    assert "It has 'own'" in str(error(asked.asks(1, state="none")))
    assert asked.uid in str(error(asked.asks(1, uid="none")))
    asked.job.waits(500)
    assert len(asked.asks(1, name="other")) == 2
    assert "none" in str(error(Asked(parallelism=1).asks(1, uid="x")))
    assert "Queryable names: none" in str(error(asked_nothing().asks(1, name="x")))


def asked_nothing() -> Asked:
    asked = Asked()
    asked.lists(asked.asks(1, name="x"), states=())
    return asked


def test_a_name_of_two_states_means_neither() -> None:
    """A user would be told the state of another operator than the one he means."""
    asked = Asked(parallelism=1)
    ((subtask, event),) = asked.asks(1, name="sums")
    shapes = [StateShape(uid, uid, "own", "", ["key", "value"], ["sums"]) for uid in ("a", "b")]
    ambiguous = error(told(asked.job.report(LEVEL, StatesListed(VERTEX, subtask, event.read, shapes))))
    assert isinstance(ambiguous, StateNotFoundError) and "several operators" in str(ambiguous)
    assert "a, b" in str(ambiguous)


def test_a_key_that_can_be_none_is_refused() -> None:
    """The job would fail by the question."""
    asked = Asked().knows()
    assert isinstance(error(asked.asks({1, 2})), KeyTypeError)
    assert "1000" in str(error(asked.asks(*range(1_001)))) and "1000" in str(error(asked.asks(limit=1_001)))
    of_none = StateReadRequested(99, StateQuery("", asked.uid, TABLE, (), 0))
    assert values(told(asked.job.handle(of_none))).entries == []


def test_a_task_that_can_not_answer_says_why() -> None:
    """A value that can't be pickled would look like no value, or fail the job."""
    asked = Asked().knows()
    ((subtask, event),) = asked.asks(1)
    refused = error(asked.reads(subtask, event, error="cannot pickle 'lock'"))
    assert type(refused) is JobError and "lock" in str(refused)


def test_answers_that_come_twice_or_too_late_count_once() -> None:
    """A user would be told the answer to another question."""
    asked = Asked().knows()
    ((subtask, event),) = asked.asks(1)
    assert asked.reads(subtask, event, [(1, 1)], attempt=7) == []
    assert values(asked.reads(subtask, event, [(1, 1)])).entries[0].value == [(1, 1)]
    assert asked.reads(subtask, event, [(1, 2)]) == []
    assert asked.lists([(0, ListStates(99))]) == []


@pytest.mark.parametrize("ends", ["fails", "is cancelled", "is rescaled", "ends"])
def test_no_question_is_left_open(ends: str) -> None:
    """A user would wait for a task that is gone."""
    asked = Asked().knows()
    job = asked.job
    asked.asks(1)
    before = len(job.effects)
    if ends == "fails":
        job.fails(JobError("oops"))
    elif ends == "is cancelled":
        job.handle(CancelRequested())
    elif ends == "is rescaled":
        job.handle(RescaleRequested(7, {vertex.id: 1 for vertex in job.graph.vertices}))
        number = job.master.coordinator.under_way[-1]
        acknowledge(job, number)
    else:
        job.handle(savepoint_requested(7, "sp", stop=True))
        acknowledge(job, job.master.coordinator.under_way[-1])
        finish(job)
    gone = error([effect for effect in job.effects[before:] if isinstance(effect, StateReply)])
    assert isinstance(gone, StateUnavailableError) and "Try again" in str(gone)
    assert isinstance(error(asked.asks(1)), StateUnavailableError)


def acknowledge(job: Job, number: int) -> None:
    for vertex in job.graph.vertices:
        for subtask in range(vertex.parallelism):
            job.report(vertex.level, Acknowledge(vertex.id, subtask, number), index=subtask)


def finish(job: Job) -> None:
    for vertex in job.graph.vertices:
        for subtask in range(vertex.parallelism):
            job.report(vertex.level, Finished(vertex.id, subtask), index=subtask)


def test_a_restarted_job_is_asked_again() -> None:
    """A dashboard would have to be restarted with each job that it watches."""
    asked = Asked().knows()
    asked.job.fails(JobError("oops"))
    assert isinstance(error(asked.asks(1)), StateUnavailableError)
    asked.job.restarts()
    asked.registers()
    ((subtask, event),) = asked.asks(1)
    assert values(asked.reads(subtask, event, [(1, 1)])).is_complete


def test_a_task_that_does_not_answer_is_not_waited_for() -> None:
    """A user would wait for as long as a function does not return."""
    asked = Asked().knows()
    ((subtask, event),) = asked.asks(1)
    asked.job.waits(1_000)
    asked.asks(2)
    assert asked.job.master.wake_at_ms() == asked.job.now_ms - 1_000 + READ_TIMEOUT_MS
    late = error(told(asked.job.waits(READ_TIMEOUT_MS - 1_000)))
    assert isinstance(late, StateUnavailableError) and "5 s" in str(late)
    assert asked.reads(subtask, event, [(1, 1)]) == [], "too late"
    assert isinstance(error(told(asked.job.waits(1_000))), StateUnavailableError)


@pytest.mark.thorough
def test_a_flood_of_questions_is_refused() -> None:
    """The driver would fill its memory with questions that a task does not get to."""
    asked = Asked().knows()
    for _ in range(10_000):
        asked.asks(1)
    assert "already open" in str(error(asked.asks(1)))


def test_questions_leave_no_trace() -> None:
    """The journal of a job would hold questions alone, and each would make its readers a new picture of the job."""
    asked = Asked().knows()
    asked.job.waits(1_000)
    published = asked.job.recorder.published
    for _ in range(3):
        ((subtask, event),) = asked.asks(1)
        asked.job.now_ms += 1_000
        asked.reads(subtask, event, [(1, 1)])
    assert asked.job.recorder.published is published
    assert "State" not in str(asked.job.master.journal)
