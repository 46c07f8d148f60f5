"""Times to the first record as a user meets them: a new machine, the second run, a kept JVM, a container, a notebook.

Each run is a complete `python job.py`, measured until its first line of output, with a cache folder of its own.

* first: nothing is cached. The class archive is created in the background afterwards.
* second: the archive exists, and no JVM is kept.
* kept: as at a terminal, the JVM of the run before is used.
* container: processes in a namespace of their own, with a home folder in which `penstock prepare` has run, as in an
  image. Needs `unshare` and root, or is left out.
* notebook: the first cell with a job in a new kernel, with the archive. notebook, kept: the same in the next kernel.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.start import first_line
from penstock.hosts.spark.driver.jvm_lease import end_free_jvms

_JOB = Path(__file__).with_name("first_record.py")
_ARCHIVE_TIMEOUT_S = 300
_LOOK_S = 0.5
_NAMESPACES = ("unshare", "--pid", "--mount", "--mount-proc", "--fork", "--kill-child")


def run_s(cache: Path, *command: str, keep: bool = False) -> float:
    """Return the seconds until the job's first line, with its own cache folder."""
    settings = {"XDG_CACHE_HOME": str(cache), "PENSTOCK_KEEP_SESSION": str(keep).lower()}
    return first_line(*command, sys.executable, str(_JOB), **settings)[0]


def prepare(cache: Path) -> None:
    """Create the archive, as `penstock prepare` does in an image."""
    penstock = str(Path(sys.executable).with_name("penstock"))
    environ = os.environ | {"XDG_CACHE_HOME": str(cache)}
    subprocess.run([penstock, "prepare"], check=True, stdout=subprocess.DEVNULL, env=environ)


def await_archive(cache: Path) -> None:
    """Wait until the process in the background has created the archive."""
    until = time.monotonic() + _ARCHIVE_TIMEOUT_S
    while not list(cache.glob("penstock/classes-*.owner")):
        if time.monotonic() > until:
            raise TimeoutError(f"no class archive in {cache} after {_ARCHIVE_TIMEOUT_S} s")
        time.sleep(_LOOK_S)


def cell_s(cache: Path, keep: bool) -> float:
    """Return the seconds until the first line of a job in the first cell of a new notebook kernel."""
    from jupyter_client.manager import start_new_kernel

    environ = os.environ | {"XDG_CACHE_HOME": str(cache)} | ({} if keep else {"PENSTOCK_KEEP_SESSION": "false"})
    manager, client = start_new_kernel(env=environ, kernel_name="python3")
    try:
        began = time.perf_counter()
        client.execute(_JOB.read_text(encoding="utf-8"))
        while True:
            message = client.get_iopub_msg(timeout=_ARCHIVE_TIMEOUT_S)
            if message["msg_type"] == "stream" and message["content"]["name"] == "stdout":
                return time.perf_counter() - began
            if message["msg_type"] == "error":
                raise RuntimeError("\n".join(message["content"]["traceback"]))
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=False)


def first_and_second_s() -> tuple[float, float]:
    """Return the times of the first two runs on a machine that has run no job of penstock."""
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)
        first = run_s(cache)
        await_archive(cache)
        return first, run_s(cache)


def main() -> None:
    """Measure, by the options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    runs = range(parser.parse_args().runs)
    figures: dict[str, list[float]] = {"first": [], "second": []}
    for _ in runs:
        first, second = first_and_second_s()
        figures["first"].append(first)
        figures["second"].append(second)
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)
        prepare(cache)
        measured: dict[str, Callable[[], float]] = {"kept": lambda: run_s(cache, keep=True)}
        if shutil.which("unshare") and os.geteuid() == 0:
            measured["container"] = lambda: run_s(cache, *_NAMESPACES)
        measured["notebook"] = lambda: cell_s(cache, keep=False)
        measured["notebook, kept"] = lambda: cell_s(cache, keep=True)
        for name, measure in measured.items():
            try:
                if name.endswith("kept"):
                    measure()  # starts the JVM that the next ones use
                figures[name] = [measure() for _ in runs]
            finally:
                end_free_jvms(os.environ | {"XDG_CACHE_HOME": str(cache)})
    print(json.dumps({name: [round(seconds, 1) for seconds in times] for name, times in figures.items()}))


if __name__ == "__main__":
    main()
