"""Check that this machine can host a job: all its worker processes run at once."""

from __future__ import annotations

import os

from penstock.common.configuration import Configuration
from penstock.common.configuration.options import TASK_SLOTS
from penstock.common.errors import NotEnoughSlotsError
from penstock.engine.plan.job_graph import JobGraph
from penstock.hosts.spark.driver.worker_counts import worker_counts

PROCESSES_MIN = 64
SLOTS_MIN = 256
"""This many slots work on any machine."""
_PROCESSES_PER_CORE = 32
_SLOTS_PER_CORE = 128
_MASTER = "spark.master"


def check_slots(graph: JobGraph, configuration: Configuration, cores: int | None = None) -> None:
    """Raise NotEnoughSlotsError if the job needs far more slots than this machine has cores, and no master is set.

    On a local master, also raise if the slots need more file descriptors than a process may open. `cores`: None means
    those of this machine. A job with `spark.master` is not checked: its user chose the number, or another machine.
    """
    if graph.mode.blocking_exchanges:
        return
    counts = worker_counts(graph, configuration, configuration.to_dict().get(_MASTER, "local[*]"))
    processes = sum(counts)
    cores = cores or os.cpu_count() or 1
    processes_most = max(PROCESSES_MIN, _PROCESSES_PER_CORE * cores)
    slots_most = max(SLOTS_MIN, _SLOTS_PER_CORE * cores)
    if (processes <= processes_most and graph.slots <= slots_most) or _MASTER in configuration.key_set():
        return
    widths = " + ".join(map(str, graph.widths))
    raise NotEnoughSlotsError(
        f"the job '{graph.name}' needs {graph.slots:,} slots at once ({widths}), in {processes:,} Python processes of "
        f"some 60 MB each. This machine has {cores} core{'s'[: cores > 1]}, where penstock starts up to {slots_most} "
        f"slots in {processes_most} processes.\n"
        f"  Do one of: a lower parallelism (env.set_parallelism, penstock run -p) · spark.master: a cluster · "
        f"execution.runtime-mode: BATCH (if all sources are bounded) · {TASK_SLOTS.key}: 4 or more, if there are too "
        f"many processes · if it is meant: spark.master: local[{graph.slots}]"
    )
