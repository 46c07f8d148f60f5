"""What happens to a dispatcher, and what it wants done: its vocabulary."""

from __future__ import annotations

import msgspec

from penstock.common.job_status import JobStatus
from penstock.engine.rpc.keys import ControlAddress
from penstock.service.cluster.rest_address import RestAddress


class Event(msgspec.Struct, frozen=True, tag=True):
    """Something that has happened. `at_ms`: when."""

    at_ms: int


class Submitted(Event, frozen=True):
    """A client has sent a job, which is stored. `id`: of the submission."""

    id: str
    name: str
    slots: int


class Began(Event, frozen=True):
    """The process of a job knows under which id the job runs. `rest`: where it is served."""

    id: str
    job_id: str
    rest: RestAddress | None


class Listens(Event, frozen=True):
    """A job takes commands at this address."""

    id: str
    control: ControlAddress


class SlotsWanted(Event, frozen=True):
    """A job wants to hold so many slots in all from now on, more or fewer than before. Answered by SlotsAnswer."""

    id: str
    slots: int


class JobEnded(Event, frozen=True):
    """A job has ended, by the word of its process, which ends next. `kind`, `error`: of the failure, if it failed."""

    id: str
    status: JobStatus
    kind: str = ""
    error: str = ""


class JobEnds(Event, frozen=True):
    """The same, before its process has gathered what is to be known of it: for who would go on with it otherwise."""

    id: str
    status: JobStatus
    kind: str = ""
    error: str = ""


class ProcessEnded(Event, frozen=True):
    """The process of a job is gone. `how`: in words, for one that was killed or has crashed."""

    id: str
    how: str = ""


class LeftoversGone(Event, frozen=True):
    """Spark runs nothing of a job any more whose process is gone."""

    id: str


class CancelRequested(Event, frozen=True):
    """A user wants a job to end."""

    id: str


class SlotsCounted(Event, frozen=True):
    """How many slots there are in all."""

    slots: int


class SlotsSpare(Event, frozen=True):
    """So many slots have been used by no task for long: they can be given back to Spark."""

    slots: int


class Effect(msgspec.Struct, frozen=True, tag=True):
    """Something that is to be done for a submission."""

    id: str


class StartProcess(Effect, frozen=True):
    """Start the process of a job. `resumes`: the id of the job that it goes on with; empty: it begins."""

    resumes: str = ""


class SlotsAnswer(Effect, frozen=True):
    """Tell a job whether it holds what it wanted, and how many slots are free beside what it holds."""

    granted: bool
    free: int


class EndRecorded(Effect, frozen=True):
    """Tell a job that has ended that this is stored: nobody else has to be told, so it need keep nothing for that."""


class Leads(Effect, frozen=True):
    """Tell a job that its dispatcher leads the cluster until `until_ms`, confirmed after `asked_ms`, by `steady_ms`."""

    until_ms: int
    asked_ms: int


class CancelJob(Effect, frozen=True):
    """Ask a job to end."""


class StopLeftovers(Effect, frozen=True):
    """Stop what Spark still runs of a job whose process is gone, and say when it is over."""

    job_id: str


class Record(Effect, frozen=True):
    """Store how it is with a job now."""


class Drop(Effect, frozen=True):
    """Forget a job that ended long ago."""


class ReturnSlots(Effect, frozen=True):
    """Give so many slots back to Spark. It is of no submission: its id is empty."""

    slots: int
