"""Define the phases of a region and of a job as tables: a step that is not in them is an error.

docs/internals/a-jobs-way.md draws them. The phases of an attempt are its JobStatus: attempt.py.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TypeVar


class RegionPhase(enum.Enum):
    """Phase of a region, in addition to the status of its attempt."""

    DEPLOYED = "its attempt starts, runs, or closes its tasks"
    STOPPING = "all its tasks are closed or abandoned: StopAttempt was emitted"
    GONE = "its query and its tasks have ended"
    ENDED = "the coordinator knows it and has discarded prepared output: the region is restarted, or the job ends"


class RegionStep(enum.Enum):
    """Transition of a region to its next phase."""

    TASKS_CLOSED = "all its tasks are closed or abandoned"
    QUERY_ENDED = "AttemptStopped"
    TASKS_ENDED = "no region that is down has a task, and the storage is settled"
    NEXT_ATTEMPT = "the delay of the restart has passed, and the storage is settled"


REGION = {
    (RegionPhase.DEPLOYED, RegionStep.TASKS_CLOSED): RegionPhase.STOPPING,
    (RegionPhase.STOPPING, RegionStep.QUERY_ENDED): RegionPhase.GONE,
    (RegionPhase.GONE, RegionStep.TASKS_ENDED): RegionPhase.ENDED,
    (RegionPhase.ENDED, RegionStep.NEXT_ATTEMPT): RegionPhase.DEPLOYED,
}


class JobPhase(enum.Enum):
    """Phase of a job, in addition to those of its regions."""

    EXECUTING = "its regions run or are restarted"
    CLOSING_RESULTS = "all regions have ended: CloseResults was emitted"
    SETTLING = "results are closed; checkpoints are dropped or retained, and the storage is not idle yet"
    ENDED = "Finish was emitted"


class JobStep(enum.Enum):
    """Transition of a job to its next phase."""

    REGIONS_ENDED = "all regions have ended, and no region is restarted"
    RESULTS_CLOSED = "ResultsClosed"
    STORAGE_IDLE = "the storage has answered everything"


JOB = {
    (JobPhase.EXECUTING, JobStep.REGIONS_ENDED): JobPhase.CLOSING_RESULTS,
    (JobPhase.CLOSING_RESULTS, JobStep.RESULTS_CLOSED): JobPhase.SETTLING,
    (JobPhase.SETTLING, JobStep.STORAGE_IDLE): JobPhase.ENDED,
}

Phase = TypeVar("Phase", bound=enum.Enum)
Step = TypeVar("Step", bound=enum.Enum)


def after(table: Mapping[tuple[Phase, Step], Phase], phase: Phase, step: Step) -> Phase:
    """Return the phase after a step. Raises AssertionError if the step cannot happen in this phase: a bug."""
    assert (phase, step) in table, f"{step.name} ({step.value}) can't happen while {phase.name}: {phase.value}"
    return table[phase, step]
