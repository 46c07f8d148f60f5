"""Which of the submitted jobs run: each row of the dispatcher's table, and what must hold in any order of events."""

from __future__ import annotations

from random import Random

import pytest

from penstock.common.job_status import JobStatus
from penstock.engine.rpc.keys import ControlAddress
from penstock.service.cluster.rest_address import RestAddress
from penstock.service.dispatcher.dispatcher import ENDED_MAX, DispatchedJob, Dispatcher, Phase
from penstock.service.dispatcher.events import (
    AcceptsCommands,
    Began,
    CancelJob,
    CancelRequested,
    Drop,
    Effect,
    EndRecorded,
    JobAboutToEnd,
    JobEnded,
    LeftoversStopped,
    ProcessEnded,
    Record,
    ReleaseSlots,
    SlotsAnswer,
    SlotsCounted,
    SlotsIdle,
    SlotsWanted,
    StartProcess,
    StopLeftovers,
    Submitted,
)

CONTROL = ControlAddress("tcp://127.0.0.1:1", b"", b"", b"")
REST = RestAddress("http://127.0.0.1:1", "")


def submitted(*slots: int, of: int = 4) -> Dispatcher:
    """A dispatcher to which jobs "0", "1", … were submitted, which need so many slots."""
    dispatcher = Dispatcher(of)
    for number, needed in enumerate(slots):
        dispatcher.handle(Submitted(number, str(number), f"job {number}", needed))
    return dispatcher


def phases(dispatcher: Dispatcher) -> list[Phase]:
    return [job.phase for job in dispatcher.jobs.values()]


def test_a_job_starts_if_its_slots_are_free() -> None:
    """A cluster would take jobs and run none, or forget one that it has taken when it is killed."""
    dispatcher = Dispatcher(4)
    effects = dispatcher.handle(Submitted(5, "a", "counts", 3))
    assert effects == [Record("a"), Record("a"), StartProcess("a")]
    assert (dispatcher.jobs["a"].phase, dispatcher.jobs["a"].started_ms, dispatcher.free) == (Phase.STARTING, 5, 1)


def test_a_job_waits_for_slots_and_starts_when_they_are_free() -> None:
    """Spark would start the half of its tasks, which wait for the other half for ever."""
    dispatcher = submitted(3, 2)
    assert phases(dispatcher) == [Phase.STARTING, Phase.QUEUED]
    dispatcher.handle(JobEnded(9, "0", JobStatus.FINISHED))
    assert dispatcher.jobs["1"].phase is Phase.QUEUED, "its process may still be there"
    assert StartProcess("1") in dispatcher.handle(ProcessEnded(10, "0"))
    assert phases(dispatcher) == [Phase.ENDED, Phase.STARTING]
    assert dispatcher.jobs["0"].status is JobStatus.FINISHED


def test_a_large_job_is_not_overtaken() -> None:
    """It would wait as long as small ones come."""
    dispatcher = submitted(3, 4, 1)
    assert phases(dispatcher) == [Phase.STARTING, Phase.QUEUED, Phase.QUEUED]
    assert [job.id for job in dispatcher.queue] == ["1", "2"]


def test_a_job_that_waits_is_cancelled_at_once_and_those_behind_it_move_up() -> None:
    """What nobody wants any more would hold up all others."""
    dispatcher = submitted(3, 4, 1)
    effects = dispatcher.handle(CancelRequested(7, "1"))
    assert effects == [Record("1"), Record("2"), StartProcess("2")]
    assert (dispatcher.jobs["1"].status, dispatcher.jobs["1"].ended_ms) == (JobStatus.CANCELED, 7)


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_job_that_starts_or_runs_is_asked_to_end(has_begun: bool) -> None:
    """One that starts could not be stopped before it has its first records."""
    dispatcher = submitted(1)
    if has_begun:
        dispatcher.handle(Began(1, "0", "id", REST))
    assert dispatcher.handle(CancelRequested(2, "0")) == [Record("0"), CancelJob("0")]
    assert dispatcher.jobs["0"].status is None
    assert dispatcher.handle(CancelRequested(3, "0")) == [], "a process that is stopped would not read it, and block us"
    dispatcher.handle(JobEnded(3, "0", JobStatus.CANCELED))
    assert dispatcher.handle(CancelRequested(4, "0")) == []


