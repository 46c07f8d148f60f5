"""Settings that can't have their effect: refused, or reported, before a job starts."""

from __future__ import annotations

import logging
import random
import re
from typing import Any

from penstock.common.config_options import ConfigOption
from penstock.common.configuration import Configuration, java_options, option_checks, options
from penstock.common.configuration.checkpoint_interval import checkpoint_interval_ms
from penstock.common.configuration.checkpointing import CheckpointingMode
from penstock.common.errors import ConfigurationError
from penstock.engine.jobmaster.backends import store_settings
from penstock.engine.jobmaster.restarts import restart_strategy
from penstock.engine.jobmaster.settings import JobSettings
from penstock.hosts.traces.reporter import check_traces

_log = logging.getLogger(__name__)

_PICKLED = "no value is Java's here: all are pickled between tasks"

WITHOUT_EFFECT: dict[ConfigOption[Any], str] = {
    options.FORCE_UNALIGNED_CHECKPOINTS: "loops and broadcast inputs stay aligned, all else may be unaligned",
    options.SNAPSHOT_COMPRESSION: "snapshots are not compressed",
    options.TASK_CANCELLATION_INTERVAL: "a task is asked once to stop, and killed after task.cancellation.timeout",
    options.GENERIC_TYPES: "values without a declared type are pickled",
    options.CHAIN_DIFFERENT_MAX_PARALLELISM: "the maximum parallelism does not decide about chains",
    java_options.CLOSURE_CLEANER_LEVEL: "a function travels with what it uses, and nothing else",
    java_options.FORCE_KRYO: _PICKLED,
    java_options.FORCE_AVRO: _PICKLED,
}
"""Flink's settings without a meaning here, and what happens whatever they say."""

_MASTER = "spark.master"
_MASTERS = re.compile(r"(local|spark://|k8s://).*|yarn")


def check_settings(configuration: Configuration) -> None:
    """Warn of settings without effect. Raises ConfigurationError for misspelt keys, wrong values, and those refused."""
    option_checks.check_values(configuration)
    unknown = option_checks.check_keys(configuration)
    if unknown:
        _log.warning("penstock has no such settings, they have no effect: %s", ", ".join(map(repr, unknown)))
    exactly_once = configuration.get(options.CHECKPOINTING_MODE) is CheckpointingMode.EXACTLY_ONCE
    if configuration.get(options.UNALIGNED_CHECKPOINTS) and not exactly_once:
        raise ConfigurationError(
            f"{options.UNALIGNED_CHECKPOINTS.key}: nothing is aligned in mode AT_LEAST_ONCE; leave one of the two out"
        )
    for option, instead in WITHOUT_EFFECT.items():
        if configuration.get(option) != option.default:
            _log.warning("%s has no effect: %s", option.key, instead)
    master = configuration.to_dict().get(_MASTER)
    if master is not None and not _MASTERS.fullmatch(master):
        raise ConfigurationError(
            f"{_MASTER} is spark://HOST:PORT, yarn or k8s://… for a cluster, or local[4] for this machine; "
            f"got {master!r}"
        )


def warn_of_lost_checkpoints(name: str, configuration: Configuration) -> None:
    """Of a job that a cluster runs: its user takes it for one that goes on after the cluster's process."""
    if checkpoint_interval_ms(configuration) is not None and configuration.get(options.CHECKPOINT_DIRECTORY) is None:
        _log.warning(
            "the checkpoints of the job '%s' are gone when the cluster stops, or is killed, and the job does not go on "
            "then: set %s",
            name,
            options.CHECKPOINT_DIRECTORY.key,
        )


def check_streaming_settings(configuration: Configuration) -> None:
    """Raises ConfigurationError for a state backend, restart strategy or other setting of the job master that is none.

    It would be found as well when the job master is made, which is after Spark's start.
    """
    store_settings(configuration)
    restart_strategy(configuration, random.random)
    JobSettings.of(configuration)
    check_traces(configuration)
