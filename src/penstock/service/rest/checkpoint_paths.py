"""/jobs/:jobid/checkpoints: statistics, history, details by task and subtask, settings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request

from penstock.common.configuration import options
from penstock.common.configuration.choices import ExternalizedCheckpointRetention
from penstock.common.configuration.options import checkpoint_interval_ms
from penstock.engine.checkpoint.history import QUANTILES, Summary
from penstock.engine.checkpoint.manifest import SubtaskReport
from penstock.engine.checkpoint.report import CheckpointReport
from penstock.engine.jobmaster.execution_graph import CheckpointUnderWay, ExecutionGraph
from penstock.engine.plan.vertex_ids import vertex_id
from penstock.service.rest.answers import get, job_of, number_of, vertex_of
from penstock.service.rest.served_jobs import JobEntry

Checkpoint = CheckpointReport | CheckpointUnderWay
_NONE_EVER = 0x7FFFFFFFFFFFFFFF
"""The interval that Flink writes for a job without periodic checkpoints."""


def statistics(request: Request) -> dict[str, Any]:
    """GET /jobs/:jobid/checkpoints: checkpoints and savepoints: counts, summary, history."""
    entry = job_of(request)
    checkpoints = entry.graph.checkpoints
    latest, summaries = checkpoints.latest, checkpoints.summaries
    shown = [
        *(_under_way(entry, one) for one in checkpoints.under_way),
        *(_report(entry, r) for r in checkpoints.history),
    ]
    restored = checkpoints.restored
    return {
        "counts": {
            "restored": checkpoints.restored_count,
            "total": checkpoints.completed_count + checkpoints.failed_count + len(checkpoints.under_way),
            "in_progress": len(checkpoints.under_way),
            "completed": checkpoints.completed_count,
            "failed": checkpoints.failed_count,
        },
        "summary": {
            "checkpointed_size": _in_flinks_form(summaries.written_bytes),
            "state_size": _in_flinks_form(summaries.total_bytes),
            "end_to_end_duration": _in_flinks_form(summaries.duration_ms),
            "alignment_buffered": _summary_of([0]),
            "processed_data": _summary_of([0]),
            "persisted_data": _in_flinks_form(summaries.in_flight_bytes),
        },
        "latest": {
            "completed": None if latest.completed is None else _report(entry, latest.completed),
            "savepoint": None if latest.savepoint is None else _report(entry, latest.savepoint),
            "failed": None if latest.failed is None else _report(entry, latest.failed),
            "restored": None
            if restored is None
            else {
                "id": restored.checkpoint_id,
                "restore_timestamp": restored.at_ms,
                "is_savepoint": restored.savepoint,
                "external_path": restored.path
                or (None if restored.savepoint else _path(entry, restored.checkpoint_id)),
            },
        },
        "history": sorted(shown, key=lambda one: -one["id"]),
    }


def details(request: Request) -> dict[str, Any]:
    """GET /jobs/:jobid/checkpoints/details/:checkpointid: one checkpoint, with the figures of each vertex."""
    entry = job_of(request)
    found = _find(request, entry.graph)
    shown = _under_way(entry, found) if isinstance(found, CheckpointUnderWay) else _report(entry, found)
    vertices = [vertex for vertex in entry.graph.graph.vertices if vertex.id in found.parallelism]
    return {**shown, "tasks": {vertex_id(vertex): _task(found, vertex.id) for vertex in vertices}}


def subtask_details(request: Request) -> dict[str, Any]:
    """GET /jobs/:jobid/checkpoints/details/:checkpointid/subtasks/:vertexid: one checkpoint, by subtask."""
    entry = job_of(request)
    vertex = vertex_of(request, entry)
    found = _find(request, entry.graph)
    if vertex.id not in found.parallelism:
        raise HTTPException(404, f"There is no checkpoint statistics for task {vertex_id(vertex)}")
    parts = _parts(found, vertex.id)
    of_subtasks = {part.subtask: part for part in parts}
    return {
        **_task(found, vertex.id),
        "summary": _summary(parts),
        "subtasks": [
            _subtask(of_subtasks[index], found) if index in of_subtasks else _missing(index)
            for index in range(found.parallelism[vertex.id])
        ],
    }


def config(request: Request) -> dict[str, Any]:
    """GET /jobs/:jobid/checkpoints/config: how checkpoints are taken."""
    entry = job_of(request)
    get_option = entry.configuration.get
    interval_ms = checkpoint_interval_ms(entry.configuration)
    retention = get_option(options.CHECKPOINT_RETENTION)
    return {
        "mode": get_option(options.CHECKPOINTING_MODE).name.lower(),
        "interval": _NONE_EVER if interval_ms is None else interval_ms,
        "timeout": get_option(options.CHECKPOINT_TIMEOUT),
        "min_pause": get_option(options.CHECKPOINT_MIN_PAUSE),
        "max_concurrent": get_option(options.MAX_CONCURRENT_CHECKPOINTS),
        "externalization": {
            "enabled": retention is not ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS,
            "delete_on_cancellation": retention is not ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION,
        },
        "state_backend": get_option(options.STATE_BACKEND),
        "checkpoint_storage": entry.checkpoint_directory,
        "unaligned_checkpoints": get_option(options.UNALIGNED_CHECKPOINTS),
        "tolerable_failed_checkpoints": get_option(options.TOLERABLE_FAILED_CHECKPOINTS),
        "aligned_checkpoint_timeout": get_option(options.ALIGNED_CHECKPOINT_TIMEOUT),
        "checkpoints_after_tasks_finish": True,
        "state_changelog_enabled": False,
        "changelog_periodic_materialization_interval": 0,
        "changelog_storage": "",
    }


def _find(request: Request, graph: ExecutionGraph) -> Checkpoint:
    number = number_of(request, "checkpointid")
    checkpoints = graph.checkpoints
    # Checkpoints that have dropped out of the history are still shown as the newest of their kind.
    for one in (*checkpoints.under_way, *checkpoints.history, *checkpoints.latest):
        if one is not None and one.checkpoint_id == number:
            return one
    raise HTTPException(404, f"Could not find checkpoint {number}: it is unknown, or too old")


def _path(entry: JobEntry, checkpoint_id: int) -> str:
    return f"{entry.checkpoint_directory}/chk-{checkpoint_id}"


def _common(entry: JobEntry, one: Checkpoint, latest_ack_ms: int) -> dict[str, Any]:
    if isinstance(one, CheckpointReport):
        # Computed once per checkpoint: a hundred are listed, each perhaps with thousands of subtasks.
        written, total, in_flight = one.written_bytes, one.total_bytes, one.in_flight_bytes
    else:
        written, total, in_flight = _sizes(one.subtasks)
    return {
        "id": one.checkpoint_id,
        "status": _status(one),
        "is_savepoint": bool(one.savepoint),
        "savepointFormat": "CANONICAL" if one.savepoint else None,
        "trigger_timestamp": one.triggered_ms,
        "latest_ack_timestamp": latest_ack_ms,
        "checkpointed_size": written,
        "state_size": total,
        "alignment_buffered": 0,
        "processed_data": 0,
        "persisted_data": in_flight,
        "num_subtasks": one.of_subtasks,
        "num_acknowledged_subtasks": one.acknowledged,
        "checkpoint_type": _type(one),
        "tasks": {},
    }


def _type(one: Checkpoint) -> str:
    """Return the type. Flink: RestAPICheckpointType.

    A checkpoint is unaligned if a barrier has overtaken records in it.
    """
    if one.savepoint:
        return "SYNC_SAVEPOINT" if one.stops else "SAVEPOINT"
    is_unaligned = any(part.figures.in_flight is not None for part in one.subtasks)
    return "UNALIGNED_CHECKPOINT" if is_unaligned else "CHECKPOINT"


def _status(one: Checkpoint) -> str:
    if isinstance(one, CheckpointUnderWay):
        return "IN_PROGRESS"
    return "COMPLETED" if one.is_completed else "FAILED"


def _under_way(entry: JobEntry, one: CheckpointUnderWay) -> dict[str, Any]:
    duration_ms = _longest_ms(one.subtasks)
    common = _common(entry, one, _at_ms(one, duration_ms))
    return {"className": "in_progress", **common, "end_to_end_duration": duration_ms}


def _report(entry: JobEntry, report: CheckpointReport) -> dict[str, Any]:
    ended_ms = report.triggered_ms + report.duration_ms
    duration = {"end_to_end_duration": report.duration_ms}
    if not report.is_completed:
        common = _common(entry, report, _at_ms(report, _longest_ms(report.subtasks)))
        failure = {"failure_timestamp": ended_ms, "failure_message": report.failure}
        return {"className": "failed", **common, **duration, **failure}
    retained = bool(report.savepoint) or report.checkpoint_id in entry.graph.checkpoints.retained
    place = {"external_path": report.savepoint or _path(entry, report.checkpoint_id), "discarded": not retained}
    return {"className": "completed", **_common(entry, report, ended_ms), **duration, **place}


def _parts(one: Checkpoint, vertex: int) -> list[SubtaskReport]:
    """Return the acknowledgements of a vertex, by subtask."""
    found = [part for task, part in zip(one.tasks, one.subtasks, strict=True) if task.vertex == vertex]
    return sorted(found, key=lambda part: part.subtask)


def _task(one: Checkpoint, vertex: int) -> dict[str, Any]:
    parts = _parts(one, vertex)
    duration_ms = _longest_ms(parts)
    written, total, in_flight = _sizes(parts)
    return {
        "id": one.checkpoint_id,
        "status": _status(one),
        "latest_ack_timestamp": _at_ms(one, duration_ms),
        "checkpointed_size": written,
        "state_size": total,
        "end_to_end_duration": duration_ms,
        "alignment_buffered": 0,
        "processed_data": 0,
        "persisted_data": in_flight,
        "num_subtasks": one.parallelism[vertex],
        "num_acknowledged_subtasks": len(parts),
    }


def _longest_ms(parts: Iterable[SubtaskReport]) -> int:
    """Return the longest duration of these parts (ms); -1 without any."""
    return max(map(_duration_ms, parts), default=-1)


def _at_ms(one: Checkpoint, duration_ms: int) -> int:
    """Return the time at which a part was complete, from its duration; -1: no such part."""
    return -1 if duration_ms < 0 else one.triggered_ms + duration_ms


def _sizes(parts: Sequence[SubtaskReport]) -> tuple[int, int, int]:
    """Return bytes written, bytes that a restore would read, and bytes in flight that barriers have overtaken."""
    figures = [part.figures for part in parts]
    return (
        sum(one.written for one in figures),
        sum(one.total for one in figures),
        sum(one.in_flight or 0 for one in figures),
    )


def _duration_ms(part: SubtaskReport) -> int:
    """Return the time from the trigger until the subtask had written its part."""
    figures = part.figures
    return round(figures.start_delay_ms + figures.alignment_ms + figures.sync_ms + figures.async_ms)


def _summary(parts: list[SubtaskReport]) -> dict[str, Any]:
    figures = [part.figures for part in parts]
    none = _summary_of([0])
    return {
        "checkpointed_size": _summary_of([one.written for one in figures]),
        "state_size": _summary_of([one.total for one in figures]),
        "end_to_end_duration": _summary_of([_duration_ms(part) for part in parts]),
        "checkpoint_duration": {
            "sync": _summary_of([one.sync_ms for one in figures]),
            "async": _summary_of([one.async_ms for one in figures]),
        },
        "alignment": {
            "buffered": none,
            "processed": none,
            "persisted": _summary_of([one.in_flight or 0 for one in figures]),
            "duration": _summary_of([one.alignment_ms for one in figures]),
        },
        "start_delay": _summary_of([one.start_delay_ms for one in figures]),
    }


def _subtask(part: SubtaskReport, one: Checkpoint) -> dict[str, Any]:
    figures, duration_ms = part.figures, _duration_ms(part)
    return {
        "className": "completed",
        "index": part.subtask,
        "status": "completed",
        "ack_timestamp": _at_ms(one, duration_ms),
        "end_to_end_duration": duration_ms,
        "checkpointed_size": figures.written,
        "state_size": figures.total,
        "checkpoint": {"sync": round(figures.sync_ms), "async": round(figures.async_ms)},
        "alignment": {
            "buffered": 0,
            "processed": 0,
            "persisted": figures.in_flight or 0,
            "duration": round(figures.alignment_ms),
        },
        "start_delay": round(figures.start_delay_ms),
        "unaligned_checkpoint": figures.in_flight is not None,
        "aborted": False,
    }


def _missing(index: int) -> dict[str, Any]:
    """A subtask that has not acknowledged, or did not before the checkpoint failed."""
    return {"className": "pending", "index": index, "status": "pending_or_failed"}


def _summary_of(values: Sequence[float]) -> dict[str, float]:
    """Return statistics of numbers in any order, in Flink's form."""
    return _in_flinks_form(Summary.of(values))


def _in_flinks_form(summary: Summary) -> dict[str, float]:
    """Return a summary in Flink's form. Flink: StatsSummaryDto."""
    return {
        "min": int(summary.lowest),
        "max": int(summary.highest),
        "avg": int(summary.mean),
        **dict(zip(QUANTILES, summary.quantiles, strict=True)),
    }


routes = [
    get("/jobs/{jobid}/checkpoints", statistics),
    get("/jobs/{jobid}/checkpoints/config", config),
    get("/jobs/{jobid}/checkpoints/details/{checkpointid}", details),
    get("/jobs/{jobid}/checkpoints/details/{checkpointid}/subtasks/{vertexid}", subtask_details),
]
