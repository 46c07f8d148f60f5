"""The number of worker processes for each level of a job, and the number of files that Spark's JVM opens for them.

Spark connects each worker of a level with each worker of the next one, and has an event loop for each connection. On a
local master both ends of all connections are in one JVM, so descriptors and threads grow with the square of the number
of workers. So the number of workers is limited, and slots share them beyond that.

The slots of a structured iteration share as many workers as the machine has cores. In each superstep all wait for each
other, so further workers compute nothing sooner, and each pair of them would exchange a message.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Container, Sequence

from penstock.common.configuration import Configuration
from penstock.common.configuration.options import TASK_SLOTS
from penstock.common.errors import NotEnoughSlotsError
from penstock.engine.plan.job_graph import JobGraph

_WORKERS_MAX = 16
"""Maximum number of workers of a level, unless the machine has more cores. Two levels of 16 workers have 256
connections and 1,280 descriptors."""
_DESCRIPTORS_OF_JVM = 400
_DESCRIPTORS_PER_WORKER = 10
_DESCRIPTORS_PER_CONNECTION = 5
"""As counted in the JVM of Spark 4.3: two for the ends of a socket, and three for the event loop."""
_RESERVED = 0.2
"""The part of the descriptors that is reserved for connectors and for other jobs of the JVM."""


def worker_counts(
    graph: JobGraph, configuration: Configuration, master: str, limit: int | None = None
) -> tuple[int, ...]:
    """Return the number of workers of each level.

    `master`: the Spark master that runs the job. `limit`: the maximum number of files that a JVM may open; None: the
    system's limit. Raises NotEnoughSlotsError if the JVM of a local master would have to open more files.
    """
    widths = graph.widths
    slots_per_worker = configuration.get(TASK_SLOTS)
    if not master.startswith("local["):
        return _shared(widths, slots_per_worker or 1)
    limit = descriptor_limit() if limit is None else limit
    if slots_per_worker is not None:
        counts = _shared(widths, slots_per_worker)
    else:
        cores = os.cpu_count() or 1
        workers_max = max(_WORKERS_MAX, cores)
        wanted = _limited(widths, cores, graph.superstep_levels)
        counts = _limited(wanted, workers_max)
        while workers_max > 1 and needed_descriptors(counts, graph.regions) > limit * (1 - _RESERVED):
            workers_max -= 1
            counts = _limited(wanted, workers_max)
    needed = needed_descriptors(counts, graph.regions)
    if needed > limit:
        raise NotEnoughSlotsError(_too_many_text(graph, counts, needed, limit))
    return counts


def needed_descriptors(workers: Sequence[int], regions: Sequence[range]) -> int:
    """Estimate how many descriptors the JVM of a local master needs. `workers`: their number by level."""
    connections = sum(workers[level] * workers[level + 1] for region in regions for level in region[:-1])
    per_worker = _DESCRIPTORS_PER_WORKER * sum(workers)
    return _DESCRIPTORS_OF_JVM + per_worker + _DESCRIPTORS_PER_CONNECTION * connections


def descriptor_limit() -> int:
    """Return how many files a JVM that this process starts may open: it raises its soft limit to the hard one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return hard if hard != resource.RLIM_INFINITY else 1 << 20


def _shared(widths: Sequence[int], slots_per_worker: int) -> tuple[int, ...]:
    return tuple(-(-width // slots_per_worker) for width in widths)


def _limited(widths: Sequence[int], workers_max: int, levels: Container[int] | None = None) -> tuple[int, ...]:
    """Limit the workers of each level, or of `levels`."""
    return tuple(
        min(width, workers_max) if levels is None or level in levels else width for level, width in enumerate(widths)
    )


def _too_many_text(graph: JobGraph, counts: Sequence[int], needed: int, limit: int) -> str:
    processes = " + ".join(map(str, counts))
    return (
        f"the job '{graph.name}' needs about {needed:,} file descriptors in Spark's JVM ({processes} worker processes, "
        f"each connected with all of the next level), and a process may open {limit:,} here.\n"
        f"  Do one of: a higher {TASK_SLOTS.key}, so that slots share processes · a lower parallelism "
        "(env.set_parallelism, penstock run -p) · more descriptors (ulimit -Hn) · spark.master: a cluster"
    )
