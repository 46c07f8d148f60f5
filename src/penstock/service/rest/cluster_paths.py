"""The process itself in the role of Flink's cluster: overview, task managers, settings, applications.

A task manager is a slot: a Python worker of Spark, which has one slot.
"""

from __future__ import annotations

import asyncio
import datetime
import platform
import sys
import threading
import traceback
from collections import Counter
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

import penstock
from penstock.common.errors import JobError
from penstock.common.job_status import JobStatus
from penstock.common.time.wall_clock import now_ms
from penstock.engine.jobmaster.execution_state import ExecutionState
from penstock.engine.runtime.ids import SlotId
from penstock.engine.runtime.task.events import SampledStack
from penstock.service.rest.answers import get, id_of, job_of, jobs_of, json_answer, not_found
from penstock.service.rest.described_route import DescribedRoute
from penstock.service.rest.job_paths import ended_ms, job_overview
from penstock.service.rest.secrets import hide_secrets
from penstock.service.rest.served_jobs import JobEntry, slot_name

_NO_RESOURCES = {
    "cpuCores": 0.0,
    "taskHeapMemory": 0,
    "taskOffHeapMemory": 0,
    "managedMemory": 0,
    "networkMemory": 0,
    "extendedResources": {},
}
_DUMP_DEPTH = 200
_DUMP_S = 4.0
"""Timeout of a worker's answer (seconds). A cluster, which calls the process of a job, waits a second longer."""
_HELD = (ExecutionState.DEPLOYING, ExecutionState.INITIALIZING, ExecutionState.RUNNING, ExecutionState.CANCELING)


def config(request: Request) -> dict[str, Any]:
    """GET /config: version, time zone and features."""
    now = datetime.datetime.now().astimezone()
    offset = now.utcoffset() or datetime.timedelta()
    return {
        "refresh-interval": 3000,
        "timezone-name": now.tzname() or "UTC",
        "timezone-offset": round(offset.total_seconds() * 1000),
        "flink-version": f"penstock {penstock.__version__}",
        "flink-revision": "",
        "features": {"web-submit": False, "web-cancel": True, "web-rescale": True, "web-history": False},
    }


def overview(request: Request) -> dict[str, Any]:
    """GET /overview: how many slots and jobs there are."""
    entries = jobs_of(request).all()
    counts = Counter(entry.graph.status for entry in entries)
    ended = sum(counts[status] for status in JobStatus if status.is_terminal_state())
    slots = sum(len(_slots(entry)) for entry in entries)
    return {
        "taskmanagers": slots,
        "slots-total": slots,
        "slots-available": 0,
        "jobs-running": len(entries) - ended,
        "jobs-finished": counts[JobStatus.FINISHED],
        "jobs-cancelled": counts[JobStatus.CANCELED],
        "jobs-failed": counts[JobStatus.FAILED],
        "flink-version": f"penstock {penstock.__version__}",
        "flink-commit": "",
    }


def metrics_of_cluster(request: Request) -> dict[str, int]:
    """Return slots and jobs of this process, by the names of Flink's metrics of a cluster."""
    counts = overview(request)
    return {
        "taskSlotsTotal": counts["slots-total"],
        "taskSlotsAvailable": counts["slots-available"],
        "numRegisteredTaskManagers": counts["taskmanagers"],
        "numRunningJobs": counts["jobs-running"],
    }


def _slots(entry: JobEntry) -> dict[SlotId, int]:
    """Return the slots that a job holds, and how many tasks run there."""
    return Counter(execution.slot for execution in entry.graph.executions.values() if execution.state in _HELD)


def task_managers(request: Request) -> dict[str, Any]:
    """GET /taskmanagers: the slots, each of which is a Python worker."""
    found = [_task_manager(slot, n) for entry in jobs_of(request).all() for slot, n in sorted(_slots(entry).items())]
    return {"taskmanagers": found}


def task_manager(request: Request) -> dict[str, Any]:
    """GET /taskmanagers/:taskmanagerid: one slot."""
    entry, slot = _slot_of(request)
    return {**_task_manager(slot, _slots(entry)[slot]), "allocatedSlots": [], "metrics": _NO_METRICS}


def _slot_of(request: Request) -> tuple[JobEntry, SlotId]:
    """Return the slot that the path names, and its job. Raises HTTPException: 404."""
    wanted = request.path_params["taskmanagerid"]
    for entry in jobs_of(request).all():
        for slot in _slots(entry):
            if slot_name(slot) == wanted:
                return entry, slot
    raise HTTPException(404, f"TaskExecutor {wanted} not found")


_COUNTS = (
    "heapUsed", "heapCommitted", "heapMax", "nonHeapUsed", "nonHeapCommitted", "nonHeapMax",
    "directCount", "directUsed", "directMax", "mappedCount", "mappedUsed", "mappedMax",
    "nettyShuffleMemorySegmentsAvailable", "nettyShuffleMemorySegmentsUsed", "nettyShuffleMemorySegmentsTotal",
    "nettyShuffleMemoryAvailable", "nettyShuffleMemoryUsed", "nettyShuffleMemoryTotal",
)  # fmt: skip
_NO_METRICS = {**dict.fromkeys(_COUNTS, 0), "garbageCollectors": []}
"""The fields of a JVM's memory, which a Python worker does not have."""
_MEMORY = (
    "frameworkHeap", "taskHeap", "frameworkOffHeap", "taskOffHeap", "networkMemory", "managedMemory", "jvmMetaspace",
    "jvmOverhead", "totalFlinkMemory", "totalProcessMemory",
)  # fmt: skip


