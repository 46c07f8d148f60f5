"""One attempt: how it comes from deployed tasks to closed ones, and what each task is sent on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.engine.jobmaster.played_job import plan

from penstock.common.errors import JobError, TaskLostError
from penstock.common.job_status import JobStatus
from penstock.engine.jobmaster.attempt import Attempt, slots_of
from penstock.engine.jobmaster.effects import Deploy, JobEffect, SendToSlot
from penstock.engine.runtime.ids import AttemptId, SlotId, SubtaskId
from penstock.engine.runtime.task.events import AssignSplits, Cancel, Close, ControlEvent, Drain

GRAPHS = {parallelism: plan(parallelism) for parallelism in (1, 2, 3)}
TERMINAL = {JobStatus.FINISHED, JobStatus.CANCELED, JobStatus.FAILED}
MAY_FOLLOW = {
    JobStatus.CREATED: {JobStatus.RUNNING, JobStatus.CANCELLING, JobStatus.FAILING},
    JobStatus.RUNNING: {JobStatus.FINISHED, JobStatus.CANCELLING, JobStatus.FAILING},
    JobStatus.CANCELLING: {JobStatus.CANCELED},
    JobStatus.FAILING: {JobStatus.FAILED},
}


class Played:
    """An attempt whose slots are played by the test."""

    def __init__(self, parallelism: int = 2, deployed: bool = True) -> None:
        self.effects: list[JobEffect] = []
        self.attempt = Attempt(AttemptId(0, 3), GRAPHS[parallelism], self.effects.append, 1_000)
        self.attempt.enumerators.start({})
        if deployed:
            self.attempt.deploy_if_started(1_000)

    @property
    def slots(self) -> list[SlotId]:
        return sorted(self.attempt.slots)

    @property
    def tasks(self) -> list[SubtaskId]:
        return sorted(task for tasks in self.attempt.slots.values() for task in tasks)

    def registers(self, *slots: SlotId) -> Played:
        """These slots, or all of them, register."""
        for slot in slots or self.slots:
            self.attempt.reported(slot, 1_000)
            self.attempt.registered(slot)
        return self

    def finishes(self, *tasks: SubtaskId) -> Played:
        """These tasks, or all of them, are closed."""
        for task in tasks or self.tasks:
            self.attempt.finished(task)
        return self

    def sent(self, kind: type[ControlEvent]) -> list[SubtaskId]:
        """The tasks to which events of a kind were sent since the last call, in order."""
        found = [
            SubtaskId(effect.message.vertex, effect.slot.index)
            for effect in self.effects
            if isinstance(effect, SendToSlot) and isinstance(effect.message.event, kind)
        ]
        self.effects.clear()
        return found


# From state to state.


def created() -> Played:
    return Played()


def running() -> Played:
    return Played().registers()


def cancelling() -> Played:
    played = running()
    played.attempt.cancel()
    return played


def failing() -> Played:
    played = running()
    played.attempt.failed(JobError("first"))
    return played


def canceled() -> Played:
    return cancelling().finishes()


def failed() -> Played:
    return failing().finishes()


def finished() -> Played:
    return running().finishes()


@pytest.mark.parametrize(
    ("start", "after_cancel", "after_failure", "after_abandon"),
    [
        (created, JobStatus.CANCELLING, JobStatus.FAILING, None),
        (running, JobStatus.CANCELLING, JobStatus.FAILING, None),
        (cancelling, JobStatus.CANCELLING, JobStatus.CANCELLING, JobStatus.CANCELED),
        (failing, JobStatus.FAILING, JobStatus.FAILING, JobStatus.FAILED),
        (canceled, JobStatus.CANCELED, JobStatus.CANCELED, JobStatus.CANCELED),
        (failed, JobStatus.FAILED, JobStatus.FAILED, JobStatus.FAILED),
        (finished, JobStatus.FINISHED, JobStatus.FINISHED, JobStatus.FINISHED),
    ],
)
def test_what_follows_from_each_state(
    start: Callable[[], Played], after_cancel: JobStatus, after_failure: JobStatus, after_abandon: JobStatus | None
) -> None:
    """A job that has succeeded would be reported as failed, or a cancelled one would be restarted."""
    played = start()
    played.attempt.cancel()
    assert played.attempt.status is after_cancel
    played = start()
    played.attempt.failed(JobError("a failure"))
    assert played.attempt.status is after_failure
    if after_abandon is not None:
        played = start()
        played.attempt.abandon()
        assert played.attempt.status is after_abandon


@pytest.mark.parametrize("end", ["cancel", "failed"])
def test_an_attempt_that_is_not_deployed_ends_at_once(end: str) -> None:
    """A job that is cancelled while it lists its input would wait for tasks that were never started."""
    played = Played(deployed=False)
    if end == "cancel":
        played.attempt.cancel()
    else:
        played.attempt.failed(JobError("there is nothing to read"))
    assert played.attempt.is_closed
    played.attempt.deploy_if_started(2_000)
    assert not any(isinstance(effect, Deploy) for effect in played.effects), "what has ended is not deployed"


def test_tasks_are_deployed_once() -> None:
    """Each call of an enumerator that ends would start all queries of the job a second time."""
    played = Played(deployed=False)
    for now_ms in (1_500, 2_000):
        played.attempt.deploy_if_started(now_ms)
    (deployed,) = [effect for effect in played.effects if isinstance(effect, Deploy)]
    assert (deployed.attempt, deployed.graph) == (AttemptId(0, 3), GRAPHS[2]) and played.attempt.deployed_ms == 1_500


def test_it_runs_when_the_last_slot_has_registered() -> None:
    """The first checkpoint would begin without the tasks that are still starting, and would expire."""
    played = created()
    *first, last = played.slots
    played.registers(*first)
    assert played.attempt.slots_without_report == [last]
    assert (played.attempt.status, played.attempt.has_run) == (JobStatus.CREATED, False)
    played.registers(last)
    assert (played.attempt.status, played.attempt.has_run) == (JobStatus.RUNNING, True)
    assert played.attempt.slots_without_report == []


def test_the_first_error_is_the_one_that_counts() -> None:
    """A user would read that a connection was closed, and not that a function raised."""
    played = running()
    for text in ("a function raised", "a connection was closed"):
        played.attempt.failed(JobError(text))
    assert str(played.attempt.error) == "a function raised"
    played = cancelling()
    played.attempt.failed(JobError("a connection was closed"))
    assert played.attempt.error is None, "cancelling is no failure"


# What tasks are sent.


def test_a_slot_that_registers_late_is_cancelled_as_well() -> None:
    """Its tasks would wait for input of an attempt that has ended, until their worker is killed."""
    for failure in (None, JobError("a failure")):
        played = created()
        *first, late = played.slots
        played.registers(*first)
        if failure is None:
            played.attempt.cancel()
        else:
            played.attempt.failed(failure)
        assert played.sent(Cancel) == sorted(task for slot in first for task in played.attempt.slots[slot])
        played.registers(late)
        assert played.sent(Cancel) == played.attempt.slots[late]
        assert played.attempt.status in (JobStatus.CANCELLING, JobStatus.FAILING), "it does not run after all"


def test_the_tasks_of_a_slot_that_failed_are_not_waited_for() -> None:
    """Each failure would cost the whole grace period, because tasks that are gone can't close."""
    played = running()
    slot, *others = played.slots
    played.attempt.failed(TaskLostError("a worker"), slot)
    lost = set(played.attempt.slots[slot])
    assert played.sent(Cancel) == [task for task in played.tasks if task not in lost]
    assert played.attempt.unfinished == others
    played.finishes(*(task for task in played.tasks if task not in lost))
    assert played.attempt.status is JobStatus.FAILED and played.attempt.unfinished == []


