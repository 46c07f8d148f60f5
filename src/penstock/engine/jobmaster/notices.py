"""Define notices of decisions of a JobMaster, which its host logs for users."""

from __future__ import annotations

import msgspec

from penstock.engine.jobmaster.autoscaling.decision import ScalingDecision
from penstock.engine.plan.job_graph import JobGraph


class RestartScheduled(msgspec.Struct, frozen=True):
    """Regions have failed and are restarted together. `restart`: the number of this restart, from 1.

    `waits_for_slots`: the job did not fail, but waits for slots and tries again.
    """

    error: BaseException | None
    restart: int
    delay_ms: int
    now_ms: int
    waits_for_slots: bool = False


class RestartJoined(msgspec.Struct, frozen=True):
    """Another region has failed, and is restarted together with those that already wait."""

    error: BaseException | None


class OtherRegionFailed(msgspec.Struct, frozen=True):
    """Another region failed at the same time as the one in the preceding notice or in the job's error."""

    error: BaseException | None


class FellBack(msgspec.Struct, frozen=True):
    """The newest checkpoint is damaged: the job is restored from the one before."""

    error: BaseException | None


class EndFailed(msgspec.Struct, frozen=True):
    """The job has stopped with a savepoint, but tasks failed while they closed."""

    error: BaseException | None


class Stopping(msgspec.Struct, frozen=True):
    """The savepoint of a stop is stored. Its output is being committed, which may take any time."""

    savepoint: str


class EnumeratorNotClosed(msgspec.Struct, frozen=True):
    """A split enumerator of a source raised an error when it was closed."""

    error: BaseException


class Rescaling(msgspec.Struct, frozen=True):
    """Regions are closed, to start again with the parallelism of another plan."""

    before: JobGraph
    after: JobGraph


class RescaleFailed(msgspec.Struct, frozen=True):
    """The job failed before all tasks ran with the new parallelism: it returns to the previous one."""

    error: BaseException


class Updated(msgspec.Struct, frozen=True):
    """Operators of a running job have new functions, starting at the barrier of a checkpoint."""

    operators: list[str]
    """Names of the operators."""
    checkpoint_id: int


class Autoscaled(msgspec.Struct, frozen=True):
    """A decision of the autoscaler. `done`: the job is rescaled accordingly; if not, `why` says the reason."""

    decision: ScalingDecision
    done: bool
    why: str = ""


JobNotice = (
    RestartScheduled
    | RestartJoined
    | OtherRegionFailed
    | FellBack
    | EndFailed
    | EnumeratorNotClosed
    | Stopping
    | Rescaling
    | RescaleFailed
    | Updated
    | Autoscaled
)
