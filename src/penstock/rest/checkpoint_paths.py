"""/jobs/:jobid/checkpoints: statistics, history, details by task and subtask, settings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request

from penstock.checkpoint.manifest import SubtaskReport
from penstock.checkpoint.report import CheckpointReport
from penstock.common import options
from penstock.common.checkpoint_interval import checkpoint_interval_ms
from penstock.common.checkpointing import ExternalizedCheckpointRetention
from penstock.jobmaster.execution_graph import CheckpointUnderWay, ExecutionGraph
from penstock.plan.job_graph import JobVertex
from penstock.plan.vertex_ids import vertex_id
from penstock.rest.answers import get, job_of, number_of, vertex_of
from penstock.rest.served_jobs import JobEntry
from penstock.rest.summary import summary_of, written

_NONE_EVER = 0x7FFFFFFFFFFFFFFF
"""The interval of a job without periodic checkpoints, as Flink writes it."""


def statistics(request: Request) -> dict[str, Any]:
    """GET /jobs/:jobid/checkpoints: checkpoints and savepoints: counts, summary, history."""
    entry = job_of(request)
    checkpoints = entry.graph.checkpoints
    latest, summaries = checkpoints.latest, checkpoints.summaries
    shown = [*(under_way_of(one) for one in checkpoints.under_way), *(_report(entry, r) for r in checkpoints.history)]
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
            "checkpointed_size": written(summaries.written_bytes),
            "state_size": written(summaries.total_bytes),
            "end_to_end_duration": written(summaries.duration_ms),
            "alignment_buffered": summary_of([0]),
            "processed_data": summary_of([0]),
            "persisted_data": written(summaries.in_flight_bytes),
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
    if isinstance(found, CheckpointUnderWay):
        return under_way_of(found)
    return {**_report(entry, found), "tasks": _tasks(entry.graph, found)}


def subtask_details(request: Request) -> dict[str, Any]:
    """GET /jobs/:jobid/checkpoints/details/:checkpointid/subtasks/:vertexid: one checkpoint, by subtask."""
    entry = job_of(request)
    vertex = vertex_of(request, entry)
    found = _find(request, entry.graph)
    parts = [] if isinstance(found, CheckpointUnderWay) else by_vertex(entry.graph, found).get(vertex.id, [])
    if isinstance(found, CheckpointUnderWay) or not parts:
        raise HTTPException(404, f"There are no details of the subtasks of checkpoint {found.checkpoint_id}")
    return {
        **_task(vertex, found, parts),
        "summary": _summary(parts, found),
        "subtasks": [_subtask(part, found) for part in parts],
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


def _find(request: Request, graph: ExecutionGraph) -> CheckpointReport | CheckpointUnderWay:
    number = number_of(request, "checkpointid")
    checkpoints = graph.checkpoints
    # Those that the history has no room for are still shown as the newest of their kind.
    for one in (*checkpoints.under_way, *checkpoints.history, *checkpoints.latest):
        if one is not None and one.checkpoint_id == number:
            return one
    raise HTTPException(404, f"Could not find checkpoint {number}: it is unknown, or too old")


def _path(entry: JobEntry, checkpoint_id: int) -> str:
    return f"{entry.checkpoint_directory}/chk-{checkpoint_id}"


def _common(one: CheckpointReport | CheckpointUnderWay, status: str, latest_ack_ms: int) -> dict[str, Any]:
    return {
        "id": one.checkpoint_id,
        "status": status,
        "is_savepoint": bool(one.savepoint),
        "savepointFormat": "CANONICAL" if one.savepoint else None,
        "trigger_timestamp": one.triggered_ms,
        "latest_ack_timestamp": latest_ack_ms,
        "alignment_buffered": 0,
        "processed_data": 0,
        "persisted_data": one.in_flight_bytes if isinstance(one, CheckpointReport) else 0,
        "num_subtasks": one.of_subtasks,
        "num_acknowledged_subtasks": one.acknowledged,
        "checkpoint_type": "SAVEPOINT" if one.savepoint else "CHECKPOINT",
        "tasks": {},
    }


def under_way_of(one: CheckpointUnderWay) -> dict[str, Any]:
    """A checkpoint that is being collected."""
    sizes = {"checkpointed_size": 0, "state_size": 0, "end_to_end_duration": 0}
    return {"className": "in_progress", **_common(one, "IN_PROGRESS", -1), **sizes}


def _report(entry: JobEntry, report: CheckpointReport) -> dict[str, Any]:
    ended_ms = report.triggered_ms + report.duration_ms
    shown = {
        **_common(report, "COMPLETED" if report.is_completed else "FAILED", ended_ms),
        "checkpointed_size": report.written_bytes,
        "state_size": report.total_bytes,
        "end_to_end_duration": report.duration_ms,
    }
    if not report.is_completed:
        failure = {"failure_timestamp": ended_ms, "failure_message": report.failure}
        return {"className": "failed", **shown, **failure}
    retained = bool(report.savepoint) or report.checkpoint_id in entry.graph.checkpoints.retained
    path = report.savepoint or _path(entry, report.checkpoint_id)
    return {"className": "completed", **shown, "external_path": path, "discarded": not retained}


def by_vertex(graph: ExecutionGraph, report: CheckpointReport) -> dict[int, list[SubtaskReport]]:
    """The parts of subtasks, by vertex: they come vertex by vertex in the order of the graph."""
    parts: dict[int, list[SubtaskReport]] = {}
    left = list(report.subtasks)
    for vertex in graph.graph.vertices:
        mine: list[SubtaskReport] = []
        while left and left[0].vertex == vertex.name and left[0].subtask == len(mine):
            mine.append(left.pop(0))
        parts[vertex.id] = mine
    return parts


def _tasks(graph: ExecutionGraph, report: CheckpointReport) -> dict[str, Any]:
    of_vertices = by_vertex(graph, report)
    return {
        vertex_id(vertex): _task(vertex, report, of_vertices[vertex.id])
        for vertex in graph.graph.vertices
        if of_vertices[vertex.id]
    }


def _task(vertex: JobVertex, report: CheckpointReport, parts: list[SubtaskReport]) -> dict[str, Any]:
    durations = [_duration_ms(part) for part in parts]
    return {
        "id": report.checkpoint_id,
        "status": "COMPLETED",
        "latest_ack_timestamp": report.triggered_ms + max(durations),
        "checkpointed_size": sum(part.figures.written for part in parts),
        "state_size": sum(part.figures.total for part in parts),
        "end_to_end_duration": max(durations),
        "alignment_buffered": 0,
        "processed_data": 0,
        "persisted_data": _persisted(parts),
        "num_subtasks": vertex.parallelism,
        "num_acknowledged_subtasks": len(parts),
    }


def _persisted(parts: Iterable[SubtaskReport]) -> int:
    """Bytes that were in flight and that barriers have overtaken."""
    return sum(part.figures.in_flight or 0 for part in parts)


def _duration_ms(part: SubtaskReport) -> int:
    """From the trigger until the subtask had written its part."""
    figures = part.figures
    return round(figures.start_delay_ms + figures.alignment_ms + figures.sync_ms + figures.async_ms)


def _summary(parts: list[SubtaskReport], report: CheckpointReport) -> dict[str, Any]:
    figures = [part.figures for part in parts]
    none = summary_of([0])
    return {
        "checkpointed_size": summary_of([one.written for one in figures]),
        "state_size": summary_of([one.total for one in figures]),
        "end_to_end_duration": summary_of([_duration_ms(part) for part in parts]),
        "checkpoint_duration": {
            "sync": summary_of([one.sync_ms for one in figures]),
            "async": summary_of([one.async_ms for one in figures]),
        },
        "alignment": {
            "buffered": none,
            "processed": none,
            "persisted": summary_of([one.in_flight or 0 for one in figures]),
            "duration": summary_of([one.alignment_ms for one in figures]),
        },
        "start_delay": summary_of([one.start_delay_ms for one in figures]),
    }


def _subtask(part: SubtaskReport, report: CheckpointReport) -> dict[str, Any]:
    figures, duration_ms = part.figures, _duration_ms(part)
    return {
        "className": "completed",
        "index": part.subtask,
        "status": "completed",
        "ack_timestamp": report.triggered_ms + duration_ms,
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


routes = [
    get("/jobs/{jobid}/checkpoints", statistics),
    get("/jobs/{jobid}/checkpoints/config", config),
    get("/jobs/{jobid}/checkpoints/details/{checkpointid}", details),
    get("/jobs/{jobid}/checkpoints/details/{checkpointid}/subtasks/{vertexid}", subtask_details),
]