def test_tasks_that_are_closed_are_sent_nothing() -> None:
    """A message to a slot that has ended would be kept for ever, and counted as a failure of the transport."""
    played = running()
    done, *others = played.tasks
    played.finishes(done)
    played.attempt.close()
    assert played.sent(Close) == others
    played.attempt.cancel()
    assert played.sent(Cancel) == others


def test_only_running_tasks_are_closed_regularly() -> None:
    """A failed attempt would publish what a function writes in `close`, as if all its data had been processed."""
    for start in (created, cancelling, failing):
        played = start()
        played.effects.clear()
        played.attempt.close()
        assert played.sent(Close) == []


def test_a_drain_goes_to_the_sources_only() -> None:
    """An operator would end before the records that are on their way to it."""
    played = running()
    played.attempt.drain()
    sources = {vertex.id for vertex in GRAPHS[2].sources}
    assert played.sent(Drain) == [task for task in played.tasks if task.vertex in sources]


def test_the_data_has_ended_when_it_has_for_each_task() -> None:
    """A report that arrives twice would end the job before the slowest task has processed its records."""
    played = running()
    *first, last = played.tasks
    for task in (*first, *first):
        played.attempt.data_ended(task)
    assert not played.attempt.all_data_ended
    played.attempt.data_ended(last)
    assert played.attempt.all_data_ended


