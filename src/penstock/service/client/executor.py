"""The executor of job graphs: the seam between `execute()` and the place where jobs run.

A program builds the same graph wherever it will run, and its environment passes the graph to an executor. The executor
loader chooses one by `execution.target`. Flink: PipelineExecutor.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.common.configuration import Configuration
from penstock.common.job_client import JobClient
from penstock.common.job_id import JobID
from penstock.engine.jobmaster.results.result_sinks import ResultSink
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.rpc.keys import ControlAddress
from penstock.hosts.spark.job_files import JobFiles
from penstock.service.cluster.rest_address import RestAddress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Submission:
    """A job as its program submits it."""

    graph: JobGraph
    result_sinks: dict[int, ResultSink]
    """Receivers of results in the program's own process, by the id of their sink."""
    configuration: Configuration
    spark: SparkSession | None
    """The session that the program brings; None: the executor provides one."""
    on_start: Callable[[JobID], object] = lambda job_id: None
    """Called when the job's id is known, before Spark is started."""
    on_taken: Callable[[JobID], object] = lambda job_id: None
    """Called before `on_start`, when a cluster has accepted the job, which may wait for slots there."""
    on_waiting: Callable[[JobID, str], object] | None = None
    """Called when a job waits in its cluster, with the reason.

    `on_start` follows when the job starts, and not if the caller detaches; without `on_waiting` it is called even then.
    """
    on_rest: Callable[[RestAddress], object] = lambda address: None
    """Called after `on_start` if the job has a REST endpoint."""
    on_control: Callable[[ControlAddress], object] = lambda address: None
    """Called when the job accepts commands at this address."""
    on_plan: Callable[[JobGraph], object] = lambda graph: None
    """Called when the job has new functions or another parallelism, before the requester gets its answer."""
    rest_ports: str | None = None
    """Ports for the job's REST endpoint if it has no `rest.bind-port`; None: no endpoint."""
    files: tuple[JobFiles, Path | None] | None = None
    """Files that travel with the job, as its client packed them; None: those that the configuration names."""
    job_id: str = ""
    """The id of a new job; empty: a random one."""
    resumes: str = ""
    """The id of a job whose process has ended: it resumes from its newest checkpoint, if it has one."""
    claims: bool = False
    """Whether a process of an earlier dispatcher may still run the job.

    That process is fenced off as soon as the job is found, and the job's end stays on record until the dispatcher has
    read it.
    """
    is_checked: bool = False
    """Whether an earlier process has checked that sources and sinks can reach what they read and write.

    A resumed job waits for a server that is unavailable, instead of failing.
    """
    on_checked: Callable[[], object] = lambda: None
    """Called when sources and sinks were checked successfully."""
    on_claim: Callable[[], object] = lambda: None
    """Called with what the job resumes from. Raises FencedError if this process itself is fenced off."""


class PipelineExecutor(ABC):
    """Runs jobs in one kind of place."""

    runs_jobs = True
    """Whether jobs run: not those that are only planned."""

    @abstractmethod
    def execute(self, submission: Submission) -> JobClient:
        """Start the job and return at once.

        Raises ProgramError, ConfigurationError, NotEnoughSlotsError or SourceError before anything runs.
        """
