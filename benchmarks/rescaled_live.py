"""Rescaling of a running job: it takes a checkpoint, and goes on from it with other subtasks.

`silent_s` is the time in which no task runs, as the job itself reports it; `flows_s` the time from the request until
all new subtasks of the sink have received records, checkpoint included.
"""

from __future__ import annotations

import re
import tempfile
import time
from pathlib import Path

from benchmarks.keyed_state import StateJob, options
from benchmarks.measurement import tell


def main() -> None:
    """Measure, by the options."""
    parser = options(__doc__, state_mb=100)
    parser.add_argument("--to", type=int, nargs="+", default=[4, 1], help="one parallelism after the other")
    arguments = parser.parse_args()
    collected: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        job = StateJob(arguments, Path(name))
        job.load(arguments.parallelism)
        run = job.start(arguments.parallelism, arguments.checkpoint_interval_ms)
        run.wait_for_checkpoints(1)
        for parallelism in arguments.to:
            asked_ns = time.time_ns()
            said = run.client.rescale(parallelism).result()
            silent = re.search(r"after ([0-9.]+) s", said)
            assert silent is not None, said
            collected[f"to_{parallelism}_silent_s"] = float(silent.group(1))
            collected[f"to_{parallelism}_flows_s"] = (run.wait_for_flow(parallelism, asked_ns) - asked_ns) / 1e9
            run.wait_for_checkpoints(1, time.time_ns() // 1_000_000)
        run.cancel()
    tell(collected)


if __name__ == "__main__":
    main()
