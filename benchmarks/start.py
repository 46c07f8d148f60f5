"""Start: `import penstock`, `penstock --help`, and from `python job.py` to the first record of output. Item 12.

Complete processes, as users experience them: each figure includes the start of the interpreter, which is also reported.
With a kept session the second program is the one that counts: the first one starts the JVM that both use.
The CPU time that the first record has taken, in all processes, also tells something on a machine that is not quiet.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.measurement import tell
from benchmarks.process_tree import Usage, usage
from penstock.hosts.spark.driver.jvm_lease import end_free_jvms

_JOB = Path(__file__).with_name("first_record.py")
_TIMEOUT_S = 120
_KEPT = {"PENSTOCK_KEEP_SESSION": "true"}


def run_s(*command: str) -> float:
    """Return the duration of a command in seconds."""
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=_TIMEOUT_S)
    return time.perf_counter() - began


def first_line(*command: str, **settings: str) -> tuple[float, float, Usage]:
    """Return when a command printed its first line and when it ended, in seconds, and its usage until that line."""
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | settings) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        came_s = time.perf_counter() - began
        used = usage()
        process.stdout.read()
    if process.returncode or not line:
        raise RuntimeError(f"{command} ended with {process.returncode}, its first line was {line!r}")
    return came_s, time.perf_counter() - began, used


def main() -> None:
    """Measure, by the options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="of what takes less than a second")
    rounds = range(parser.parse_args().rounds)
    python = sys.executable
    penstock = str(Path(python).with_name("penstock"))
    # Discard the first run, which reads files that are cached afterwards.
    run_s(penstock, "--help")
    record_s, job_s, used = first_line(python, str(_JOB))
    try:
        first_line(python, str(_JOB), **_KEPT)
        kept_record_s, kept_job_s, _ = first_line(python, str(_JOB), **_KEPT)
    finally:
        end_free_jvms(os.environ)
    tell(
        {
            "python_s": statistics.median(run_s(python, "-c", "pass") for _ in rounds),
            "import_s": statistics.median(run_s(python, "-c", "import penstock") for _ in rounds),
            "import_datastream_s": statistics.median(run_s(python, "-c", "import penstock.datastream") for _ in rounds),
            "help_s": statistics.median(run_s(penstock, "--help") for _ in rounds),
            "first_record_s": record_s,
            "whole_job_s": job_s,
            "kept_session_first_record_s": kept_record_s,
            "kept_session_whole_job_s": kept_job_s,
            "first_record_jvm_cpu_s": used.jvm_cpu_s,
            "first_record_python_cpu_s": used.python_cpu_s,
        }
    )


if __name__ == "__main__":
    main()
