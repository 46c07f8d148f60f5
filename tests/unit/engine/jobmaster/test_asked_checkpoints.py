"""Checkpoints that a user asks for, beside those of the interval."""

from __future__ import annotations

import dataclasses

from tests.unit.engine.jobmaster.played_job import SETTINGS, Job
from tests.unit.engine.jobmaster.test_ending import declines, replies, triggered

from penstock.engine.jobmaster.effects import Reply
from penstock.engine.jobmaster.events import SavepointRequested
from penstock.engine.runtime.checkpoint_options import CheckpointOptions


def test_a_checkpoint_that_a_user_asks_for_is_one_of_the_job() -> None:
    """Whoever is about to restart a machine would wait for the interval, and records be read again from before."""
    job = Job().runs()
    asked = job.handle(SavepointRequested(5, CheckpointOptions(full=True)))
    assert triggered(asked)
    assert Reply(5, "1") in job.acknowledges(1) and job.completed == [1]
    job.handle(SavepointRequested(6, CheckpointOptions()))
    (answer,) = replies(declines(job, 2, "the disk is full"))
    assert "the checkpoint failed: " in str(answer.error)
    without = dataclasses.replace(SETTINGS, checkpoints=dataclasses.replace(SETTINGS.checkpoints, interval_ms=None))
    (answer,) = replies(Job(without).runs().handle(SavepointRequested(5, CheckpointOptions())))
    assert "takes no checkpoints: set execution.checkpointing.interval" in str(answer.error)