def test_a_job_whose_end_was_asked_for_does_not_go_on_with_the_next_dispatcher() -> None:
    """A client has been told that it is cancelled, and has perhaps started its successor: both would run."""
    dispatcher = submitted(1)
    dispatcher.handle(Began(1, "0", "id", REST))
    dispatcher.handle(CancelRequested(2, "0"))
    following = Dispatcher(4, [dispatcher.jobs["0"]])
    assert following.start(9) == [Record("0"), StartProcess("0", resumes="id"), CancelJob("0")]


@pytest.mark.parametrize("how", ["its process", "the cluster"])
def test_a_job_that_was_seen_to_end_has_ended_so(how: str) -> None:
    """Its REST says that it has failed, while its process gathers what is to be known of it, and is killed then: the
    job would go on with the next dispatcher, or have failed by being killed though it has finished."""
    dispatcher = submitted(1)
    dispatcher.handle(Began(1, "0", "id", REST))
    assert dispatcher.handle(JobAboutToEnd(5, "0", JobStatus.FAILED, "JobError", "it failed")) == [Record("0")]
    assert dispatcher.jobs["0"].status is None
    if how == "its process":
        dispatcher.handle(ProcessEnded(6, "0", "was killed"))
        job = dispatcher.jobs["0"]
    else:
        following = Dispatcher(4, [dispatcher.jobs["0"]])
        assert following.start(9) == [Record("0")]
        job = following.jobs["0"]
        assert (job.phase, job.ended_ms) == (Phase.ENDED, 5)
    assert (job.status, job.kind, job.error) == (JobStatus.FAILED, "JobError", "it failed")
    assert job.ends is None, "a long error would be kept twice, in space that is set aside for one"


def test_what_a_process_says_of_its_job_is_kept_until_it_ends() -> None:
    """Nobody could ask the job for anything; or be sent to a port that another process has by now."""
    dispatcher = submitted(1)
    assert dispatcher.handle(Began(1, "0", "id", None)) == [Record("0")]
    dispatcher.handle(Began(1, "0", "id", REST))
    dispatcher.handle(AcceptsCommands(2, "0", CONTROL))
    job = dispatcher.jobs["0"]
    assert (job.phase, job.job_id, job.rest, job.control) == (Phase.RUNNING, "id", REST, CONTROL)
    dispatcher.handle(JobEnded(3, "0", JobStatus.FAILED, "JobError", "it failed"))
    assert (job.phase, job.kind, job.error) == (Phase.ENDING, "JobError", "it failed")
    dispatcher.handle(ProcessEnded(4, "0", "was killed"))
    assert (job.phase, job.rest, job.control, job.error) == (Phase.ENDED, None, None, "it failed")


def test_slots_of_a_killed_process_are_free_when_nothing_of_it_is_left() -> None:
    """The next job would be started on slots in which tasks of the dead one still run."""
    dispatcher = submitted(3, 2)
    dispatcher.handle(Began(1, "0", "id", REST))
    assert dispatcher.handle(ProcessEnded(2, "0", "was ended by SIGKILL")) == [Record("0"), StopLeftovers("0", "id")]
    job = dispatcher.jobs["0"]
    assert (job.status, job.kind, job.error) == (JobStatus.FAILED, "TaskLostError", "was ended by SIGKILL")
    assert dispatcher.jobs["1"].phase is Phase.QUEUED
    assert StartProcess("1") in dispatcher.handle(LeftoversStopped(3, "0"))


