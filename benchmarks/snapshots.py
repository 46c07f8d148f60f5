"""Checkpoints of state of a given size: duration, bytes written, pause of a task. Items 16 and 17.

The first checkpoint is full; later ones contain the changes since the previous one. Times are those of the
coordinator's reports: of a checkpoint from trigger to manifest, of tasks those of the slowest subtask.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.arrivals import Arrivals
from benchmarks.keyed_state import StateJob, options
from benchmarks.measurement import tell

# A second's line is written with the first chunk of the next one.
_LINES_WRITTEN_S = 1.5


def figures(full: Any, changes: list[Any]) -> dict[str, float]:
    """Return the figures of the reports. Raises ValueError if the first checkpoint was not full."""
    if full.written_bytes != full.total_bytes:
        raise ValueError(f"checkpoint {full.checkpoint_id} was not full: {full.written_bytes} of {full.total_bytes}")
    every = [full, *changes]
    return {
        "state_mb": full.total_bytes / 1e6,
        "full_s": full.duration_ms / 1e3,
        "full_mb_per_s": full.written_bytes / 1e3 / full.duration_ms,
        "full_alignment_ms": full.alignment_ms,
        "changes_ms": statistics.median(report.duration_ms for report in changes),
        "changes_mb": statistics.median(report.written_bytes for report in changes) / 1e6,
        "written_share": statistics.median(report.written_bytes for report in changes) / full.written_bytes,
        "sync_ms": max(report.sync_ms for report in every),
        "alignment_ms": max(report.alignment_ms for report in every),
    }


def main() -> None:
    """Measure, by the options."""
    parser = options(__doc__, state_mb=1_000)
    parser.set_defaults(checkpoint_interval_ms=10_000)
    parser.add_argument("--checkpoints", type=int, default=6, help="how many of changes, after the full one")
    parser.add_argument("--changed-percent", type=float, help="keys that change between checkpoints: sets the rate")
    arguments = parser.parse_args()
    interval_s = arguments.checkpoint_interval_ms / 1e3
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        job = StateJob(arguments, Path(name))
        if arguments.changed_percent is not None:
            arguments.rate = job.keys * arguments.changed_percent / 100 / interval_s
        job.load(arguments.parallelism)
        run = job.start(arguments.parallelism, arguments.checkpoint_interval_ms)
        full, *changes = run.wait_for_checkpoints(arguments.checkpoints + 1)
        time.sleep(_LINES_WRITTEN_S)
        run.cancel()
        arrivals = Arrivals(run.directory, full.triggered_ms // 1000, changes[-1].triggered_ms // 1000)
        changed = arrivals.records_per_s * interval_s / job.keys
        tell({**figures(full, changes), "changed_share": changed, "records_per_s": arrivals.records_per_s})


if __name__ == "__main__":
    main()
