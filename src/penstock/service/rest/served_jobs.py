"""The jobs of this process, as its REST endpoint serves them. The newest ended ones are kept."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from penstock.common.configuration import Configuration
from penstock.engine.jobmaster.execution_graph import ExecutionGraph
from penstock.engine.jobmaster.metrics import JobMetrics
from penstock.engine.jobmaster.state_query import LiveState, StateQuery
from penstock.engine.runtime.ids import SlotId
from penstock.engine.runtime.task.events import StacksSampled
from penstock.service.cluster.job_reference import newest_named
from penstock.service.rest.flame_graphs import FlameGraphs
from penstock.service.rest.job_history import JobHistory
from penstock.service.rest.meter import Meter
from penstock.service.rest.newest_state import NewestState
from penstock.service.rest.savepoint_triggers import SavepointTriggers

_ENDED_MAX = 100
"""How many ended jobs are kept: each holds everything that is known of it."""


class ServedJob(Protocol):
    """The access of the endpoint to a job. No method waits for the job master's thread."""

    @property
    def execution_graph(self) -> ExecutionGraph:
        """Return a recent copy of the job's execution graph."""

    @property
    def metrics(self) -> JobMetrics:
        """Return its counters."""

    def cancel(self) -> None:
        """Request cancellation."""

    def savepoint(self, directory: str | None, stop: bool = False, drain: bool = False) -> Future[str]:
        """Take a savepoint, and perhaps stop with it."""

    def checkpoint(self, full: bool = False) -> Future[str]:
        """Take a checkpoint now."""

    def rescale(self, parallelism: Mapping[int, int]) -> Future[str]:
        """Change the number of subtasks, by vertex."""

    def read_state(self, query: StateQuery) -> Future[LiveState]:
        """Ask the tasks for their current keyed state."""

    def sample_stacks(self, vertex: int, samples: int, delay_ms: int, depth: int) -> Future[list[StacksSampled]]:
        """Ask the slots for stacks of the threads of a vertex's tasks."""

    def dump_threads(self, vertex: int, subtask: int, depth: int) -> Future[list[StacksSampled]]:
        """Ask the slot of a task for the stacks of all threads of its process."""


@dataclass(frozen=True)
class JobEntry:
    """A job, and what was known of it when it was submitted."""

    job_id: str
    job: ServedJob
    configuration: Configuration
    checkpoint_directory: str
    log_folder: Path | None
    """The folder of its logs; None: it keeps no logs."""
    meter: Meter
    flame_graphs: FlameGraphs
    """The flame graphs that were requested."""
    triggers: SavepointTriggers = field(default_factory=SavepointTriggers)
    """Triggers of savepoints."""
    checkpoint_triggers: SavepointTriggers = field(default_factory=SavepointTriggers)
    """Triggers of checkpoints: a client may use the same id for both."""
    committed: NewestState = field(default_factory=NewestState)
    history: JobHistory = field(default_factory=JobHistory)
    """Its figures over time."""
    seen: ExecutionGraph | None = None
    """The graph that the request with this entry reads; None: no request has this entry."""

    @property
    def graph(self) -> ExecutionGraph:
        """Return the job's execution graph: a recent copy, the same one throughout one request."""
        return self.job.execution_graph if self.seen is None else self.seen

    @property
    def application_id(self) -> str:
        """The id of the program: each job is shown as an application of its own."""
        return self.job_id


class ServedJobs:
    """The jobs in the order of their submission. Threads of programs add jobs, all else is the server's."""

    def __init__(self) -> None:
        self._entries: dict[str, JobEntry] = {}
        self._lock = threading.Lock()

    def add(self, entry: JobEntry) -> None:
        """Add a job that was submitted."""
        with self._lock:
            # A job that was taken over by its next run comes last, like any new one.
            self._entries.pop(entry.job_id, None)
            self._entries[entry.job_id] = entry
            ended = [id for id, other in self._entries.items() if _has_ended(other)]
            for id in ended[:-_ENDED_MAX]:
                del self._entries[id]

    def find(self, job: str) -> JobEntry | None:
        """Return the job with that id or name, or None. Of several with one name: the newest that runs."""
        with self._lock:
            return self._entries.get(job) or newest_named(job, self._entries.values(), _name, _has_ended)

    def all(self) -> list[JobEntry]:
        """Return all jobs."""
        with self._lock:
            return list(self._entries.values())


def _name(entry: JobEntry) -> str:
    return entry.graph.graph.name


def _has_ended(entry: JobEntry) -> bool:
    return entry.graph.status.is_terminal_state()


def slot_name(slot: SlotId) -> str:
    """Return the name of a slot as a task manager: a Python worker, with a log of this name."""
    return f"level-{slot.level}-slot-{slot.index}"