def test_a_running_job_may_have_more_slots_if_they_are_free() -> None:
    """A job that is rescaled would take those of its neighbours, or be refused what nobody has."""
    dispatcher = submitted(1, 1)
    assert dispatcher.handle(SlotsWanted(1, "0", 4)) == [SlotsAnswer("0", False, 2)]
    assert dispatcher.handle(SlotsWanted(2, "0", 3)) == [SlotsAnswer("0", True, 0), Record("0")]
    assert dispatcher.free == 0


def test_what_a_job_gives_back_goes_to_those_that_wait() -> None:
    """A job that is made smaller would make room for nobody."""
    dispatcher = submitted(4, 2)
    effects = dispatcher.handle(SlotsWanted(1, "0", 2))
    assert effects == [SlotsAnswer("0", True, 2), Record("0"), Record("1"), StartProcess("1")]


def test_executors_that_come_let_waiting_jobs_start_and_those_that_go_stop_none() -> None:
    """Jobs would wait for ever on a cluster that has grown; or be thought to fit where half of it is gone."""
    dispatcher = submitted(4, 2)
    assert StartProcess("1") in dispatcher.handle(SlotsCounted(1, 6))
    dispatcher.handle(SlotsCounted(2, 3))
    assert phases(dispatcher) == [Phase.STARTING, Phase.STARTING]
    dispatcher.handle(Submitted(3, "2", "late", 1))
    assert dispatcher.jobs["2"].phase is Phase.QUEUED
    assert dispatcher.handle(SlotsWanted(4, "0", 4)) == [SlotsAnswer("0", True, 0), Record("0")]


def test_slots_are_given_back_that_nobody_holds_or_waits_for() -> None:
    """A job that was just told to start would find its slots gone; or machines be held that no job uses."""
    dispatcher = submitted(2, of=6)
    assert dispatcher.wanted == 2
    assert dispatcher.handle(SlotsIdle(1, 5)) == []
    assert dispatcher.handle(SlotsIdle(1, 4)) == [ReleaseSlots("", 4)]
    assert (dispatcher.slots, dispatcher.free) == (2, 0)
    dispatcher.handle(Submitted(2, "1", "waits", 3))
    assert dispatcher.wanted == 5
    dispatcher.handle(SlotsCounted(3, 4))
    assert dispatcher.handle(SlotsIdle(4, 2)) == [], "the one that waits is to have them"


def test_the_next_dispatcher_goes_on_with_what_had_not_ended() -> None:
    """Jobs would be gone with the process that had started them; or those that have ended run once more."""
    before = [
        DispatchedJob("a", "ended", 1, 1, Phase.ENDED, "ja", status=JobStatus.FINISHED),
        DispatchedJob("b", "ran", 1, 2, Phase.RUNNING, "jb", REST, CONTROL),
        DispatchedJob("c", "waited", 9, 3),
        DispatchedJob("d", "was ending", 1, 4, Phase.ENDING, "jd", status=JobStatus.FAILED),
    ]
    dispatcher = Dispatcher(4, before)
    assert dispatcher.start(9) == [Record("b"), StartProcess("b", resumes="jb")]
    assert phases(dispatcher) == [Phase.ENDED, Phase.STARTING, Phase.QUEUED, Phase.ENDED]
    assert dispatcher.jobs["b"].rest is None


def test_the_oldest_of_those_that_have_ended_are_dropped() -> None:
    """A cluster that runs for years would fill its disk with jobs of the first day."""
    dispatcher = Dispatcher(1)
    effects: list[Effect] = []
    for number in range(ENDED_MAX + 2):
        dispatcher.handle(Submitted(number, str(number), "short", 1))
        dispatcher.handle(JobEnded(number, str(number), JobStatus.FINISHED))
        effects += dispatcher.handle(ProcessEnded(number, str(number)))
    assert [effect for effect in effects if isinstance(effect, Drop)] == [Drop("0"), Drop("1")]
    assert len(dispatcher.jobs) == ENDED_MAX


