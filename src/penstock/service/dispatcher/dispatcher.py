"""Which of the submitted jobs run, by the slots that there are: a state machine without I/O.

    phase      event                            next       effects
    -          submitted                        queued     record; (*)
    queued     enough slots are free, and it    starting   start its process, which holds the slots from now on
               has waited longest
    queued     cancel requested                 ended      record: canceled; (*)
    starting,  its process knows the job's id,  running    record
    running    or where it is served
    running    slots wanted, more than free     running    answer: refused
    running    slots wanted, else               running    answer: granted; (*)
    starting,  cancel requested                 same       record; ask the job to end, once
    running
    starting,  the job is about to end          same       record: how, for the next dispatcher
    running
    starting,  the job has ended                ending     record: how; tell the job that it is recorded
    running
    starting,  its process is gone              ending     record: how it was about to end, else failed; stop what is
    running                                                left of it in Spark
    ending     its process is gone              ended      (*)
    ending     nothing is left of it in Spark   ended      (*)

    resumed    it was about to end              ended      record
    queued     starts, and a cancel was         starting   ask it to end, too
               requested

    any        slots are spare, and as many free    same       give them back
               while nobody waits

    (*) its slots are free: who has waited longest is looked at again.

The queue is strict: a job that needs many slots is not overtaken by small ones for ever. Each job has a process of its
own, so what one does never touches another. Source: Flink's Dispatcher, and its session mode.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from enum import Enum, auto

from penstock.common.job_status import JobStatus
from penstock.engine.rpc.keys import ControlAddress
from penstock.service.cluster.rest_address import RestAddress
from penstock.service.dispatcher.events import (
    Began,
    CancelJob,
    CancelRequested,
    Drop,
    Effect,
    EndRecorded,
    Event,
    JobEnded,
    JobEnds,
    LeftoversGone,
    Listens,
    ProcessEnded,
    Record,
    ReturnSlots,
    SlotsAnswer,
    SlotsCounted,
    SlotsSpare,
    SlotsWanted,
    StartProcess,
    StopLeftovers,
    Submitted,
)

ENDED_MOST = 100
"""Of jobs that have ended, how many are kept."""


class Phase(Enum):
    """Where a submitted job is."""

    QUEUED = auto()
    STARTING = auto()
    RUNNING = auto()
    ENDING = auto()
    """The job has ended; its process, or what it has left in Spark, not yet."""
    ENDED = auto()


@dataclasses.dataclass
class DispatchedJob:
    """One job, from its submission on."""

    id: str
    """Of the submission. The job has it as well, unless it takes over another one: `-s latest`."""
    name: str
    slots: int
    """How many it holds, or waits for."""
    submitted_ms: int
    phase: Phase = Phase.QUEUED
    job_id: str = ""
    """Empty until it is known."""
    rest: RestAddress | None = None
    control: ControlAddress | None = None
    started_ms: int | None = None
    ended_ms: int | None = None
    status: JobStatus | None = None
    """How it has ended; None: it has not."""
    kind: str = ""
    error: str = ""
    """Of its failure."""
    cancel_ms: int | None = None
    """When a user has asked for its end: its process is told, and that of the next dispatcher."""
    ends: JobEnds | None = None
    """How it ends, by the word of its process, which is not done with it yet."""

    @property
    def holds(self) -> int:
        """How many slots nobody else can have."""
        return self.slots if self.phase in (Phase.STARTING, Phase.RUNNING, Phase.ENDING) else 0


class Dispatcher:
    """`resumed`: jobs of an earlier dispatcher, in the order of their submission. What had not ended goes on."""

    def __init__(self, slots: int, resumed: Iterable[DispatchedJob] = ()) -> None:
        self.slots = slots
        """How many there are in all."""
        self.jobs: dict[str, DispatchedJob] = {}
        """By id of the submission, oldest first."""
        self._ended_meanwhile: list[str] = []
        for job in resumed:
            job = dataclasses.replace(job, rest=None, control=None)
            if job.status is None and job.ends is not None:
                # Its end was seen, by REST: it does not go on.
                self._end(job, job.ends.status, job.ends.at_ms, job.ends.kind, job.ends.error)
                self._ended_meanwhile.append(job.id)
            job.phase = Phase.QUEUED if job.status is None else Phase.ENDED
            self.jobs[job.id] = job

    @property
    def free(self) -> int:
        """How many slots nobody holds. Fewer than none: executors were lost."""
        return self.slots - sum(job.holds for job in self.jobs.values())

    @property
    def wanted(self) -> int:
        """How many there would have to be for all jobs to run."""
        return sum(job.slots for job in self.jobs.values() if job.phase is not Phase.ENDED)

    @property
    def queue(self) -> list[DispatchedJob]:
        """Who waits for slots, in the order in which they will have them."""
        return [job for job in self.jobs.values() if job.phase is Phase.QUEUED]

    def start(self, at_ms: int) -> list[Effect]:
        """Begin, with what an earlier dispatcher has left."""
        return [*map(Record, self._ended_meanwhile), *self._grant(at_ms)]

    def handle(self, event: Event) -> list[Effect]:
        """What is to be done now. An event of a submission that is not known does nothing."""
        if isinstance(event, Submitted):
            self.jobs[event.id] = DispatchedJob(event.id, event.name, event.slots, event.at_ms)
            return [Record(event.id), *self._grant(event.at_ms)]
        if isinstance(event, SlotsCounted):
            self.slots = event.slots
            return self._grant(event.at_ms)
        if isinstance(event, SlotsSpare):
            return self._returned(event.slots)
        job = self.jobs.get(event.id)  # type: ignore[attr-defined]
        return [] if job is None else self._of_job(job, event)

    def _of_job(self, job: DispatchedJob, event: Event) -> list[Effect]:
        runs = job.phase in (Phase.STARTING, Phase.RUNNING)
        if isinstance(event, Began) and runs:
            job.job_id, job.rest, job.phase = event.job_id, event.rest, Phase.RUNNING
            return [Record(job.id)]
        if isinstance(event, Listens) and runs:
            job.control = event.control
            return []
        if isinstance(event, SlotsWanted) and runs:
            return self._wanted(job, event)
        if isinstance(event, JobEnds) and runs:
            job.ends = event
            return [Record(job.id)]
        if isinstance(event, JobEnded) and runs:
            self._end(job, event.status, event.at_ms, event.kind, event.error)
            job.phase = Phase.ENDING
            return [Record(job.id), EndRecorded(job.id)]
        if isinstance(event, CancelRequested):
            return self._cancel(job, event.at_ms)
        if isinstance(event, ProcessEnded):
            return self._gone(job, event)
        if isinstance(event, LeftoversGone) and job.phase is Phase.ENDING:
            return self._freed(job, event.at_ms)
        return []

    def _returned(self, slots: int) -> list[Effect]:
        # None that a job was just given, and has no task on yet.
        if not 0 < slots <= self.free or self.queue:
            return []
        self.slots -= slots
        return [ReturnSlots("", slots)]

    def _wanted(self, job: DispatchedJob, event: SlotsWanted) -> list[Effect]:
        granted = event.slots <= job.slots + max(0, self.free)
        if granted:
            job.slots = event.slots
        # Before others are let in: it is what the job could have more.
        answer = SlotsAnswer(job.id, granted, max(0, self.free))
        return [answer, *([Record(job.id)] if granted else []), *self._grant(event.at_ms)]

    def _cancel(self, job: DispatchedJob, at_ms: int) -> list[Effect]:
        if job.phase is Phase.QUEUED:
            self._end(job, JobStatus.CANCELED, at_ms)
            return [Record(job.id), *self._freed(job, at_ms)]
        if job.phase not in (Phase.STARTING, Phase.RUNNING) or job.cancel_ms is not None:
            # One that is stopped would not read what it is sent again and again.
            return []
        job.cancel_ms = at_ms
        # Its process takes it at any time, also before the job has begun.
        return [Record(job.id), CancelJob(job.id)]

    def _gone(self, job: DispatchedJob, event: ProcessEnded) -> list[Effect]:
        if job.phase is Phase.ENDING:
            return self._freed(job, event.at_ms)
        if job.phase not in (Phase.STARTING, Phase.RUNNING):
            return []
        if job.ends is not None:
            self._end(job, job.ends.status, event.at_ms, job.ends.kind, job.ends.error)
        else:
            self._end(job, JobStatus.FAILED, event.at_ms, "TaskLostError", event.how)
        job.phase = Phase.ENDING
        return [Record(job.id), StopLeftovers(job.id, job.job_id)]

    @staticmethod
    def _end(job: DispatchedJob, status: JobStatus, at_ms: int, kind: str = "", error: str = "") -> None:
        job.status, job.ended_ms, job.kind, job.error, job.ends = status, at_ms, kind, error, None

    def _freed(self, job: DispatchedJob, at_ms: int) -> list[Effect]:
        job.phase, job.rest, job.control = Phase.ENDED, None, None
        # Without this one: the clock may have gone back.
        others = [other for other in self.jobs.values() if other.phase is Phase.ENDED and other is not job]
        ended = sorted((other.ended_ms or 0, other.id) for other in others)
        old = [id for _, id in ended[: 1 - ENDED_MOST]]
        for id in old:
            del self.jobs[id]
        return [*(Drop(id) for id in old), *self._grant(at_ms)]

    def _grant(self, at_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        for job in self.queue:
            if job.slots > self.free:
                break
            # One that was started may have begun, also if it was not recorded under which id.
            resumes = job.job_id or ("" if job.started_ms is None else job.id)
            job.phase, job.started_ms = Phase.STARTING, at_ms
            effects += [Record(job.id), StartProcess(job.id, resumes)]
            if job.cancel_ms is not None:
                effects.append(CancelJob(job.id))
        return effects
