"""What must hold of a run: its output, its state, what it leaves behind, and what it has said."""

from __future__ import annotations

import re
import time
from collections import Counter
from pathlib import Path

from tests.chaos.driven_job import DrivenJob
from tests.chaos.plan import Fault, Kind, Moment
from tests.chaos.processes import marked
from tests.chaos.program import KEYS, expected

_TIME_TO_END_S = 60


def output(lines: list[str], orders: int, exactly_once: bool) -> list[str]:
    """What is wrong with the committed lines. At least once: a sum may be higher, and any line come again."""
    found, wanted = Counter(lines), expected(orders)
    if exactly_once:
        lost, more = wanted - found, found - wanted
        return [f"{what} {sum(of.values())}: {list(of)[:5]}" for what, of in (("lost", lost), ("doubled", more)) if of]
    sums: dict[str, int] = {}
    for line in lines:
        if line.startswith("sum,"):
            place, _, total = line.rpartition(",")
            sums[place] = max(sums.get(place, 0), int(total))
    lost_lines = []
    for line in wanted:
        place, _, total = line.rpartition(",")
        is_there = sums.get(place, -1) >= int(total) if line.startswith("sum,") else line in found
        if not is_there:
            lost_lines.append(line)
    return [f"lost {len(lost_lines)}: {lost_lines[:5]}"] if lost_lines else []


def state(savepoint: str, lines: list[str]) -> list[str]:
    """What is wrong with the state in a savepoint with which the job has stopped: it belongs to what is committed."""
    from penstock.state_processor import SavepointReader

    counts = dict(SavepointReader.read(savepoint).entries("tally", "count"))
    numbers = dict.fromkeys(range(KEYS), 0)
    for line in lines:
        if line.startswith("tally,"):
            _, key, number = line.split(",")
            numbers[int(key)] = max(numbers[int(key)], int(number))
    wrong = {key: (counts.get(key, 0), number) for key, number in numbers.items() if counts.get(key, 0) != number}
    return [f"state and output differ in {len(wrong)} keys: {list(wrong.items())[:3]}"] if wrong else []


def leftovers(job: DrivenJob) -> list[str]:
    """What a job that has ended has left: processes, checkpoints, working directories.

    Not the hidden files of writers that were killed: connectors.md promises only that nobody reads them.
    """
    deadline = time.monotonic() + _TIME_TO_END_S
    while (alive := marked(job.mark)) and time.monotonic() < deadline:
        time.sleep(0.2)
    left = [f"process {pid}: {command[:100]}" for pid, command in alive.items()]
    left += [f"checkpoint file {path.relative_to(job.checkpoints)}" for path in _files(job.checkpoints)]
    left += [f"working directory {path.name}" for path in job.temporary.glob("penstock-*")]
    return left


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


_FAILED = re.compile(r"failed and restarts|^penstock\.\w+Error", re.MULTILINE)
_ENDED = re.compile(r"^penstock\.\w+Error", re.MULTILINE)
_NOT_ALWAYS_READ = {Kind.STATE_FLIPPED, Kind.RECORD_FLIPPED}
"""What restores something else finds nothing. That nothing is restored as it was not, the output shows."""
_SAYS = {
    Kind.WORKER_KILLED: r"SIGKILL|signal 9|killed|lost|heartbeat|another run|savepoint",
    Kind.DAEMON_KILLED: r"SIGKILL|signal 9|killed|lost|ended|daemon",
    Kind.JVM_KILLED: r"JVM",
    Kind.EXECUTOR_KILLED: r"executor|lost|slots",
    Kind.DRIVER_REPLACED: r"another run has taken|still running|continued in the meantime",
    Kind.DISK_FULL: r"[Nn]o space left",
    Kind.STORE_FAILS: r"[Oo]peration not permitted",
    Kind.STATE_FLIPPED: r"damaged",
    Kind.RECORD_FLIPPED: r"damaged",
    Kind.CONNECTIONS_CUT: r"connection|JVM|lost|heartbeat|SIGKILL|killed|another run",
    Kind.WORKER_STOPPED: r"heartbeat|silent|SIGKILL|lost|went away",
}


def messages(fault: Fault, said: str) -> list[str]:
    """What is missing in what a job has said since a fault, if it has failed by it."""
    pattern = _SAYS.get(fault.kind)
    if fault.moment is Moment.RESTORE and re.search(_SAYS[Kind.WORKER_KILLED], said):
        # What it has said may be of the worker that was killed first, so that the job restores.
        return []
    failed = _ENDED if fault.kind in _NOT_ALWAYS_READ else _FAILED
    if pattern is None or not failed.search(said) or re.search(pattern, said):
        return []
    return [f"nothing said of '{fault.kind.value}': {said[-300:]!r}"]