def test_splits_are_given_to_tasks_that_can_read_them_only() -> None:
    """A split that is assigned to a failed attempt would be missing in the snapshot of the next one."""
    for start, answered in ((running, True), (cancelling, False), (failing, False), (finished, False)):
        played = start()
        played.effects.clear()
        played.attempt.split_requested(GRAPHS[2].sources[0].id, 0)
        assert bool(played.sent(AssignSplits)) == answered


# Heartbeats.


def test_silence_counts_until_tasks_close() -> None:
    """A slot would be lost because it needed a minute to close, or not be lost though it hangs in its restore."""
    for start, counts in ((created, True), (running, True), (cancelling, False), (failing, False)):
        played = start()
        for number, slot in enumerate(played.slots):
            played.attempt.reported(slot, 1_000 + number)
        assert (played.attempt.next_silence_ms(500) is not None) == counts
        assert (played.attempt.silent_slot(60_000, 500) is not None) == counts


def test_the_slot_that_is_silent_longest_is_found_in_the_millisecond_that_was_announced() -> None:
    """The host would wake too late to see that a worker hangs, or so early that it wakes again and again."""
    played = running()
    first, *others = played.slots
    for slot in others:
        played.attempt.reported(slot, 9_000)
    at_ms = played.attempt.next_silence_ms(500)
    assert at_ms == 1_501
    assert played.attempt.silent_slot(at_ms - 1, 500) is None
    assert played.attempt.silent_slot(at_ms, 500) == first


# Properties.


@pytest.mark.parametrize("parallelism", GRAPHS)
def test_each_task_has_one_slot(parallelism: int) -> None:
    """A task would run twice, and write its output twice, or not at all."""
    graph = GRAPHS[parallelism]
    hosted = Counter(task for tasks in slots_of(graph, 0).values() for task in tasks)
    assert set(hosted.values()) == {1}
    assert set(hosted) == {(vertex.id, index) for vertex in graph.vertices for index in range(vertex.parallelism)}
    for slot, tasks in slots_of(graph, 0).items():
        assert all(graph.vertices[task.vertex].level == slot.level and task.subtask == slot.index for task in tasks)


ACTIONS = st.one_of(
    st.tuples(st.just("registers"), st.integers(0, 3)),
    st.tuples(st.just("finishes"), st.integers(0, 3)),
    st.tuples(st.just("slot fails"), st.integers(0, 3)),
    st.tuples(st.sampled_from(["fails", "cancel", "close", "abandon"]), st.just(0)),
)


def act(played: Played, action: str, number: int) -> None:
    attempt, slot = played.attempt, played.slots[number % len(played.slots)]
    if action == "registers":
        attempt.registered(slot)
    elif action == "finishes" and slot not in attempt.slots_without_report:
        attempt.finished(played.tasks[number % len(played.tasks)])
    elif action == "slot fails":
        attempt.failed(TaskLostError("a worker"), slot)
    elif action == "fails":
        attempt.failed(JobError("a failure"))
    elif action == "cancel":
        attempt.cancel()
    elif action == "close":
        attempt.close()
    elif action == "abandon" and attempt.status in (JobStatus.CANCELLING, JobStatus.FAILING):
        attempt.abandon()


@given(st.lists(ACTIONS, min_size=5, max_size=20))
def test_whatever_happens_an_attempt_ends_once_and_each_task_is_cancelled_once(actions: list[tuple[str, int]]) -> None:
    """Some order of failures, cancellations and late slots would leave a job that never ends, or ends twice."""
    played = Played()
    played.effects.clear()
    for action, number in actions:
        before = played.attempt.status
        act(played, action, number)
        after = played.attempt.status
        if after is not before:
            # A failure whose tasks are all gone passes through two states in one event.
            reachable = MAY_FOLLOW.get(before, set())
            assert after in reachable.union(*(MAY_FOLLOW.get(status, set()) for status in reachable))
        assert before not in TERMINAL or after is before
    if (end := played.attempt.status) in (JobStatus.CANCELLING, JobStatus.FAILING):
        played.attempt.abandon()
        assert played.attempt.status is (JobStatus.CANCELED if end is JobStatus.CANCELLING else JobStatus.FAILED)
    assert (played.attempt.error is not None) == (played.attempt.status is JobStatus.FAILED)
    assert max(Counter(played.sent(Cancel)).values(), default=0) <= 1
