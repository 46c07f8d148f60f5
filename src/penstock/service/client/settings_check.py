"""Refuse or report settings that can't have their effect, before a job starts."""

from __future__ import annotations

import logging
import random
import re
from typing import Any

from penstock.common.config_options import ConfigOption
from penstock.common.configuration import Configuration, option_checks, options
from penstock.common.configuration.choices import CheckpointingMode
from penstock.common.configuration.options import checkpoint_interval_ms
from penstock.common.errors import ConfigurationError
from penstock.engine.jobmaster.backends import store_settings
from penstock.engine.jobmaster.restarts import restart_strategy
from penstock.engine.jobmaster.settings import JobSettings
from penstock.engine.plan.job_graph import JobGraph
from penstock.hosts.traces.reporter import check_traces

_log = logging.getLogger(__name__)

_PICKLED = "there are no Java values: all values are pickled between tasks"

WITHOUT_EFFECT: dict[ConfigOption[Any], str] = {
    options.FORCE_UNALIGNED_CHECKPOINTS: "loops and broadcast inputs stay aligned, all else may be unaligned",
    options.SNAPSHOT_COMPRESSION: "snapshots are not compressed",
    options.TASK_CANCELLATION_INTERVAL: "a task gets one request to stop; task.cancellation.timeout kills it",
    options.GENERIC_TYPES: "values without a declared type are pickled",
    options.CHAIN_DIFFERENT_MAX_PARALLELISM: "the maximum parallelism does not decide about chains",
    options.CLOSURE_CLEANER_LEVEL: "a function is sent with what it refers to, and nothing else",
    options.FORCE_KRYO: _PICKLED,
    options.FORCE_AVRO: _PICKLED,
}
"""Flink's settings without a meaning here, and what happens regardless of their values."""

_MASTER = "spark.master"
_MASTERS = re.compile(r"(local|spark://|k8s://).*|yarn")


def check_settings(configuration: Configuration) -> None:
    """Warn of settings without effect. Raises ConfigurationError for misspelled keys and invalid or refused values."""
    option_checks.check_values(configuration)
    unknown = option_checks.check_keys(configuration)
    if unknown:
        _log.warning("penstock does not have these settings, so they have no effect: %s", ", ".join(map(repr, unknown)))
    exactly_once = configuration.get(options.CHECKPOINTING_MODE) is CheckpointingMode.EXACTLY_ONCE
    if configuration.get(options.UNALIGNED_CHECKPOINTS) and not exactly_once:
        raise ConfigurationError(
            f"{options.UNALIGNED_CHECKPOINTS.key}: nothing is aligned in mode AT_LEAST_ONCE; leave one of the two out"
        )
    if configuration.get(options.CHECKPOINT_EACH_SUPERSTEP) and checkpoint_interval_ms(configuration) is None:
        raise ConfigurationError(
            f"{options.CHECKPOINT_EACH_SUPERSTEP.key}: the job takes no checkpoints; "
            f"set {options.CHECKPOINT_INTERVAL.key}"
        )
    for option, instead in WITHOUT_EFFECT.items():
        if configuration.get(option) != option.default:
            _log.warning("%s has no effect: %s", option.key, instead)
    master = configuration.to_dict().get(_MASTER)
    if master is not None and not _MASTERS.fullmatch(master):
        raise ConfigurationError(
            f"{_MASTER} must be spark://HOST:PORT, yarn or k8s://… for a cluster, or local[4] for this machine, "
            f"got {master!r}"
        )


def warn_of_lost_checkpoints(name: str, configuration: Configuration) -> None:
    """Warn if a cluster runs the job without durable checkpoints: users expect it to survive the cluster's process."""
    if checkpoint_interval_ms(configuration) is not None and configuration.get(options.CHECKPOINT_DIRECTORY) is None:
        _log.warning(
            "the checkpoints of the job '%s' are lost when the cluster stops or is killed, and the job can't be "
            "resumed then: set %s",
            name,
            options.CHECKPOINT_DIRECTORY.key,
        )


def warn_of_temporary_checkpoints(graph: JobGraph, configuration: Configuration) -> None:
    """Warn if checkpoints of an endless job on this machine go with its process: a later run can't resume from them."""
    if (
        checkpoint_interval_ms(configuration) is not None
        and configuration.get(options.CHECKPOINT_DIRECTORY) is None
        and not graph.stream_graph.is_bounded
    ):
        _log.warning(
            "the checkpoints of the job '%s' are in a temporary folder and go with this process: it restarts from "
            "them, a later run can't. Set %s to keep them",
            graph.name,
            options.CHECKPOINT_DIRECTORY.key,
        )


def check_streaming_settings(configuration: Configuration) -> None:
    """Raise ConfigurationError for an unknown state backend, restart strategy or other setting of the job master.

    Creating the job master would find it too, but only after Spark's start.
    """
    store_settings(configuration)
    restart_strategy(configuration, random.random)
    JobSettings.of(configuration)
    check_traces(configuration)
