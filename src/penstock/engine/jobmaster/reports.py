"""Handle the reports of slots and their tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.common.errors import JobError, TaskLostError
from penstock.common.job_status import JobStatus
from penstock.engine.jobmaster.autoscaling.job_autoscaling import JobAutoscaling
from penstock.engine.jobmaster.controlled_job import ControlledJob
from penstock.engine.jobmaster.region import Region
from penstock.engine.jobmaster.results.collected import CollectedOnce
from penstock.engine.jobmaster.stack_samples import TaskQueries
from penstock.engine.jobmaster.updating import JobUpdating
from penstock.engine.jobmaster.watermark_groups import WatermarkGroups
from penstock.engine.rpc.failures import revive
from penstock.engine.rpc.messages import FromSlot, Heartbeat, Register, SlotFailed
from penstock.engine.runtime.ids import SlotId, SubtaskId
from penstock.engine.runtime.task.events import (
    Acknowledge,
    DataEnded,
    Decline,
    Effect,
    Finished,
    LoopQuiet,
    ReportWatermark,
    RequestSplit,
    Result,
    StacksSampled,
    StateRead,
    StatesListed,
    UpdatePrepared,
)

_AFTER_A_LOSS = (Register, SlotFailed, Finished)
"""Reports that count though messages of the slot may be lost. Snapshots do not: earlier committables may be missing."""


class SlotReports:
    """Handle reports of one job.

    `region_started` is called when all tasks of a region run, `data_ended` when a task has processed all its data.
    """

    def __init__(
        self,
        job: ControlledJob,
        *,
        collected: CollectedOnce,
        region_started: Callable[[], None],
        data_ended: Callable[[], None],
        watermarks: WatermarkGroups,
        autoscaling: JobAutoscaling,
        updating: JobUpdating,
        queries: TaskQueries,
    ) -> None:
        self._job = job
        self._collected = collected
        self._region_started = region_started
        self._on_data_ended = data_ended
        self._watermarks = watermarks
        self._autoscaling = autoscaling
        self._queries = queries
        self._updating = updating

    def handle(self, region: Region, message: FromSlot, connection: bytes) -> None:
        """Handle the report of a slot of a region's present attempt."""
        slot = SlotId(message.level, message.index)
        region.attempt.reported(slot, self._job.now_ms)
        fault = region.attempt.connections.find_fault(slot, connection, message.report)
        # The slot's own error says more than the fault.
        if fault is not None and not isinstance(message.report, SlotFailed):
            self._connection_broke(region, slot, fault)
        if region.attempt.connections.is_broken(slot) and not isinstance(message.report, _AFTER_A_LOSS):
            return
        _HANDLERS[type(message.report)](self, region, slot, message.report)

    def _connection_broke(self, region: Region, slot: SlotId, fault: TaskLostError) -> None:
        """Fail the region, and cancel the slot's tasks, since the slot itself is alive."""
        if region.is_up:
            self._job.fail(region, fault)
        region.attempt.cancel_again(slot)

    def _registered(self, region: Region, slot: SlotId, report: Register) -> None:
        attempt = region.attempt
        had_run = attempt.has_run
        attempt.registered(slot, report.address)
        # `registered` may have failed the attempt: only the JobMaster sets the deadline for its tasks to close.
        if attempt.status is JobStatus.FAILING:
            self._job.fail(region, attempt.error or JobError("the attempt failed"))
        if attempt.has_run and not had_run:
            self._region_started()

    def _heartbeat(self, region: Region, slot: SlotId, report: Heartbeat) -> None:
        # `handle` has recorded that the slot is alive.
        self._autoscaling.reported(report.reports)

    def _slot_failed(self, region: Region, slot: SlotId, report: SlotFailed) -> None:
        self._job.fail(
            region, region.attempt.error_of_slot(slot, revive(report.kind, report.message, report.raised)), slot
        )

    def _split_requested(self, region: Region, slot: SlotId, report: RequestSplit) -> None:
        self._job.guarded(lambda: region.attempt.split_requested(report.vertex, report.subtask), region)

    def _watermark_reported(self, region: Region, slot: SlotId, report: ReportWatermark) -> None:
        self._watermarks.reported(_task(report), report.group, report.watermark, self._job.now_ms)

    def _loop_quiet(self, region: Region, slot: SlotId, report: LoopQuiet) -> None:
        region.attempt.loops.quiet(report, self._job.now_ms)

    def _states_listed(self, region: Region, slot: SlotId, report: StatesListed) -> None:
        self._queries.reads.states_listed(report)

    def _state_read(self, region: Region, slot: SlotId, report: StateRead) -> None:
        self._queries.reads.state_read(report)

    def _stacks_sampled(self, region: Region, slot: SlotId, report: StacksSampled) -> None:
        self._queries.stacks.sampled(report)

    def _result(self, region: Region, slot: SlotId, report: Result) -> None:
        self._collected.add(region.attempt.results, report)

    def _data_ended(self, region: Region, slot: SlotId, report: DataEnded) -> None:
        self._watermarks.ended(_task(report), self._job.now_ms)
        region.attempt.data_ended(_task(report))
        self._on_data_ended()

    def _task_finished(self, region: Region, slot: SlotId, report: Finished) -> None:
        region.attempt.finished(_task(report))

    def _acknowledged(self, region: Region, slot: SlotId, report: Acknowledge) -> None:
        # Committables are unpickled here, so that an error of their class fails the region, not the JobMaster.
        coordinator, now_ms = self._job.coordinator, self._job.now_ms
        self._job.guarded(
            lambda: coordinator.acknowledged(
                _task(report),
                report.checkpoint_id,
                state=report.state,
                commits=report.commits.value,
                now_ms=now_ms,
            ),
            region,
        )

    def _update_prepared(self, region: Region, slot: SlotId, report: UpdatePrepared) -> None:
        self._updating.prepared(_task(report), report)

    def _declined(self, region: Region, slot: SlotId, report: Decline) -> None:
        coordinator, now_ms = self._job.coordinator, self._job.now_ms
        coordinator.declined(_task(report), report.checkpoint_id, report.reason, detail=report.detail, now_ms=now_ms)


def _task(report: Effect) -> SubtaskId:
    return SubtaskId(report.vertex, report.subtask)


_HANDLERS: dict[type, Callable[[SlotReports, Region, SlotId, Any], None]] = {
    Register: SlotReports._registered,
    Heartbeat: SlotReports._heartbeat,
    SlotFailed: SlotReports._slot_failed,
    RequestSplit: SlotReports._split_requested,
    ReportWatermark: SlotReports._watermark_reported,
    LoopQuiet: SlotReports._loop_quiet,
    StatesListed: SlotReports._states_listed,
    StateRead: SlotReports._state_read,
    StacksSampled: SlotReports._stacks_sampled,
    Result: SlotReports._result,
    DataEnded: SlotReports._data_ended,
    Finished: SlotReports._task_finished,
    Acknowledge: SlotReports._acknowledged,
    Decline: SlotReports._declined,
    UpdatePrepared: SlotReports._update_prepared,
}
