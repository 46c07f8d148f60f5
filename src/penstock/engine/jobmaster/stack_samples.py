"""Sample stacks of tasks for flame graphs and thread dumps, and merge the answers of their slots.

A request ends when all slots have answered, when the attempt no longer runs, or after the time of twice as many
samples. Its reply holds the answers that arrived until then.
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
    """A request without a reply yet. `until_ms`: its deadline."""

    def __init__(self, request: int, region: Region, subtasks: range, until_ms: int) -> None:
        self.request = request
        self.region = region
        self.attempt = region.attempt
        self.waits_for = set(subtasks)
        self.until_ms = until_ms
        self.found: list[StacksSampled] = []

    def has_ended(self, now_ms: int) -> bool:
        """Return whether to reply now."""
        runs = self.region.attempt is self.attempt and self.attempt.status is JobStatus.RUNNING
        return not self.waits_for or not runs or now_ms >= self.until_ms


class StackSamples:
    """Handle requests for samples in one job. `emit` receives its effects, in order."""

    def __init__(self, job: ControlledJob, emit: Callable[[JobEffect], None]) -> None:
        self._job = job
        self._emit = emit
        self._open: dict[int, _OpenSampling] = {}
        """Requests without a reply, by the number of the message to the tasks."""
        self._numbers = itertools.count(1)

    def requested(self, event: StacksRequested) -> None:
        """Handle a user's request."""
        region = self._job.regions.of_vertex(event.vertex)
        attempt = region.attempt
        if attempt.status is not JobStatus.RUNNING:
            error = JobError(f"cannot sample tasks of {self._job.name}: they are {attempt.status.name}, not RUNNING")
            self._emit(StacksReply(event.request, error=error))
            return
        subtasks = range(attempt.graph.vertices[event.vertex].parallelism)
        all_threads = event.threads_of is not None
        if event.threads_of is not None:
            # An empty range if the job has fewer subtasks by now.
            subtasks = subtasks[event.threads_of : event.threads_of + 1]
        until_ms = self._job.now_ms + 2 * event.samples * event.delay_ms + _GRACE_MS
        number = next(self._numbers)
        self._open[number] = _OpenSampling(event.request, region, subtasks, until_ms)
        question = SampleStacks(
            number, samples=event.samples, delay_ms=event.delay_ms, depth=event.depth, all_threads=all_threads
        )
        for subtask in subtasks:
            attempt.send(event.vertex, subtask, question)

    def sampled(self, report: StacksSampled) -> None:
        """Add the answer of a slot. Drop an answer that no request waits for."""
        sampling = self._open.get(report.sample)
        if sampling is not None and report.subtask in sampling.waits_for:
            sampling.waits_for.remove(report.subtask)
            sampling.found.append(report)

    def advance(self) -> None:
        """Reply to requests that have ended."""
        for number, sampling in list(self._open.items()):
            if sampling.has_ended(self._job.now_ms):
                del self._open[number]
                self._emit(StacksReply(sampling.request, sampling.found))

    def wake_at_ms(self) -> int | None:
        """Return the first deadline of the open requests, or None."""
        return min((sampling.until_ms for sampling in self._open.values()), default=None)


class TaskQueries:
    """Handle users' queries to the tasks of a running job. They are not recorded, and the job does not wait for them.

    `emit` receives the effects, in order.
    """

    def __init__(self, job: ControlledJob, emit: Callable[[JobEffect], None]) -> None:
        self.reads = StateReads(job, emit)
        self.stacks = StackSamples(job, emit)

    def requested(self, event: StateReadRequested | StacksRequested) -> None:
        """Handle a user's request."""
        if isinstance(event, StateReadRequested):
            self.reads.requested(event)
        else:
            self.stacks.requested(event)

    def advance(self) -> None:
        """Reply to requests that have ended."""
        self.reads.advance()
        self.stacks.advance()

    def wake_at_ms(self) -> int | None:
        """Return the first deadline of the open requests, or None."""
        return earliest(self.reads.wake_at_ms(), self.stacks.wake_at_ms())