def test_what_comes_late_or_of_nobody_does_nothing() -> None:
    """A message that was on its way would bring back a job that has ended."""
    dispatcher = submitted(1)
    assert dispatcher.handle(Began(1, "nobody", "id", None)) == []
    dispatcher.handle(JobEnded(2, "0", JobStatus.FINISHED))
    dispatcher.handle(ProcessEnded(3, "0"))
    for late in (
        Began(4, "0", "id", REST), AcceptsCommands(4, "0", CONTROL), SlotsWanted(4, "0", 2), ProcessEnded(4, "0"),
        JobEnded(4, "0", JobStatus.FAILED), LeftoversStopped(4, "0"), CancelRequested(4, "0"),
    ):  # fmt: skip
        assert dispatcher.handle(late) == []
    assert (dispatcher.jobs["0"].status, dispatcher.free) == (JobStatus.FINISHED, 4)


@pytest.mark.parametrize("seed", range(50))
def test_no_slot_is_held_twice_and_no_job_waits_for_nothing(seed: int) -> None:
    """Two jobs would share slots, or a queue stand still before free ones, after some order of events."""
    random, total, started = Random(seed), 8, list[str]()
    dispatcher = Dispatcher(total)
    for at_ms in range(300):
        unfinished = [job.id for job in dispatcher.jobs.values() if job.phase is not Phase.ENDED]
        id = random.choice([*unfinished[:5], "none"])
        event = random.choice(
            [
                Submitted(at_ms, str(at_ms), "job", random.randint(1, total)), Began(at_ms, id, f"job-{id}", REST),
                AcceptsCommands(at_ms, id, CONTROL), SlotsWanted(at_ms, id, random.randint(1, total)),
                JobEnded(at_ms, id, JobStatus.FINISHED), ProcessEnded(at_ms, id, "was killed"),
                LeftoversStopped(at_ms, id), CancelRequested(at_ms, id),
            ]
        )  # fmt: skip
        started += [effect.id for effect in dispatcher.handle(event) if isinstance(effect, StartProcess)]
        assert dispatcher.free >= 0
        assert not dispatcher.queue or dispatcher.queue[0].slots > dispatcher.free
    assert len(started) == len(set(started)), "a job was started twice"
    assert len(started) > 5


def test_a_job_that_ends_now_is_not_forgotten_if_the_clock_goes_back() -> None:
    """Its end could not be told, and the dispatcher would end with a job that it does not know."""
    dispatcher = submitted(*[4] * (ENDED_MAX + 1))
    for number in range(1, ENDED_MAX + 1):
        dispatcher.handle(CancelRequested(1_000, str(number)))
    dispatcher.handle(JobEnded(5, "0", JobStatus.FINISHED))
    effects = dispatcher.handle(ProcessEnded(5, "0"))
    assert effects == [Drop("1")]
    assert dispatcher.jobs["0"].phase is Phase.ENDED


def test_a_job_that_has_ended_is_told_when_that_is_stored() -> None:
    """It would remove what says so before anybody else knows, and be begun once more; or stay for nothing."""
    dispatcher = submitted(1)
    assert dispatcher.handle(JobEnded(9, "0", JobStatus.FINISHED)) == [Record("0"), EndRecorded("0")]


def test_one_that_was_started_may_have_begun() -> None:
    """A dispatcher that was killed before it had heard of that would leave a job that is begun twice."""
    before = [DispatchedJob("a", "started", 1, 1, Phase.STARTING, started_ms=2), DispatchedJob("b", "queued", 1, 2)]
    effects = Dispatcher(4, before).start(9)
    assert [effect for effect in effects if isinstance(effect, StartProcess)] == [
        StartProcess("a", resumes="a"),
        StartProcess("b", resumes=""),
    ]
