"""Recovery: a worker is killed (`kill -9`), until records reach the sink again. Item 18.

The worker is one of those that hold state. `flowing_s` is the time from the kill until every subtask of the sink has
received a record in the next attempt; `noticed_s` the time until the job detected the loss. In between are the restart
strategy's delay (one second by default), the start of new tasks, and the restore of their state.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path

from benchmarks.keyed_state import StateJob, options
from benchmarks.measurement import tell, wait_until
from benchmarks.process_tree import workers
from penstock.common import JobStatus

_POLL_S = 0.005


def main() -> None:
    """Measure, by the options."""
    parser = options(__doc__, state_mb=100)
    parser.add_argument("--checkpoints", type=int, default=5, help="how many are taken before the kill")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        job = StateJob(arguments, Path(name))
        job.load(arguments.parallelism)
        run = job.start(arguments.parallelism, arguments.checkpoint_interval_ms)
        run.wait_for_flow(arguments.parallelism)
        last = run.wait_for_checkpoints(arguments.checkpoints)[-1]
        # The order in which workers are forked is unspecified, but the largest one is one of those with state.
        victim = max(workers(), key=lambda process: process.memory_info().rss)
        killed_ns = time.time_ns()
        os.kill(victim.pid, signal.SIGKILL)
        wait_until(run.client, lambda: run.status is not JobStatus.RUNNING, "nobody noticed", poll_s=_POLL_S)
        noticed_ns = time.time_ns()
        flowing_ns = run.wait_for_flow(arguments.parallelism, noticed_ns)
        restored = run.keeper.restored_bytes
        run.cancel()
        tell(
            {
                "state_mb": job.keys * arguments.value_bytes / 1e6,
                "checkpoint_mb": last.total_bytes / 1e6,
                "noticed_s": (noticed_ns - killed_ns) / 1e9,
                "flowing_s": (flowing_ns - killed_ns) / 1e9,
                "restored_mb": restored / 1e6,
            }
        )


if __name__ == "__main__":
    main()
