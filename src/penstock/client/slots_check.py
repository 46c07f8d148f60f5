"""Whether this machine can host a job: each slot is a process of its own, and all of them run at once."""

from __future__ import annotations

import os

from penstock.common.configuration import Configuration
from penstock.common.errors import NotEnoughSlotsError
from penstock.plan.job_graph import JobGraph

SLOTS_LEAST = 64
"""So many work on any machine."""
_SLOTS_PER_CORE = 32


def check_slots(graph: JobGraph, configuration: Configuration, cores: int | None = None) -> None:
    """Raise NotEnoughSlotsError if the job needs far more slots than this machine has cores, and no master is set.

    `cores`: None: those of this machine. Who sets `spark.master` has asked for it, or has another machine.
    """
    cores = cores or os.cpu_count() or 1
    most = max(SLOTS_LEAST, _SLOTS_PER_CORE * cores)
    if graph.slots <= most or "spark.master" in configuration.key_set():
        return
    widths = " + ".join(map(str, graph.widths))
    raise NotEnoughSlotsError(
        f"the job '{graph.name}' needs {graph.slots:,} slots at once ({widths}), each a Python process of some 60 MB. "
        f"This machine has {cores} core{'s'[: cores > 1]}, where penstock starts up to {most}.\n"
        "  Do one of: a lower parallelism (env.set_parallelism, penstock run -p) · spark.master: a cluster · "
        "execution.runtime-mode: BATCH (if all sources are bounded) · if it is meant: "
        f"spark.master: local[{graph.slots}]"
    )
