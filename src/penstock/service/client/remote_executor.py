"""Submit jobs to a running penstock cluster: `execution.target: remote`, `penstock run -m HOST:PORT`."""

from __future__ import annotations

import logging
import time
from typing import Any

import msgspec

from penstock.common.configuration import Configuration, rest_options
from penstock.common.errors import ConfigurationError, JobError
from penstock.common.job_client import JobClient
from penstock.common.job_id import JobID
from penstock.service.client.event_time_check import warn_of_event_time
from penstock.service.client.executor import PipelineExecutor, Submission
from penstock.service.client.leader_client import LeaderClient
from penstock.service.client.live_line import LiveLine
from penstock.service.client.packed_job import packed
from penstock.service.client.remote_job import RemoteJob
from penstock.service.client.rest_client import RestClient, UnreachableError
from penstock.service.client.settings_check import check_settings, check_streaming_settings, warn_of_lost_checkpoints
from penstock.service.client.sinks_check import check_sinks
from penstock.service.cluster.high_availability.services import is_highly_available
from penstock.service.cluster.running_cluster import running_clusters

_POLL_S = 0.1
_log = logging.getLogger(__name__)


class RemoteExecutor(PipelineExecutor):
    """Run jobs in a cluster, where they outlive this program; this process starts no Spark."""

    def execute(self, submission: Submission) -> JobClient:
        """Send the job, and wait until it starts, or, if detached, until it waits for slots.

        Raises ProgramError and ConfigurationError for a job that can't run, JobError if the cluster refuses it.
        """
        graph, configuration = submission.graph, submission.configuration
        if submission.spark is not None:
            raise ConfigurationError(
                f"the job '{graph.name}' was given a SparkSession, and execution.target is 'remote': jobs of a cluster "
                "run in the cluster's own Spark application"
            )
        _check_of_cluster(configuration)
        check_settings(configuration)
        if graph.mode.has_job_master:
            check_streaming_settings(configuration)
            warn_of_lost_checkpoints(graph.name, configuration)
        check_sinks(graph, configuration)
        warn_of_event_time(graph)
        job, bundle = packed(submission)
        cluster = cluster_of(configuration)
        id = JobID.generate()
        attached = configuration.get(rest_options.ATTACHED)
        run = RemoteJob(cluster, str(id), graph, attached)
        try:
            run.submit(msgspec.msgpack.encode(job), bundle)
        except UnreachableError as error:
            raise UnreachableError(
                f"{error}. Is the cluster running? penstock cluster status shows those of this machine, penstock "
                "cluster start starts one"
            ) from None
        submission.on_taken(id)
        try:
            state = self._begun(run, submission, JobID(str(id)), attached)
        except KeyboardInterrupt as interrupt:
            # Without this the job would start when slots become free, although its program has gone.
            try:
                run.cancel()
            except JobError as error:
                interrupt.add_note(str(error))
            raise
        # The id of the submission, which also finds the job: the job's own id is not known until it starts.
        job_id = JobID(state["job_id"] or str(id))
        if state["job_id"] or submission.on_waiting is None:
            submission.on_start(job_id)
        return JobClient(job_id, run)

    @staticmethod
    def _begun(run: RemoteJob, submission: Submission, id: JobID, attached: bool) -> dict[str, Any]:
        """Wait until the job has its slots and its id; a detached job may still be waiting when this returns.

        `id`: the id of the submission. Returns the job's state; raises the error of a job that could not start.
        """
        name = submission.graph.name
        is_told = False
        with LiveLine() as line:
            while not (state := run.retried_state())["job_id"]:
                if state["status"] is not None:
                    raise run.wait() or ConfigurationError(f"the job '{name}' was canceled before it started")
                line.show(f"job '{name}' {state['waiting'] or 'starts'} …")
                if state["waiting"] and not is_told:
                    is_told = True
                    if submission.on_waiting is not None:
                        submission.on_waiting(id, state["waiting"])
                    elif not (attached and line.is_on):
                        # Without a terminal, a program that waits for hours would print nothing.
                        _log.warning("job '%s' %s", name, state["waiting"])
                if state["waiting"] and not attached:
                    break
                time.sleep(_POLL_S)
        return state


def _check_of_cluster(configuration: Configuration) -> None:
    of_spark = sorted(key for key in configuration.to_dict() if key.startswith("spark."))
    if of_spark:
        raise ConfigurationError(
            f"{', '.join(of_spark)}: settings of Spark are those of the cluster, whose Spark application runs the job "
            f"(penstock cluster start -D {of_spark[0]}=…). Leave them out, or run the job on its own: without "
            "execution.target: remote, penstock run without -m"
        )


def cluster_of(configuration: Configuration) -> RestClient:
    """Return the cluster that a configuration names, or the only one of this user on this machine.

    With leader election, requests follow the leader. Raises ConfigurationError if there is no cluster, or several.
    """
    if is_highly_available(configuration):
        leader = LeaderClient(configuration)
        leader.wait_for_leader()
        return leader
    host, port = configuration.get(rest_options.REST_ADDRESS), configuration.get(rest_options.REST_PORT)
    if host is not None:
        by_tls = configuration.get(rest_options.SSL_ENABLED) and "://" not in host
        return RestClient.at("https://" * by_tls + f"{host}:{port}")
    found = [cluster.rest for cluster in running_clusters() if cluster.rest is not None]
    if len(found) != 1:
        known = " · ".join(rest.url for rest in found) or "none runs on this machine"
        raise ConfigurationError(
            f"name the cluster: {rest_options.REST_ADDRESS.key} and {rest_options.REST_PORT.key}, or penstock "
            f"run -m HOST:PORT ({known}). To start one: penstock cluster start"
        )
    return RestClient(found[0].url, found[0].token())
