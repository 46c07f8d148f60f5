"""Rescaling: a job is restored from its checkpoint with another parallelism. Item 19.

`runs_s` is the time from the call that starts it until all its tasks run with restored state; Spark's session already
exists. `read_share` compares the bytes that a task read with those of its key groups in the checkpoint (maximum over
tasks).
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from benchmarks.keyed_state import KEEPER, Running, StateJob, options
from benchmarks.measurement import tell, wait_until
from penstock.engine.state.key_groups import key_group_range


def bytes_by_group(manifest: Path) -> tuple[dict[int, int], int]:
    """Return the bytes per key group of the keeper's state in a checkpoint, and the number of key groups."""
    content = json.loads(manifest.read_text(encoding="utf-8"))
    (keeper,) = [operator for operator in content["operators"] if operator["state_id"] == KEEPER]
    held: dict[int, int] = {}
    for part in keeper["subtasks"]:
        for file in part["state"]["keyed"]:
            for group, _, length, _ in file["sections"]:
                held[group] = held.get(group, 0) + length
    return held, keeper["max_parallelism"]


def figures(run: Running, parallelism: int, manifest: Path) -> dict[str, float]:
    """Return the figures of a run's start from this checkpoint."""
    held, groups = bytes_by_group(manifest)
    of_task = [
        sum(held.get(group, 0) for group in key_group_range(subtask, groups, parallelism))
        for subtask in range(parallelism)
    ]

    def read_by_task() -> list[int]:
        return [report.restored_bytes for report in run.keeper.subtasks]

    # Tasks report periodically: their first reports precede the restore.
    wait_until(run.client, lambda: len(read_by_task()) == parallelism and all(read_by_task()), "not all tasks report")
    read = read_by_task()
    return {
        f"to_{parallelism}_runs_s": run.runs_s,
        f"to_{parallelism}_read_mb": max(read) / 1e6,
        f"to_{parallelism}_read_share": max(n / max(1, of) for n, of in zip(read, of_task, strict=True)),
    }


def main() -> None:
    """Measure, by the options."""
    parser = options(__doc__, state_mb=500)
    parser.add_argument("--to", type=int, nargs="+", default=[4, 1], help="one parallelism after the other")
    arguments = parser.parse_args()
    collected: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        job = StateJob(arguments, Path(name))
        job.load(arguments.parallelism)
        for parallelism in arguments.to:
            manifest = job.newest_checkpoint()
            run = job.start(parallelism, arguments.checkpoint_interval_ms)
            collected |= figures(run, parallelism, manifest)
            run.wait_for_checkpoints(1)
            run.cancel()
    tell(collected)


if __name__ == "__main__":
    main()
