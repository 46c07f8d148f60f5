"""What follows from failures: which regions are restarted, when, and from what; or that the job ends with them.

    a region fails    its query is stopped; the others run on. It is restarted from the latest checkpoint
    all regions fail  for a fault of the job itself; if the end has begun, since a source that was drained or closed
                      can't go on alone; if the checkpoint is damaged, since all have to go back behind it; or if the
                      user wants it so: jobmanager.execution.failover-strategy

Regions that are down together are restarted together. When none of them has a task any more, and the storage is idle,
the coordinator ends their tasks and the restart strategy is asked, once for all of them; when its time has come all are
deployed. A region that fails meanwhile joins them. Source: Flink docs, "Task Failure Recovery", Failover Strategies.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from penstock.common.configuration.choices import FailoverStrategy
from penstock.common.errors import DamagedCheckpointError, FencedError, JobError
from penstock.common.job_status import JobStatus
from penstock.common.text.secrets import told_error
from penstock.engine.checkpoint.failure import output_twice
from penstock.engine.jobmaster.attempt import Attempt
from penstock.engine.jobmaster.controlled_job import ControlledJob
from penstock.engine.jobmaster.effects import JobEffect, RestartResults
from penstock.engine.jobmaster.ending import JobEnding
from penstock.engine.jobmaster.job_end import JobEnd
from penstock.engine.jobmaster.notices import EndFailed, FailedToo, FellBack, RestartJoined, RestartScheduled
from penstock.engine.jobmaster.recovery import Recovery
from penstock.engine.jobmaster.region import Region
from penstock.engine.jobmaster.restarts import RestartDecision
from penstock.engine.jobmaster.results.collected import CollectedOnce, collected_twice
from penstock.engine.plan.job_graph import JobGraph


class Failover:
    """Of one job. `emit` takes its effects, in order."""

    def __init__(
        self,
        job: ControlledJob,
        ending: JobEnding,
        recovery: Recovery,
        collected: CollectedOnce,
        restarts: RestartDecision,
        emit: Callable[[JobEffect], None],
    ) -> None:
        self.restarts = 0
        """How often regions were restarted; of several that restart together as one."""
        self.restart_at_ms: int | None = None
        """When the regions that have ended are restarted."""
        self._job = job
        self._ending = ending
        self._recovery = recovery
        self._collected = collected
        self._restarts = restarts
        self._emit = emit
        self._failures: list[Region] = []
        """Regions that have failed by themselves since the last decision, in this order."""
        self._final_error: BaseException | None = None
        """Set when a failure ends the job: the regions that were still up are closed."""

    # Which regions fail.

    def failed(self, region: Region) -> None:
        """The attempt of a region has failed by itself."""
        if region not in self._failures:
            self._failures.append(region)

    def spread(self) -> None:
        """Let all regions fail if those that have failed can't be restarted alone."""
        if self._failures and self._concerns_all:
            self._close_all(self._failures[0].attempt.error)

    @property
    def _concerns_all(self) -> bool:
        # With a damaged checkpoint all have to go back behind it, or the next one would be of two different pasts.
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

    # When their tasks are gone.

    def end_attempts(self, is_cancelled: bool) -> JobEnd | None:
        """End the attempts of the regions that are down, when none has a task any more. Returns how the job ends."""
        regions = self._job.regions
        down = regions.down
        if not down:
            # As after nearly every event.
            return None
        ended = [region for region in down if not region.is_ended]
        end: JobEnd | None = None
        # A region that has finished waits for the others: if one of them fails all are restarted.
        is_due = len(down) == len(regions) or any(region.has_failed or region.is_replaced for region in ended)
        are_gone = all(region.is_gone for region in down)
        if ended and is_due and are_gone and self._job.storage.is_settled:
            end = self._end(ended, is_cancelled)
        if self.restart_at_ms is not None and (is_cancelled or self._job.storage.is_fenced):
            # Without this the job would wait for the delay of a restart that will not come.
            self.restart_at_ms = None
            if regions.all_ended:
                fenced = FencedError("another run has taken the job over")
                end = (JobStatus.CANCELED, None) if is_cancelled else (JobStatus.FAILED, fenced)
        return end

    def _end(self, ended: list[Region], is_cancelled: bool) -> JobEnd | None:
        failures, self._failures = self._failures, []
        regions, coordinator = self._job.regions, self._job.coordinator
        for region in ended:
            region.end()
        repeated = None
        if regions.all_ended:
            self._ending.all_ended()
            # Before the coordinator ends the tasks, which deletes all that is not retained: the damaged one, too. Once
            # for all regions: to fall back a second time would delete a good checkpoint.
            damaged = [region.attempt.error for region in failures if self._restarts.falls_back(region.attempt)]
            repeated = self._fall_back(damaged[0]) if damaged else None
        coordinator.tasks_ended([vertex for region in ended for vertex in region.attempt.vertices], self._job.now_ms)
        if not failures and not is_cancelled and any(region.is_replaced for region in ended):
            # No failure: the restart strategy is not asked. Those that wait for it already come, too.
            self.restart_at_ms = self._job.now_ms
            return None
        if not regions.all_ended:
            return self._restart_later(failures)
        if not any(region.has_failed for region in regions):
            is_cancelled = any(region.status is JobStatus.CANCELED for region in regions)
            return JobStatus.CANCELED if is_cancelled else JobStatus.FINISHED, None
        if coordinator.stopped:
            # What the savepoint names with which the job stops is committed: a restart would write it a second time.
            failed = [region.attempt for region in [*failures, *regions] if region.has_failed]
            error = failed[0].error if failed else None
            self._ending.failed(error)
            self._emit(EndFailed(error))
            self._note_others(error, failed)
            return JobStatus.FINISHED, None
        if is_cancelled:
            # As in Flink: a job that is cancelled while it fails is cancelled.
            return JobStatus.CANCELED, None
        if repeated is not None or self._final_error is not None:
            return JobStatus.FAILED, repeated or self._final_error
        return self._restart_later(failures)

    def _fall_back(self, error: BaseException | None) -> DamagedCheckpointError | None:
        """The newest checkpoint is damaged: the one before takes its place, unless output would then come twice."""
        fall_back = self._job.completed.possible_fall_back
        if fall_back is None:
            return None
        repeated = list(fall_back.committed)
        if self._collected.come_again_behind(fall_back.latest):
            repeated.append("collected results")
        if repeated and not self._job.settings.allow_duplicates:
            return output_twice(str(error), f"chk-{fall_back.before}", repeated)
        self._job.completed.fall_back()
        self._restarts.fell_back()
        self._emit(FellBack(error))
        return None

    # Restarts.

    @property
    def _collects_again(self) -> bool:
        """Whether the program would be given results a second time by a restart, and its user does not accept that."""
        newest = self._recovery.manifest
        number = newest.checkpoint_id if newest is not None else 0
        attempts = [region.attempt for region in self._job.regions if region.is_ended]
        again = any(attempt.results.would_come_again(attempt.restored_id, number) for attempt in attempts)
        return again and not self._job.settings.allow_duplicates

    def _restart_later(self, failures: list[Region]) -> JobEnd | None:
        assert failures, "regions have ended that are to be restarted, and none has failed by itself"
        # What a restart can't repair is why the job ends, whatever has failed before it.
        attempts = sorted((region.attempt for region in failures), key=self._restarts.is_final, reverse=True)
        error = attempts[0].error
        repeats = self._collects_again
        if self.restart_at_ms is not None and not repeats and not any(map(self._restarts.is_final, attempts)):
            # They join those that wait already: all of it is one failure, as for Flink's exponential delay.
            self._emit(RestartJoined(error))
            self._note_others(error, attempts)
            return None
        delay_ms = self._restarts.delay_ms(attempts, self._job.now_ms)
        if delay_ms is not None and repeats:
            delay_ms, error = None, collected_twice(error)
        if delay_ms is not None:
            self._emit(RestartScheduled(error, self.restarts + 1, delay_ms, self._job.now_ms, self._restarts.waits))
            self._note_others(error, attempts)
            self.restart_at_ms = self._job.now_ms + delay_ms
            return None
        self._note_others(error, attempts)
        self.restart_at_ms = None
        if self._job.regions.all_ended:
            return JobStatus.FAILED, error
        # The others still run: the job ends with this error when they are gone, whatever they fail by meanwhile.
        self._final_error = error
        self._close_all(error)
        for region in self._job.regions:
            region.stop_if_over()
        return None

    def _note_others(self, told: BaseException | None, attempts: list[Attempt]) -> None:
        """Those that failed in the same moment; not once more where all have failed by the same."""
        texts = {told_error(told)}
        for attempt in attempts:
            if (text := told_error(attempt.error)) not in texts:
                texts.add(text)
                self._emit(FailedToo(attempt.error))

    @property
    def may_restart(self) -> bool:
        """Whether the regions that wait may be deployed as soon as their time has come."""
        is_settled = all(region.is_ended for region in self._job.regions.down)
        return self.restart_at_ms is not None and is_settled and self._job.storage.is_settled

    @property
    def is_due(self) -> bool:
        """Whether the time of the regions that wait has come."""
        return self.restart_at_ms is not None and self._job.now_ms >= self.restart_at_ms and self.may_restart

    def restart(self, graph: JobGraph) -> list[Region]:
        """Restart the regions that wait; returns them. `graph`: that of their next attempts."""
        self.restart_at_ms = None
        regions = self._job.regions
        restarted = [region for region in regions if region.is_ended]
        if any(region.has_failed for region in restarted):
            self.restarts += 1
        for region in restarted:
            region.next_attempt(graph, self._job.now_ms)
            # First: errors of what is emitted after it, repeated commits included, are those of the new attempt.
            self._emit(RestartResults(region.attempt.id, region.attempt.sinks))
        regions.attempts_changed()
        for region in restarted:
            # What fails here, a split enumerator or the assignment of state, fails the attempt before it is deployed.
            self._job.guarded(partial(region.begin, self._recovery, graph, self._job.now_ms), region)
        return restarted
