"""Flame graphs: which slots are asked, and when a request is answered."""

from __future__ import annotations

from typing import Any

from tests.unit.engine.jobmaster.played_job import Job, plan

from penstock.common.errors import JobError
from penstock.engine.jobmaster.effects import JobEffect, SendToSlot, StacksReply
from penstock.engine.jobmaster.events import CancelRequested, StacksRequested
from penstock.engine.rpc.messages import Register
from penstock.engine.runtime.task.events import Finished, SampledStack, SampleStacks, StacksSampled

VERTEX = 1
STACKS = [SampledStack(["m.f:1"], True, 3)]


def played() -> Job:
    """A job of two subtasks, which run."""
    job = Job(graph=plan(2))
    for vertex in job.graph.vertices:
        for subtask in range(vertex.parallelism):
            job.report(vertex.level, Register(), index=subtask)
    return job


def asks(job: Job, request: int = 5) -> list[tuple[int, SampleStacks]]:
    """What the slots are sent, by index."""
    effects = job.handle(StacksRequested(request, VERTEX, 10, 50, 100))
    return [
        (effect.slot.index, effect.message.event)
        for effect in effects
        if isinstance(effect, SendToSlot) and isinstance(effect.message.event, SampleStacks)
    ]


def answers(job: Job, subtask: int, sample: int, **more: Any) -> list[StacksReply]:
    return replies(job.report(VERTEX, StacksSampled(VERTEX, subtask, sample, STACKS), index=subtask, **more))


def replies(effects: list[JobEffect]) -> list[StacksReply]:
    return [effect for effect in effects if isinstance(effect, StacksReply)]


def test_all_subtasks_are_asked_and_the_answer_has_all() -> None:
    """A flame graph of some subtasks would be taken for one of all: the slow one may be another."""
    job = played()
    first, second = asks(job)
    assert first == (0, SampleStacks(first[1].sample, 10, 50, 100)) and second[0] == 1
    assert answers(job, 1, first[1].sample) == []
    assert answers(job, 1, first[1].sample) == [], "an answer that comes again is none"
    (reply,) = answers(job, 0, first[1].sample)
    assert reply.request == 5 and reply.error is None
    assert [(one.subtask, one.stacks) for one in reply.stacks] == [(1, STACKS), (0, STACKS)]
    assert answers(job, 0, first[1].sample) == []


def test_a_slot_that_does_not_answer_is_not_waited_for_for_ever() -> None:
    """One stopped worker would leave the page of a whole job empty."""
    job = played()
    (_, question), _ = asks(job)
    answers(job, 0, question.sample)
    before = len(job.effects)
    assert job.master.wake_at_ms(checkpoints=False) is not None
    job.waits(2 * 10 * 50 + 5_000)
    (reply,) = replies(job.effects[before:])
    assert [one.subtask for one in reply.stacks] == [0]


def test_what_has_come_is_answered_when_the_attempt_is_over() -> None:
    """Who looks at a job that fails would wait for tasks that are gone."""
    job = played()
    asks(job)
    before = len(job.effects)
    job.fails(RuntimeError("a failure"))
    (reply,) = replies(job.effects[before:])
    assert reply.stacks == [] and reply.error is None


def test_tasks_that_do_not_run_are_not_asked() -> None:
    """A request would be kept for slots that are not there."""
    job = played()
    job.handle(CancelRequested())
    assert asks(job) == []
    (reply,) = replies(job.effects)
    assert isinstance(reply.error, JobError)


def test_a_job_that_is_over_says_so() -> None:
    """A dashboard that is open when a job ends would wait for it."""
    job = played()
    job.handle(CancelRequested())
    for vertex in job.graph.vertices:
        for subtask in range(vertex.parallelism):
            job.report(vertex.level, Finished(vertex.id, subtask), index=subtask)
    assert job.master.status.is_terminal_state()
    before = len(job.effects)
    assert asks(job, 6) == []
    (reply,) = replies(job.effects[before:])
    assert reply.request == 6 and isinstance(reply.error, JobError)


def test_one_slot_is_asked_for_all_its_threads() -> None:
    """A thread dump of one worker would hold up those of the whole job."""
    job = played()
    effects = job.handle(StacksRequested(5, VERTEX, 1, 0, 100, threads_of=1))
    ((slot, question),) = [(e.slot.index, e.message.event) for e in effects if isinstance(e, SendToSlot)]
    assert slot == 1 and isinstance(question, SampleStacks) and question.all_threads
    (reply,) = answers(job, 1, question.sample)
    assert [one.subtask for one in reply.stacks] == [1]
    before = len(job.effects)
    job.handle(StacksRequested(6, VERTEX, 1, 0, 100, threads_of=7))
    (reply,) = replies(job.effects[before:])
    assert reply.stacks == [], "it has been rescaled since"
