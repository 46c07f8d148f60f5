"""What a job that fails says of its checkpoints, which stay."""

from __future__ import annotations

import dataclasses

import pytest
from tests.unit.engine.jobmaster.played_job import SETTINGS, Job

from penstock.common.configuration.choices import ExternalizedCheckpointRetention
from penstock.common.errors import DamagedCheckpointError, TaskLostError
from penstock.engine.jobmaster.effects import CloseResults, JobEffect
from penstock.engine.jobmaster.events import JobEvent


@pytest.mark.parametrize("is_named", [True, False])
@pytest.mark.parametrize("retention", ExternalizedCheckpointRetention)
def test_a_job_that_fails_says_where_its_checkpoints_are(
    retention: ExternalizedCheckpointRetention, is_named: bool
) -> None:
    """A user would not know from what the job can go on, or whether there is anything left."""
    settings = dataclasses.replace(SETTINGS, checkpoint_retention=retention, has_checkpoint_directory=is_named)
    job = Job(settings, attempts=0, directory="/state/id").runs()
    job.takes_checkpoint()
    job.fails(TaskLostError("a worker"))
    assert job.finish is not None
    text = str(job.finish.error)
    assert text.startswith("a worker\n") and "/state/id/chk-1" in text
    assert ("penstock run -s latest" in text) is is_named
    assert ("penstock run -s /state/id/chk-1" in text) is not is_named


def test_an_error_without_a_text_of_penstocks_has_the_place_as_a_note() -> None:
    """An error of another library would end the job without a word on its checkpoints."""
    job = Job(SETTINGS, attempts=0, directory="/state/id").runs()
    job.takes_checkpoint()
    job.fails(OSError("the disk is full"))
    assert job.finish is not None and job.finish.error is not None
    assert any("/state/id/chk-1" in note for note in job.finish.error.__notes__)


def test_a_damaged_checkpoint_is_not_recommended() -> None:
    """A user would start the job again from what has just failed it, and end with the same error."""
    job = Job(SETTINGS, attempts=0, directory="/state/id").runs()
    job.takes_checkpoint()
    job.fails(DamagedCheckpointError("the snapshot file chk-1/x is missing"))
    assert job.finish is not None
    text = str(job.finish.error)
    assert "the newest is /state/id/chk-1. It can be used once" in text, text
    assert "-s PATH" in text and "without -s" in text


def test_who_reads_the_results_of_a_job_is_told_before_they_are_closed() -> None:
    """A program that iterates over results would end with an error that does not name the checkpoints."""
    job = Job(SETTINGS, attempts=0, directory="/state/id").runs()
    job.takes_checkpoint()
    told: list[str] = []

    def take(event: JobEvent, now_ms: int) -> list[JobEffect]:
        effects = handle(event, now_ms)
        told.extend(str(effect.error) for effect in effects if isinstance(effect, CloseResults))
        return effects

    handle, job.master.handle = job.master.handle, take  # type: ignore[method-assign]
    job.fails(TaskLostError("a worker"))
    assert len(told) == 1 and told[0].count("Its checkpoints are kept") == 1
    assert job.finish is not None and str(job.finish.error) == told[0]
