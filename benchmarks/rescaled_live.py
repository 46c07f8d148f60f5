"""Rescaling of a running job: it takes a checkpoint, and goes on from it with other subtasks.

`silent_s` is the time in which no task runs, as the job itself reports it; `flows_s` the time from the request until
all new subtasks of the sink have received records, checkpoint included. At the end each key's counts must have been
written, each once and none left out: `checked_records`. With more to write the job stands still for longer; figures
without: `--unchecked`.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from benchmarks.keyed_state import StateJob, options
from benchmarks.measurement import tell


def check(files: Path) -> int:
    """That each key's counts go up one by one. Returns how many records were written."""
    counts: dict[str, list[int]] = defaultdict(list)
    for path in files.rglob("part-*"):
        for line in path.read_text(encoding="utf-8").splitlines():
            key, _, count = line.partition(" ")
            counts[key].append(int(count))
    for key, of_key in counts.items():
        of_key.sort()
        assert of_key == list(range(of_key[0], of_key[0] + len(of_key))), f"key {key}: lost or doubled among {of_key}"
    return sum(map(len, counts.values()))


def main() -> None:
    """Measure, by the options."""
    parser = options(__doc__, state_mb=100)
    parser.add_argument("--to", type=int, nargs="+", default=[4, 1], help="one parallelism after the other")
    parser.add_argument("--unchecked", action="store_true", help="write nothing besides")
    arguments = parser.parse_args()
    collected: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        job = StateJob(arguments, Path(name))
        job.load(arguments.parallelism)
        files = None if arguments.unchecked else Path(name, "files")
        run = job.start(arguments.parallelism, arguments.checkpoint_interval_ms, files=files)
        run.wait_for_checkpoints(1)
        for parallelism in arguments.to:
            asked_ns = time.time_ns()
            said = run.client.rescale(parallelism).result()
            silent = re.search(r"after ([0-9.]+) s", said)
            assert silent is not None, said
            collected[f"to_{parallelism}_silent_s"] = float(silent.group(1))
            collected[f"to_{parallelism}_flows_s"] = (run.wait_for_flow(parallelism, asked_ns) - asked_ns) / 1e9
            run.wait_for_checkpoints(1, time.time_ns() // 1_000_000)
        if files is None:
            run.cancel()
        else:
            run.client.stop_with_savepoint(False, f"{name}/saved").result()
            collected["checked_records"] = check(files)
    tell(collected)


if __name__ == "__main__":
    main()
