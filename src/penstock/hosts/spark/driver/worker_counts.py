"""How many worker processes host the slots of each level of a job, and how many files they make Spark's JVM open.

Spark connects each worker of a level with each worker of the next one, and serves each connection by an event loop of
its own. On a local master both ends of all connections are in one JVM, so descriptors and threads grow with the square
of the workers. Beyond a number of workers their slots share them.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Sequence

from penstock.common.configuration import Configuration
from penstock.common.configuration.options import TASK_SLOTS
from penstock.common.errors import NotEnoughSlotsError
from penstock.engine.plan.job_graph import JobGraph

_WORKERS_MOST = 16
"""Of a level, unless the machine has more cores: 16 connect by 256 connections and 1,280 descriptors."""
_OF_JVM = 400
_OF_WORKER = 10
_OF_CONNECTION = 5
"""Descriptors, as counted in the JVM of Spark 4.3: two ends of a socket, and three of the event loop."""
_RESERVED = 0.2
"""The part of the descriptors that is left to connectors and to other jobs of the JVM."""


def worker_counts(
    graph: JobGraph, configuration: Configuration, master: str, limit: int | None = None
) -> tuple[int, ...]:
    """Return the number of workers of each level.

    `master`: Spark's, on which the job is to run. `limit`: how many files a JVM may open; None: as the system says.
    Raises NotEnoughSlotsError if a local master's JVM may not open as many files as the job needs.
    """
    widths = graph.widths
    each = configuration.get(TASK_SLOTS)
    if not master.startswith("local["):
        return _shared(widths, each or 1)
    limit = descriptor_limit() if limit is None else limit
    if each is not None:
        counts = _shared(widths, each)
    else:
        most = max(_WORKERS_MOST, os.cpu_count() or 1)
        counts = _at_most(widths, most)
        while most > 1 and descriptors(counts, graph.regions) > limit * (1 - _RESERVED):
            most -= 1
            counts = _at_most(widths, most)
    needed = descriptors(counts, graph.regions)
    if needed > limit:
        raise NotEnoughSlotsError(_too_many(graph, counts, needed, limit))
    return counts


def descriptors(workers: Sequence[int], regions: Sequence[range]) -> int:
    """Return how many descriptors the JVM of a local master needs for so many workers, by level. An estimate."""
    connections = sum(workers[level] * workers[level + 1] for region in regions for level in region[:-1])
    return _OF_JVM + _OF_WORKER * sum(workers) + _OF_CONNECTION * connections


def descriptor_limit() -> int:
    """Return how many files a JVM that this process starts may open: it raises its soft limit to the hard one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return hard if hard != resource.RLIM_INFINITY else 1 << 20


def _shared(widths: Sequence[int], each: int) -> tuple[int, ...]:
    return tuple(-(-width // each) for width in widths)


def _at_most(widths: Sequence[int], most: int) -> tuple[int, ...]:
    return tuple(min(width, most) for width in widths)


def _too_many(graph: JobGraph, counts: Sequence[int], needed: int, limit: int) -> str:
    processes = " + ".join(map(str, counts))
    return (
        f"the job '{graph.name}' needs about {needed:,} file descriptors in Spark's JVM ({processes} worker processes, "
        f"each connected with all of the next level), and a process may open {limit:,} here.\n"
        f"  Do one of: a higher {TASK_SLOTS.key}, so that slots share processes · a lower parallelism "
        "(env.set_parallelism, penstock run -p) · more descriptors (ulimit -Hn) · spark.master: a cluster"
    )
