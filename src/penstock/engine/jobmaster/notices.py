"""Decisions of a job master that a person wants to read about. The host logs them; the job does not depend on it."""

from __future__ import annotations

import msgspec

from penstock.engine.jobmaster.autoscaling.decision import ScalingDecision
from penstock.engine.plan.job_graph import JobGraph


class RestartScheduled(msgspec.Struct, frozen=True):
    """Regions have failed and are restarted together. `restart`: the number of this restart, from 1.

    `waits`: it is no failure of the job's, which waits for slots and tries again.
    """

    error: BaseException | None
    restart: int
    delay_ms: int
    now_ms: int
    waits: bool = False


class RestartJoined(msgspec.Struct, frozen=True):
    """A further region has failed, and is restarted with those that wait already."""

    error: BaseException | None


class FailedToo(msgspec.Struct, frozen=True):
    """A further region has failed in the same moment as the one of which another notice, or the end, tells."""

    error: BaseException | None


class FellBack(msgspec.Struct, frozen=True):
    """The newest checkpoint is damaged: the job is restored from the one before."""

    error: BaseException | None


class EndFailed(msgspec.Struct, frozen=True):
    """The job has stopped with a savepoint, but its tasks failed while they were closed."""

    error: BaseException | None


class Stopping(msgspec.Struct, frozen=True):
    """The savepoint with which the job stops is stored. What it has prepared is committed, which may take any time."""

    savepoint: str


class EnumeratorNotClosed(msgspec.Struct, frozen=True):
    """A split enumerator of a source has raised when it was closed."""

    error: BaseException


class Rescaling(msgspec.Struct, frozen=True):
    """Regions are closed, to be started again with the parallelism of another plan."""

    before: JobGraph
    after: JobGraph


class RescaleFailed(msgspec.Struct, frozen=True):
    """The job failed before all of it ran with its new parallelism: it goes back to the one before."""

    error: BaseException


class Updated(msgspec.Struct, frozen=True):
    """Operators of a running job have new functions, from the barrier of a checkpoint on."""

    operators: list[str]
    """Their names."""
    checkpoint_id: int


class Autoscaled(msgspec.Struct, frozen=True):
    """The autoscaler has decided. `done`: the job is rescaled by it; else it is only said, and `why` not done."""

    decision: ScalingDecision
    done: bool
    why: str = ""


JobNotice = (
    RestartScheduled
    | RestartJoined
    | FailedToo
    | FellBack
    | EndFailed
    | EnumeratorNotClosed
    | Stopping
    | Rescaling
    | RescaleFailed
    | Updated
    | Autoscaled
)
