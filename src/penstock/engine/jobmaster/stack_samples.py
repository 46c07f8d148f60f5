"""Flame graphs and thread dumps: where threads of tasks were found, put together from the answers of their slots.

A request is over when all have answered, when the attempt does not run any more, or when the time is over in which
twice as many samples could have been taken: what has come by then is the answer.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from penstock.common.errors import JobError
from penstock.common.job_status import JobStatus
from penstock.common.time.earliest import earliest
from penstock.engine.jobmaster.controlled_job import ControlledJob
from penstock.engine.jobmaster.effects import JobEffect, StacksReply
from penstock.engine.jobmaster.events import StacksRequested, StateReadRequested
from penstock.engine.jobmaster.region import Region
from penstock.engine.jobmaster.state_reads import StateReads
from penstock.engine.runtime.task.events import SampleStacks, StacksSampled

_GRACE_MS = 5_000


class _OpenSampling:
    """A request that is not answered yet. `until_ms`: when it is given up."""

    def __init__(self, request: int, region: Region, subtasks: range, until_ms: int) -> None:
        self.request = request
        self.region = region
        self.attempt = region.attempt
        self.waits_for = set(subtasks)
        self.until_ms = until_ms
        self.found: list[StacksSampled] = []

    def is_over(self, now_ms: int) -> bool:
        """Whether nothing more is waited for."""
        runs = self.region.attempt is self.attempt and self.attempt.status is JobStatus.RUNNING
        return not self.waits_for or not runs or now_ms >= self.until_ms


class StackSamples:
    """Of one job. `emit` takes its effects, in order."""

    def __init__(self, job: ControlledJob, emit: Callable[[JobEffect], None]) -> None:
        self._job = job
        self._emit = emit
        self._open: dict[int, _OpenSampling] = {}
        """By the number of the question."""
        self._numbers = itertools.count(1)

    def requested(self, event: StacksRequested) -> None:
        """A user asks."""
        region = self._job.regions.of_vertex(event.vertex)
        attempt = region.attempt
        if attempt.status is not JobStatus.RUNNING:
            error = JobError(f"tasks of {self._job.name} can't be asked now: they are {attempt.status.name}")
            self._emit(StacksReply(event.request, error=error))
            return
        subtasks = range(attempt.graph.vertices[event.vertex].parallelism)
        all_threads = event.threads_of is not None
        if event.threads_of is not None:
            # None, if the job has fewer by now.
            subtasks = subtasks[event.threads_of : event.threads_of + 1]
        until_ms = self._job.now_ms + 2 * event.samples * event.delay_ms + _GRACE_MS
        number = next(self._numbers)
        self._open[number] = _OpenSampling(event.request, region, subtasks, until_ms)
        question = SampleStacks(number, event.samples, event.delay_ms, event.depth, all_threads)
        for subtask in subtasks:
            attempt.send(event.vertex, subtask, question)

    def sampled(self, report: StacksSampled) -> None:
        """A slot has answered. What is not waited for any more is dropped."""
        sampling = self._open.get(report.sample)
        if sampling is not None and report.subtask in sampling.waits_for:
            sampling.waits_for.remove(report.subtask)
            sampling.found.append(report)

    def go_on(self) -> None:
        """Something happened: answer what is over."""
        for number, sampling in list(self._open.items()):
            if sampling.is_over(self._job.now_ms):
                del self._open[number]
                self._emit(StacksReply(sampling.request, sampling.found))

    def wake_at_ms(self) -> int | None:
        """When the first of those that are open is given up."""
        return min((sampling.until_ms for sampling in self._open.values()), default=None)


# What users ask of the tasks of a running job. Nothing of it is recorded, and nothing else of the job waits for it.


class Questions:
    """Of one job. `emit` takes its effects, in order."""

    def __init__(self, job: ControlledJob, emit: Callable[[JobEffect], None]) -> None:
        self.reads = StateReads(job, emit)
        self.stacks = StackSamples(job, emit)

    def asked(self, event: StateReadRequested | StacksRequested) -> None:
        """A user asks."""
        if isinstance(event, StateReadRequested):
            self.reads.requested(event)
        else:
            self.stacks.requested(event)

    def go_on(self) -> None:
        """Something happened: what can't be answered any more is answered with the reason."""
        self.reads.go_on()
        self.stacks.go_on()

    def wake_at_ms(self) -> int | None:
        """When the first of those that are open is given up."""
        return earliest(self.reads.wake_at_ms(), self.stacks.wake_at_ms())
