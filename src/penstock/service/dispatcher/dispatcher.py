"""Decide which of the submitted jobs run, given the slots: a state machine without I/O.

    phase      event                            next       effects
    -          submitted                        queued     record; (*)
    queued     enough slots are free, and it    starting   start its process, which holds the slots from now on
               has waited longest
    queued     cancel requested                 ended      record: canceled; (*)
    starting,  its process knows the job's id,  running    record
    running    or its REST address
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

    any        slots are idle, and no job       same       release them
               waits for them

    (*) its slots are free: check again whether the job that has waited longest can start.

The queue is strict: small jobs do not overtake a job that needs many slots, which would otherwise never start. Each job
has a process of its own, so jobs can't harm each other. Source: Flink's Dispatcher, and its session mode.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from enum import Enum, auto

from penstock.common.job_status import JobStatus
from penstock.engine.rpc.keys import ControlAddress
from penstock.service.cluster.rest_address import RestAddress
from penstock.service.dispatcher.events import (
    AcceptsCommands,
    Began,
    CancelJob,
    CancelRequested,
    Drop,
    Effect,
    EndRecorded,
    Event,
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

ENDED_MAX = 100
"""How many ended jobs are kept."""


class Phase(Enum):
    """The phase of a submitted job."""

    QUEUED = auto()
    STARTING = auto()
    RUNNING = auto()
    ENDING = auto()
    """The job has ended, but its process, or what it has left in Spark, has not."""
    ENDED = auto()


@dataclasses.dataclass
class DispatchedJob:
    """A job, from its submission on."""

    id: str
    """The id of the submission. It is also the job's id, unless the job takes over another one: `-s latest`."""
    name: str
    slots: int
    """How many slots the job holds, or waits for."""
    submitted_ms: int
    phase: Phase = Phase.QUEUED
    job_id: str = ""
    """The job's id; empty until it is known."""
    rest: RestAddress | None = None
    control: ControlAddress | None = None
    started_ms: int | None = None
    ended_ms: int | None = None
    status: JobStatus | None = None
    """The final status; None: the job has not ended."""
    kind: str = ""
    error: str = ""
    """The error of a failed job."""
    cancel_ms: int | None = None
    """Whether a user has canceled the job: its process gets a request to end, and so does that of the next dispatcher.
    """
    ends: JobAboutToEnd | None = None
    """The final status that the job's process has announced before it ends."""

    @property
    def holds(self) -> int:
        """How many slots the job keeps from others."""
        return self.slots if self.phase in (Phase.STARTING, Phase.RUNNING, Phase.ENDING) else 0


