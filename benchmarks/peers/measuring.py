"""One measurement: start a new process tree, warm up, observe a window, and kill the tree.

The window begins `warm_up` seconds after the first record and lasts `seconds`. The job's counter files (see
counting.py) are read after the tree has ended.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.own_processes import own_processes

Line = dict[str, Any]

START_LIMIT_S = 120
CORES = 2
# Counters write four times a second, windows fire once a second.
_SLACK_S = 1.5
_OUTPUT_CHARS = 3000
# Windows that end a second apart, fired as time goes on, are further apart than that.
_AT_ONCE_US = 300_000


class FailedError(Exception):
    """The job failed, or did not produce figures in time."""


def measure(command: list[str], directory: Path, variables: Mapping[str, str], warm_up: float, seconds: float) -> Line:
    """Run `command`; return `records_per_s` and, if ages are recorded, `p50_ms`, `p90_ms`, `p99_ms`.

    Raises FailedError.
    """
    with own_processes() as mark, tempfile.TemporaryFile("w+") as output:
        root = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **variables, **mark},
            cwd=directory,
            start_new_session=True,
            preexec_fn=_take_two_cores,
        )
        try:
            _wait(root, directory, START_LIMIT_S)
            deadline = time.monotonic() + warm_up + seconds + _SLACK_S
            while time.monotonic() < deadline and root.poll() is None:
                time.sleep(0.1)
            if root.returncode is not None:
                raise FailedError(f"exited with {root.returncode}")
        except FailedError as error:
            output.seek(0)
            raise FailedError(f"{error}\n{output.read()[-_OUTPUT_CHARS:]}") from None
        finally:
            root.kill()
            root.wait()
    return figures([_read(path) for path in directory.glob("*.jsonl")], warm_up, seconds)


def _take_two_cores() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])


def _wait(root: subprocess.Popen[bytes], directory: Path, limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while not any(path.stat().st_size for path in directory.glob("*.jsonl")):
        if root.poll() is not None:
            raise FailedError(f"exited with {root.returncode} before its first record")
        if time.monotonic() > deadline:
            raise FailedError(f"no record within {limit_s:.0f} s")
        time.sleep(0.1)


def _read(path: Path) -> list[Line]:
    # The last line may be incomplete if the process was killed while writing.
    return [json.loads(text) for text in path.read_text().splitlines(keepends=True) if text.endswith("\n")]


def figures(files: list[list[Line]], warm_up: float, seconds: float) -> Line:
    """Return the figures of the window from the lines of all subtasks."""
    files = [lines for lines in files if lines]
    begin = min(lines[0]["at"] for lines in files) + warm_up * 1e6
    end = begin + seconds * 1e6
    if "window" in files[0][0]:
        return {"records_per_s": _by_windows([line for lines in files for line in lines], begin, end)}
    records = sum(_at(lines, end) - _at(lines, begin) for lines in files)
    result: Line = {"records_per_s": records / seconds}
    if "latencies" in files[0][0]:
        result.update(_quantiles(line for lines in files for line in lines if begin < line["at"] <= end))
    return result


def _at(lines: list[Line], at: float) -> float:
    """Interpolate the number of records of a subtask at a time, between two lines."""
    before: Line | None = None
    for line in lines:
        if line["at"] >= at:
            if before is None:
                return 0.0
            share = (at - before["at"]) / (line["at"] - before["at"])
            return float(before["n"] + share * (line["n"] - before["n"]))
        before = line
    assert before is not None
    return float(before["n"])


def _by_windows(lines: Iterable[Line], begin: float, end: float) -> float:
    """Return the rate of complete windows, from the end of the first firing to the end of the last one.

    If an engine delays results, several windows fire at once; they count as one, else the first would count completely.
    """
    counts: Counter[int] = Counter()
    fired: dict[int, int] = defaultdict(int)
    for line in lines:
        counts[line["window"]] += line["n"]
        fired[line["window"]] = max(fired[line["window"]], line["at"])
    firings: list[tuple[int, int]] = []
    # The last window may not have fired for all keys yet.
    for window in sorted(fired)[:-1]:
        if not begin <= fired[window] <= end:
            continue
        if firings and fired[window] - firings[-1][0] < _AT_ONCE_US:
            firings[-1] = (fired[window], firings[-1][1] + counts[window])
        else:
            firings.append((fired[window], counts[window]))
    if len(firings) < 2:
        raise FailedError(f"windows fired {len(firings)} times during the observation: too few for a rate")
    return sum(count for _, count in firings[1:]) * 1e6 / (firings[-1][0] - firings[0][0])


def _quantiles(lines: Iterable[Line]) -> dict[str, float | None]:
    ages: Counter[int] = Counter()
    for line in lines:
        ages.update(dict(line["latencies"]))
    total, ordered = ages.total(), sorted(ages.items())
    result: dict[str, float | None] = {"samples": total}
    for name, share in (("p50_ms", 0.5), ("p90_ms", 0.9), ("p99_ms", 0.99)):
        seen, result[name] = 0, None
        for tenths, count in ordered:
            seen += count
            if seen >= share * total:
                result[name] = tenths / 10
                break
    return result
