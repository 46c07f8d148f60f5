"""Runs many seeds, on all cores."""

from __future__ import annotations

import gc
import logging
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from penstock.hosts.simulator.report import SimulationError
from penstock.hosts.simulator.runs import run_seed

_FAILURES_MAX = 10
_PART_SEEDS = 100
_GARBAGE_OBJECTS = 400_000


def run_many(first: int, count: int) -> int:
    """Run seeds from `first` on, on all cores, printing progress.

    Returns 1 if any failed; stops after several failures.
    """
    failed, steps, done, started = 0, 0, 0, time.monotonic()
    parts = [
        range(start, min(start + _PART_SEEDS, first + count)) for start in range(first, first + count, _PART_SEEDS)
    ]
    # Spawn, because the caller may have threads, of Spark for instance, that must not be forked.
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for part, (steps_taken, errors) in zip(parts, pool.map(_run_part, parts), strict=True):
            done, steps, failed = done + len(part), steps + steps_taken, failed + len(errors)
            for error in errors:
                print(f"{error}\n", flush=True)
            seconds = time.monotonic() - started
            print(f"{done} of {count} seeds, {failed} failed, {steps} events, {seconds:.0f} s", flush=True)
            if failed >= _FAILURES_MAX:
                pool.shutdown(cancel_futures=True)
                break
    return 1 if failed else 0


def _run_part(seeds: range) -> tuple[int, list[str]]:
    """Return the number of events, and the failures."""
    # The simulator restarts jobs all the time: a log line for each restart would hide the reports.
    logging.disable(logging.WARNING)
    if not gc.get_freeze_count():
        # Imported objects stay alive, and traversing them repeatedly takes a tenth of the time. Freeze once per
        # process, because garbage that exists now would also stay.
        gc.freeze()
        gc.set_threshold(_GARBAGE_OBJECTS)
    steps, errors = 0, []
    for seed in seeds:
        try:
            steps += run_seed(seed).steps
        except SimulationError as error:
            errors.append(str(error))
    return steps, errors
