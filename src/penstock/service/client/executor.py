"""What runs a program's job graph: the seam between `execute()` and the place where jobs run.

A program builds the same graph wherever it will run, and its environment hands the graph to an executor. The executor
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
    """What receives results in the program's own process, by the id of their sink."""
    configuration: Configuration
    spark: SparkSession | None
    """The session that the program brings; None: the executor provides one."""
    on_start: Callable[[JobID], object] = lambda job_id: None
    """Called when the job's id is known, before Spark is started."""
    on_taken: Callable[[JobID], object] = lambda job_id: None
    """Called before it when a cluster has taken the job, which may wait for slots there."""
    on_waiting: Callable[[JobID, str], object] | None = None
    """Called when a job waits in its cluster, with its reason. `on_start` comes when it begins, and not if it is left
    there; but then, too, if this is None."""
    on_rest: Callable[[RestAddress], object] = lambda address: None
    """Called after it if the job has a REST endpoint."""
    on_control: Callable[[ControlAddress], object] = lambda address: None
    """Called when the job takes commands, at this address."""
    on_plan: Callable[[JobGraph], object] = lambda graph: None
    """Called when the job has other functions, before the one who wanted them is told, or another parallelism."""
    rest_ports: str | None = None
    """Where the job is served over REST if it has no `rest.bind-port`; None: it is not."""
    files: tuple[JobFiles, Path | None] | None = None
    """What travels with the job, as its client has packed it; None: what is named in the configuration."""
    job_id: str = ""
    """The id of the job if it is a new one; empty: any."""
    resumes: str = ""
    """The id of a job that goes on where its process has ended: from its newest checkpoint, if it has one."""
    claims: bool = False
    """Whether a process of a former dispatcher may still run the job: it is fenced off as soon as the job is found, and
    how the job ends stays on record until the dispatcher has been told."""
    is_checked: bool = False
    """Whether a process before this one has asked sources and sinks whether what they read and write is there. A job
    that goes on waits for a server that is away."""
    on_checked: Callable[[], object] = lambda: None
    """Called when they have been asked, and it is."""
    on_claim: Callable[[], object] = lambda: None
    """Called when it is, on whatever the job goes on from. Raises FencedError if this process itself is fenced off."""


class PipelineExecutor(ABC):
    """Runs jobs in one kind of place."""

    @abstractmethod
    def execute(self, submission: Submission) -> JobClient:
        """Start the job and return at once.

        Raises ProgramError, ConfigurationError, NotEnoughSlotsError or SourceError before anything runs.
        """