class Dispatcher:
    """`resumed`: jobs of an earlier dispatcher, in the order of their submission. Unfinished ones are resumed."""

    def __init__(self, slots: int, resumed: Iterable[DispatchedJob] = ()) -> None:
        self.slots = slots
        """The number of all slots."""
        self.jobs: dict[str, DispatchedJob] = {}
        """The jobs by id of their submission, oldest first."""
        self._ended_meanwhile: list[str] = []
        for job in resumed:
            job = dataclasses.replace(job, rest=None, control=None)
            if job.status is None and job.ends is not None:
                # REST has already shown its end, so it is not resumed.
                self._end(job, status=job.ends.status, at_ms=job.ends.at_ms, kind=job.ends.kind, error=job.ends.error)
                self._ended_meanwhile.append(job.id)
            job.phase = Phase.QUEUED if job.status is None else Phase.ENDED
            self.jobs[job.id] = job

    @property
    def free(self) -> int:
        """The number of free slots. Negative if executors were lost."""
        return self.slots - sum(job.holds for job in self.jobs.values())

    @property
    def wanted(self) -> int:
        """The number of slots that all jobs together need."""
        return sum(job.slots for job in self.jobs.values() if job.phase is not Phase.ENDED)

    @property
    def queue(self) -> list[DispatchedJob]:
        """Return the jobs that wait for slots, in the order in which they will get them."""
        return [job for job in self.jobs.values() if job.phase is Phase.QUEUED]

    def start(self, at_ms: int) -> list[Effect]:
        """Start with the jobs that an earlier dispatcher has left."""
        return [*map(Record, self._ended_meanwhile), *self._grant(at_ms)]

    def handle(self, event: Event) -> list[Effect]:
        """Handle an event, and return the effects. Ignores events of unknown submissions."""
        if isinstance(event, Submitted):
            self.jobs[event.id] = DispatchedJob(event.id, event.name, event.slots, event.at_ms)
            return [Record(event.id), *self._grant(event.at_ms)]
        if isinstance(event, SlotsCounted):
            self.slots = event.slots
            return self._grant(event.at_ms)
        if isinstance(event, SlotsIdle):
            return self._returned(event.slots)
        job = self.jobs.get(event.id)  # type: ignore[attr-defined]
        return [] if job is None else self._of_job(job, event)

    def _of_job(self, job: DispatchedJob, event: Event) -> list[Effect]:
        runs = job.phase in (Phase.STARTING, Phase.RUNNING)
        if isinstance(event, Began) and runs:
            job.job_id, job.rest, job.phase = event.job_id, event.rest, Phase.RUNNING
            return [Record(job.id)]
        if isinstance(event, AcceptsCommands) and runs:
            job.control = event.control
            return []
        if isinstance(event, SlotsWanted) and runs:
            return self._wanted(job, event)
        if isinstance(event, JobAboutToEnd) and runs:
            job.ends = event
            return [Record(job.id)]
        if isinstance(event, JobEnded) and runs:
            self._end(job, status=event.status, at_ms=event.at_ms, kind=event.kind, error=event.error)
            job.phase = Phase.ENDING
            return [Record(job.id), EndRecorded(job.id)]
        if isinstance(event, CancelRequested):
            return self._cancel(job, event.at_ms)
        if isinstance(event, ProcessEnded):
            return self._process_ended(job, event)
        if isinstance(event, LeftoversStopped) and job.phase is Phase.ENDING:
            return self._freed(job, event.at_ms)
        return []

    def _returned(self, slots: int) -> list[Effect]:
        # Not slots that a job has just been granted and does not use yet.
        if not 0 < slots <= self.free or self.queue:
            return []
        self.slots -= slots
        return [ReleaseSlots("", slots)]

    def _wanted(self, job: DispatchedJob, event: SlotsWanted) -> list[Effect]:
        granted = event.slots <= job.slots + max(0, self.free)
        if granted:
            job.slots = event.slots
        # Grant before starting other jobs: a running job takes precedence.
        answer = SlotsAnswer(job.id, granted, max(0, self.free))
        return [answer, *([Record(job.id)] if granted else []), *self._grant(event.at_ms)]

    def _cancel(self, job: DispatchedJob, at_ms: int) -> list[Effect]:
        if job.phase is Phase.QUEUED:
            self._end(job, JobStatus.CANCELED, at_ms)
            return [Record(job.id), *self._freed(job, at_ms)]
        if job.phase not in (Phase.STARTING, Phase.RUNNING) or job.cancel_ms is not None:
            # Once: a suspended process would not read repeated requests.
            return []
        job.cancel_ms = at_ms
        # Its process accepts the request at any time, even before the job has started.
        return [Record(job.id), CancelJob(job.id)]

    def _process_ended(self, job: DispatchedJob, event: ProcessEnded) -> list[Effect]:
        if job.phase is Phase.ENDING:
            return self._freed(job, event.at_ms)
        if job.phase not in (Phase.STARTING, Phase.RUNNING):
            return []
        if job.ends is not None:
            self._end(job, status=job.ends.status, at_ms=event.at_ms, kind=job.ends.kind, error=job.ends.error)
        else:
            self._end(job, status=JobStatus.FAILED, at_ms=event.at_ms, kind="TaskLostError", error=event.how)
        job.phase = Phase.ENDING
        return [Record(job.id), StopLeftovers(job.id, job.job_id)]

    @staticmethod
    def _end(job: DispatchedJob, status: JobStatus, at_ms: int, kind: str = "", error: str = "") -> None:
        job.status, job.ended_ms, job.kind, job.error, job.ends = status, at_ms, kind, error, None

    def _freed(self, job: DispatchedJob, at_ms: int) -> list[Effect]:
        job.phase, job.rest, job.control = Phase.ENDED, None, None
        # Not counting this job: the clock may have gone back.
        others = [other for other in self.jobs.values() if other.phase is Phase.ENDED and other is not job]
        ended = sorted((other.ended_ms or 0, other.id) for other in others)
        old = [id for _, id in ended[: 1 - ENDED_MAX]]
        for id in old:
            del self.jobs[id]
        return [*(Drop(id) for id in old), *self._grant(at_ms)]

    def _grant(self, at_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        for job in self.queue:
            if job.slots > self.free:
                break
            # A job that was started may have begun, even if its id was not recorded.
            resumes = job.job_id or ("" if job.started_ms is None else job.id)
            job.phase, job.started_ms = Phase.STARTING, at_ms
            effects += [Record(job.id), StartProcess(job.id, resumes)]
            if job.cancel_ms is not None:
                effects.append(CancelJob(job.id))
        return effects
