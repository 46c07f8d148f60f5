"""Decide after failures which regions are restarted, when, and from which checkpoint, or that the job ends.

    a region fails    Its query is stopped, the others continue to run. It is restarted from the latest checkpoint.
    all regions fail  After a fault of the job itself; if the end has begun, since a drained or closed source cannot
                      continue alone; if the checkpoint is damaged, since all regions have to return to an older one; or
                      if the user has set jobmanager.execution.failover-strategy to full.

Regions that are down together are restarted together. When all their tasks are gone and the storage is idle, the
coordinator ends their tasks and the restart strategy decides once for all of them; after its delay all are deployed. A
region that fails in the meantime joins them. Source: Flink docs, "Task Failure Recovery", Failover Strategies.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from penstock.common.configuration.choices import FailoverStrategy
from penstock.common.errors import DamagedCheckpointError, FencedError, JobError
from penstock.common.job_status import JobStatus
from penstock.common.text.secrets import redacted_error
from penstock.engine.checkpoint.failure import duplicate_output
from penstock.engine.jobmaster.attempt import Attempt
from penstock.engine.jobmaster.closing import JobEnd
from penstock.engine.jobmaster.controlled_job import ControlledJob
from penstock.engine.jobmaster.effects import JobEffect, RestartResults
from penstock.engine.jobmaster.ending import JobEnding
from penstock.engine.jobmaster.notices import EndFailed, FellBack, OtherRegionFailed, RestartJoined, RestartScheduled
from penstock.engine.jobmaster.recovery import Recovery
from penstock.engine.jobmaster.region import Region
from penstock.engine.jobmaster.restarts import RestartDecision
from penstock.engine.jobmaster.results.collected import CollectedOnce, collected_twice_error
from penstock.engine.plan.job_graph import JobGraph


class Failover:
    """Restart the regions of one job. `emit` receives its effects, in order."""

    def __init__(
        self,
        job: ControlledJob,
        *,
        ending: JobEnding,
        recovery: Recovery,
        collected: CollectedOnce,
        restarts: RestartDecision,
        emit: Callable[[JobEffect], None],
    ) -> None:
        self.restarts = 0
        """Number of restarts. Regions that restart together count as one."""
        self.restart_at_ms: int | None = None
        """When the regions that have ended are restarted, or None."""
        self._job = job
        self._ending = ending
        self._recovery = recovery
        self._collected = collected
        self._restarts = restarts
        self._emit = emit
        self._failures: list[Region] = []
        """Regions with an own failure since the last decision, in order."""
        self._final_error: BaseException | None = None
        """The error that ends the job, while regions that were still up close."""

    # Failures.

    def failed(self, region: Region) -> None:
        """Record an own failure of a region's attempt."""
        if region not in self._failures:
            self._failures.append(region)

    def spread(self) -> None:
        """Fail all regions if the failed ones cannot be restarted alone."""
        if self._failures and self._concerns_all:
            self._close_all(self._failures[0].attempt.error)

    @property
    def _concerns_all(self) -> bool:
        # All regions return to the checkpoint before a damaged one, or the next one would mix two different pasts.
        falls_back = any(self._restarts.falls_back(region.attempt) for region in self._failures)
        return (
            self._job.settings.failover_strategy is FailoverStrategy.FULL
            or self._ending.has_begun
            or (falls_back and self._job.completed.possible_fall_back is not None)
        )

    def _close_all(self, error: BaseException | None) -> None:
        for region in self._job.regions:
            if region.is_up:
                region.fail(error or JobError("the job failed"), None, self._job.now_ms)

    # The end of attempts.

    def end_attempts(self, is_canceled: bool) -> JobEnd | None:
        """End the attempts of down regions once all their tasks are gone. Return the end of the job, or None."""
        regions = self._job.regions
        down = regions.down
        if not down:
            # After nearly every event.
            return None
        ended = [region for region in down if not region.is_ended]
        end: JobEnd | None = None
        # A finished region waits for the others: if one of them fails, all are restarted.
        is_due = len(down) == len(regions) or any(region.has_failed or region.is_replaced for region in ended)
        are_gone = all(region.is_gone for region in down)
        if ended and is_due and are_gone and self._job.storage.is_settled:
            end = self._end(ended, is_canceled)
        if self.restart_at_ms is not None and (is_canceled or self._job.storage.is_fenced):
            # Without this the job would wait for the delay of a restart that will not come.
            self.restart_at_ms = None
            if regions.all_ended:
                fenced = FencedError("another run has taken the job over")
                end = (JobStatus.CANCELED, None) if is_canceled else (JobStatus.FAILED, fenced)
        return end

    def _end(self, ended: list[Region], is_canceled: bool) -> JobEnd | None:
        failures, self._failures = self._failures, []
        regions, coordinator = self._job.regions, self._job.coordinator
        for region in ended:
            region.end()
        repeated = None
        if regions.all_ended:
            self._ending.all_ended()
            # Fall back before the coordinator ends the tasks, which deletes all checkpoints that are not retained,
            # including the damaged one. Once for all regions: a second fall-back would delete a good checkpoint.
            damaged = [region.attempt.error for region in failures if self._restarts.falls_back(region.attempt)]
            repeated = self._fall_back(damaged[0]) if damaged else None
        coordinator.tasks_ended([vertex for region in ended for vertex in region.attempt.vertices], self._job.now_ms)
        if not failures and not is_canceled and any(region.is_replaced for region in ended):
            # Not a failure: restart without the strategy, together with regions that already wait for it.
            self.restart_at_ms = self._job.now_ms
            return None
        if not regions.all_ended:
            return self._restart_later(failures)
        if not any(region.has_failed for region in regions):
            is_canceled = any(region.status is JobStatus.CANCELED for region in regions)
            return JobStatus.CANCELED if is_canceled else JobStatus.FINISHED, None
        if coordinator.stopped:
            # The output of the stop's savepoint is committed: a restart would write it again.
            failed = [region.attempt for region in [*failures, *regions] if region.has_failed]
            error = failed[0].error if failed else None
            self._ending.failed(error)
            self._emit(EndFailed(error))
            self._note_others(error, failed)
            return JobStatus.FINISHED, None
        if is_canceled:
            # As in Flink, a job that is canceled while it fails is canceled.
            return JobStatus.CANCELED, None
        if repeated is not None or self._final_error is not None:
            return JobStatus.FAILED, repeated or self._final_error
        return self._restart_later(failures)

    def _fall_back(self, error: BaseException | None) -> DamagedCheckpointError | None:
        """Replace a damaged checkpoint by the one before. Return an error instead if that would repeat output."""
        fall_back = self._job.completed.possible_fall_back
        if fall_back is None:
            return None
        repeated = list(fall_back.committed)
        if self._collected.repeat_without(fall_back.latest):
            repeated.append("collected results")
        if repeated and not self._job.settings.allow_duplicates:
            return duplicate_output(str(error), f"chk-{fall_back.before}", repeated)
        self._job.completed.fall_back()
        self._restarts.fell_back()
        self._emit(FellBack(error))
        return None

    # Restarts.

    @property
    def _repeats_results(self) -> bool:
        """Whether a restart would repeat collected results and the user does not allow duplicates."""
        newest = self._recovery.manifest
        number = newest.checkpoint_id if newest is not None else 0
        attempts = [region.attempt for region in self._job.regions if region.is_ended]
        again = any(attempt.results.would_repeat(attempt.restored_id, number) for attempt in attempts)
        return again and not self._job.settings.allow_duplicates

    def _restart_later(self, failures: list[Region]) -> JobEnd | None:
        assert failures, "regions have ended that need a restart, but no region has an own failure"
        # A failure that a restart cannot repair ends the job, even if others came before it.
        attempts = sorted((region.attempt for region in failures), key=self._restarts.is_final, reverse=True)
        error = attempts[0].error
        repeats = self._repeats_results
        if self.restart_at_ms is not None and not repeats and not any(map(self._restarts.is_final, attempts)):
            # They join the regions that already wait: all count as one failure, as with Flink's exponential delay.
            self._emit(RestartJoined(error))
            self._note_others(error, attempts)
            return None
        delay_ms = self._restarts.delay_ms(attempts, self._job.now_ms)
        if delay_ms is not None and repeats:
            delay_ms, error = None, collected_twice_error(error)
        if delay_ms is not None:
            self._emit(
                RestartScheduled(
                    error,
                    restart=self.restarts + 1,
                    delay_ms=delay_ms,
                    now_ms=self._job.now_ms,
                    waits_for_slots=self._restarts.waits_for_slots,
                )
            )
            self._note_others(error, attempts)
            self.restart_at_ms = self._job.now_ms + delay_ms
            return None
        self._note_others(error, attempts)
        self.restart_at_ms = None
        if self._job.regions.all_ended:
            return JobStatus.FAILED, error
        # The others still run: the job ends with this error when they are gone, even if they fail in the meantime.
        self._final_error = error
        self._close_all(error)
        for region in self._job.regions:
            region.stop_if_closed()
        return None

    def _note_others(self, noted: BaseException | None, attempts: list[Attempt]) -> None:
        """Note the other errors of attempts that failed together, each text once."""
        texts = {redacted_error(noted)}
        for attempt in attempts:
            if (text := redacted_error(attempt.error)) not in texts:
                texts.add(text)
                self._emit(OtherRegionFailed(attempt.error))

    @property
    def may_restart(self) -> bool:
        """Whether only the delay keeps the waiting regions from a restart."""
        is_settled = all(region.is_ended for region in self._job.regions.down)
        return self.restart_at_ms is not None and is_settled and self._job.storage.is_settled

    @property
    def is_due(self) -> bool:
        """Whether the waiting regions can be restarted now."""
        return self.restart_at_ms is not None and self._job.now_ms >= self.restart_at_ms and self.may_restart

    def restart(self, graph: JobGraph) -> list[Region]:
        """Restart the waiting regions and return them. `graph`: the plan of their next attempts."""
        self.restart_at_ms = None
        regions = self._job.regions
        restarted = [region for region in regions if region.is_ended]
        if any(region.has_failed for region in restarted):
            self.restarts += 1
        for region in restarted:
            region.next_attempt(graph, self._job.now_ms)
            # First, so that errors of later effects, including repeated commits, belong to the new attempt.
            self._emit(RestartResults(region.attempt.id, region.attempt.sinks))
        regions.attempts_changed()
        for region in restarted:
            # An error here, of a split enumerator or the assignment of state, fails the attempt before deployment.
            self._job.guarded(partial(region.begin, self._recovery, graph, self._job.now_ms), region)
        return restarted
