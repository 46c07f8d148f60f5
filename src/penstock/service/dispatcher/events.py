"""The events and effects of a dispatcher."""

from __future__ import annotations

import msgspec

from penstock.common.job_status import JobStatus
from penstock.engine.rpc.keys import ControlAddress
from penstock.service.cluster.rest_address import RestAddress


class Event(msgspec.Struct, frozen=True, tag=True):
    """An event. `at_ms`: when it happened."""

    at_ms: int


class Submitted(Event, frozen=True):
    """A client has submitted a job, which is stored. `id`: of the submission."""

    id: str
    name: str
    slots: int


class Began(Event, frozen=True):
    """The process of a job reports the job's id. `rest`: its REST address."""

    id: str
    job_id: str
    rest: RestAddress | None


class AcceptsCommands(Event, frozen=True):
    """A job accepts commands at this address."""

    id: str
    control: ControlAddress


class SlotsWanted(Event, frozen=True):
    """A job wants to hold this many slots in all, more or fewer than before. Answered by SlotsAnswer."""

    id: str
    slots: int


class JobEnded(Event, frozen=True):
    """A job's process reports its end, and exits next. `kind`, `error`: of the failure, if the job failed."""

    id: str
    status: JobStatus
    kind: str = ""
    error: str = ""


class JobAboutToEnd(Event, frozen=True):
    """A job is about to end: sent before its process archives it, in case a new dispatcher takes over meanwhile."""

    id: str
    status: JobStatus
    kind: str = ""
    error: str = ""


class ProcessEnded(Event, frozen=True):
    """The process of a job is gone. `how`: in words, for a process that was killed or crashed."""

    id: str
    how: str = ""


class LeftoversStopped(Event, frozen=True):
    """Spark no longer runs anything of a job whose process is gone."""

    id: str


class CancelRequested(Event, frozen=True):
    """A user has canceled a job."""

    id: str


class SlotsCounted(Event, frozen=True):
    """The number of all slots."""

    slots: int


class SlotsIdle(Event, frozen=True):
    """This many slots have been idle for long: they can be released to Spark."""

    slots: int


class Effect(msgspec.Struct, frozen=True, tag=True):
    """An effect on a submission."""

    id: str


class StartProcess(Effect, frozen=True):
    """Start the process of a job. `resumes`: the id of the job that it resumes; empty: a new job."""

    resumes: str = ""


class SlotsAnswer(Effect, frozen=True):
    """Answer a request for slots, with the number of slots that are free beyond those that the job holds."""

    granted: bool
    free: int


class EndRecorded(Effect, frozen=True):
    """Tell a job that its end is stored: it need not keep its own record for a later dispatcher."""


class Leads(Effect, frozen=True):
    """Tell a job that its dispatcher leads until `until_ms`, confirmed after `asked_ms`, by `steady_ms`."""

    until_ms: int
    asked_ms: int


class CancelJob(Effect, frozen=True):
    """Ask a job to end."""


class StopLeftovers(Effect, frozen=True):
    """Stop what Spark still runs of a job whose process is gone, and report when nothing is left."""

    job_id: str


class Record(Effect, frozen=True):
    """Store the state of a job."""


class Drop(Effect, frozen=True):
    """Forget a job that ended long ago."""


class ReleaseSlots(Effect, frozen=True):
    """Release this many slots to Spark. Belongs to no submission: its id is empty."""

    slots: int
