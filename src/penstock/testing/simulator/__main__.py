"""`python -m penstock.testing.simulator`: replay one seed, every event of it, or run many.

--seed N              replay seed N
--seeds N [--from M]  run N seeds, and name those that fail
"""

from __future__ import annotations

import argparse
import sys
import time

from penstock.testing.simulator.report import SimulationError
from penstock.testing.simulator.runs import run_seed

_FAILURES_MAX = 10


def main() -> int:
    """Exit status 1 if a seed failed."""
    parser = argparse.ArgumentParser(prog="python -m penstock.testing.simulator", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, help="replay this seed, every event of it")
    parser.add_argument("--seeds", type=int, default=300, help="how many seeds to run if none is named (default: 300)")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first of them (default: 0)")
    options = parser.parse_args()
    if options.seed is not None:
        return _replay(options.seed)
    return run_many(options.first, options.seeds)


def _replay(seed: int) -> int:
    try:
        outcome = run_seed(seed, print)
    except SimulationError as error:
        print(f"\n{str(error).splitlines()[0]}", file=sys.stderr)
        return 1
    print(f"\nseed {seed}: {outcome.status.name} after {outcome.steps} events, as it must be")
    return 0


def run_many(first: int, count: int) -> int:
    """Run seeds from `first` on, telling how it goes. Returns 1 if any failed, and stops after some."""
    failed, began, steps = 0, time.monotonic(), 0
    for done, seed in enumerate(range(first, first + count), start=1):
        try:
            steps += run_seed(seed).steps
        except SimulationError as error:
            failed += 1
            print(f"{error}\n", flush=True)
            if failed == _FAILURES_MAX:
                break
        if done % 100 == 0 or done == count:
            seconds = time.monotonic() - began
            print(f"{done} of {count} seeds, {failed} failed, {steps} events, {seconds:.0f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
