"""The jobs of this process, as its REST endpoint serves them. The newest of those that have ended stay."""

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
from penstock.service.rest.flame_graphs import FlameGraphs
from penstock.service.rest.meter import Meter
from penstock.service.rest.newest_state import NewestState
from penstock.service.rest.savepoint_triggers import SavepointTriggers

_ENDED_MOST = 100
"""Of jobs that have ended, how many are kept: each holds all that was known of it."""


class ServedJob(Protocol):
    """What the endpoint needs of a job. None of it waits for the job master's thread."""

    @property
    def execution_graph(self) -> ExecutionGraph:
        """The job as it was a moment ago."""

    @property
    def metrics(self) -> JobMetrics:
        """Its counters."""

    def cancel(self) -> None:
        """Request cancellation."""

    def savepoint(self, directory: str | None, stop: bool = False, drain: bool = False) -> Future[str]:
        """Take a savepoint, and perhaps stop with it."""

    def checkpoint(self, full: bool = False) -> Future[str]:
        """Take a checkpoint now."""

    def rescale(self, parallelism: Mapping[int, int]) -> Future[str]:
        """Run on with other numbers of subtasks, by vertex."""

    def read_state(self, query: StateQuery) -> Future[LiveState]:
        """Ask the tasks for keyed state as they have it now."""

    def sample_stacks(self, vertex: int, samples: int, delay_ms: int, depth: int) -> Future[list[StacksSampled]]:
        """Ask the slots where the threads of a vertex's tasks are."""

    def dump_threads(self, vertex: int, subtask: int, depth: int) -> Future[list[StacksSampled]]:
        """Ask the slot of a task where all threads of its process are."""


@dataclass(frozen=True)
class JobEntry:
    """A job, and what was known of it when it was submitted."""

    job_id: str
    job: ServedJob
    configuration: Configuration
    checkpoint_directory: str
    log_folder: Path | None
    """None: it keeps no logs."""
    meter: Meter
    flame_graphs: FlameGraphs
    """Those that somebody has looked at."""
    triggers: SavepointTriggers = field(default_factory=SavepointTriggers)
    """Of savepoints."""
    checkpoint_triggers: SavepointTriggers = field(default_factory=SavepointTriggers)
    """Of checkpoints: a client may give both the same id."""
    committed: NewestState = field(default_factory=NewestState)
    seen: ExecutionGraph | None = None
    """By the request that has this entry; None: no request has it."""

    @property
    def graph(self) -> ExecutionGraph:
        """The job as it was a moment ago; for one request always the same one."""
        return self.job.execution_graph if self.seen is None else self.seen

    @property
    def application_id(self) -> str:
        """Of the program: each job is shown as an application of its own."""
        return self.job_id


class ServedJobs:
    """In the order of their submission. Jobs are added by the threads of programs, all else is the server's."""

    def __init__(self) -> None:
        self._entries: dict[str, JobEntry] = {}
        self._lock = threading.Lock()

    def add(self, entry: JobEntry) -> None:
        """A job was submitted."""
        with self._lock:
            # A job that was taken over by its next run comes last, like any new one.
            self._entries.pop(entry.job_id, None)
            self._entries[entry.job_id] = entry
            ended = [id for id, other in self._entries.items() if other.graph.status.is_terminal_state()]
            for id in ended[:-_ENDED_MOST]:
                del self._entries[id]

    def find(self, job_id: str) -> JobEntry | None:
        """The job of that id; None: there is none."""
        with self._lock:
            return self._entries.get(job_id)

    def all(self) -> list[JobEntry]:
        """All of them."""
        with self._lock:
            return list(self._entries.values())


def slot_name(slot: SlotId) -> str:
    """How a slot is named as a task manager: a Python worker, with a log of this name."""
    return f"level-{slot.level}-slot-{slot.index}"