def _task_manager(slot: SlotId, tasks: int) -> dict[str, Any]:
    return {
        "id": slot_name(slot),
        "path": slot_name(slot),
        "dataPort": -1,
        "jmxPort": -1,
        "timeSinceLastHeartbeat": now_ms(),
        "slotsNumber": 1,
        "freeSlots": 0,
        "assignedTasks": tasks,
        "totalResource": _NO_RESOURCES,
        "freeResource": _NO_RESOURCES,
        "hardware": {"cpuCores": 0, "physicalMemory": 0, "freeMemory": 0, "managedMemory": 0},
        "memoryConfiguration": dict.fromkeys(_MEMORY),
        "blocked": False,
    }


def settings(request: Request) -> list[Any]:
    """GET /jobmanager/config: settings of all jobs of this process (secrets hidden)."""
    merged: dict[str, str] = {}
    for entry in jobs_of(request).all():
        merged |= entry.configuration.to_dict()
    return as_settings(merged)


def job_settings(request: Request) -> list[Any]:
    """GET /jobs/:jobid/jobmanager/config: settings of a job (secrets hidden)."""
    return as_settings(job_of(request).configuration.to_dict())


def as_settings(configuration: dict[str, str]) -> list[Any]:
    """Return settings in Flink's form, with secrets hidden."""
    return [{"key": key, "value": value} for key, value in sorted(hide_secrets(configuration).items())]


def environment(request: Request) -> dict[str, Any]:
    """GET /jobmanager/environment: the driver's Python, in place of a JVM."""
    version = f"{platform.python_implementation()} {platform.python_version()}"
    return {"jvm": {"version": version, "arch": platform.machine(), "options": []}, "classpath": list(sys.path)}


def thread_dump(request: Request) -> dict[str, Any]:
    """GET /jobmanager/thread-dump: the stack of each thread of the driver."""
    return {"threadInfos": _thread_infos()}


async def worker_thread_dump(request: Request) -> Response:
    """GET /taskmanagers/:taskmanagerid/thread-dump: the stack of each thread of a worker; 503 without an answer."""
    entry, slot = _slot_of(request)
    held = (execution for execution in entry.graph.executions.values() if execution.state in _HELD)
    task = next(execution.task for execution in held if execution.slot == slot)
    asked = entry.job.dump_threads(task.vertex, task.subtask, _DUMP_DEPTH)
    try:
        found = await asyncio.wait_for(asyncio.wrap_future(asked), _DUMP_S)
    except TimeoutError:
        raise HTTPException(
            503, f"{slot_name(slot)} does not answer: it is suspended, or busy outside of Python"
        ) from None
    except JobError as error:
        raise HTTPException(503, str(error)) from None
    return json_answer({"threadInfos": [_thread_of_worker(stack) for one in found for stack in one.stacks]})


def applications(request: Request) -> dict[str, Any]:
    """GET /applications/overview: all applications: each job is one."""
    return {"applications": [_application(entry) for entry in jobs_of(request).all()]}


def application(request: Request) -> dict[str, Any]:
    """GET /applications/:applicationid: one application, with its job."""
    entry = jobs_of(request).find(id_of(request, "applicationid"))
    if entry is None:
        text = f"Application {request.path_params['applicationid']} not found"
        raise not_found(request, "applicationid", text)
    states = {status.name: at_ms for status, at_ms in entry.graph.status_ms.items()}
    return {**_application(entry), "timestamps": states, "jobs": [job_overview(entry)]}


def application_exceptions(request: Request) -> dict[str, Any]:
    """GET /applications/:applicationid/exceptions: always empty: errors of a program before its job."""
    return {"exceptionHistory": {"entries": []}}


def _application(entry: JobEntry) -> dict[str, Any]:
    graph = entry.graph
    start_ms, end_ms = graph.submitted_ms, ended_ms(graph)
    counts = Counter([graph.status.name])
    return {
        "id": entry.application_id,
        "name": graph.graph.name,
        "start-time": start_ms,
        "end-time": end_ms,
        "duration": (end_ms if end_ms >= 0 else now_ms()) - start_ms,
        "status": graph.status.name,
        "jobs": {status.name: counts[status.name] for status in JobStatus},
    }


def _thread_infos() -> list[dict[str, str]]:
    """Return the stacks of all threads of this process. Flink: ThreadDumpInfo."""
    frames = sys._current_frames()
    return [
        {
            "threadName": thread.name,
            "stringifiedThreadInfo": f'"{thread.name}" Id={thread.ident}\n'
            + "".join(traceback.format_stack(frames[thread.ident])),
        }
        for thread in threading.enumerate()
        if thread.ident in frames
    ]


def _thread_of_worker(stack: SampledStack) -> dict[str, str]:
    """Format a thread of a worker, outermost frame first, like Python."""
    state = "runs" if stack.on_cpu else "waits"
    frames = "".join(f"  at {frame}\n" for frame in stack.frames)
    return {"threadName": stack.thread, "stringifiedThreadInfo": f'"{stack.thread}" {state}\n{frames}'}


routes = [
    get("/config", config),
    get("/overview", overview),
    get("/taskmanagers", task_managers),
    get("/taskmanagers/{taskmanagerid}", task_manager),
    DescribedRoute("/taskmanagers/{taskmanagerid}/thread-dump", worker_thread_dump, answer=dict[str, Any]),
    get("/jobmanager/config", settings),
    get("/jobmanager/environment", environment),
    get("/jobmanager/thread-dump", thread_dump),
    get("/jobs/{jobid}/jobmanager/config", job_settings),
    get("/jobs/{jobid}/jobmanager/environment", environment),
    get("/applications/overview", applications),
    get("/applications/{applicationid}", application),
    get("/applications/{applicationid}/exceptions", application_exceptions),
    get("/applications/{applicationid}/jobmanager/config", settings),
]
