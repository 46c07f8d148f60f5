"""Which transport the slots of a job use: the one that is configured, if this PySpark has what it needs."""

from __future__ import annotations

import logging
from functools import cache

from penstock.common.configuration.choices import SparkTransport
from penstock.hosts.spark.internals.worker_streams import misfit

_log = logging.getLogger(__name__)


def usable_transport(configured: SparkTransport) -> SparkTransport:
    """`configured`, or ITERATORS if the pipes of workers can't be taken: with a warning, the first time in a process.

    Looks at the driver's PySpark. A worker whose PySpark differs decides for itself.
    """
    reason = misfit() if configured is SparkTransport.PIPES else None
    if reason is None:
        return configured
    _warn(reason)
    return SparkTransport.ITERATORS


@cache
def _warn(reason: str) -> None:
    _log.warning(
        "jobs run with penstock.spark.transport: iterators, which is slower, as this PySpark differs from the one that "
        "penstock was tested with: %s",
        reason,
    )
