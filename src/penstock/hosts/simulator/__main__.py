"""`python -m penstock.hosts.simulator`: replay one seed with all its events, or run many seeds.

--seed N              replay seed N
--seeds N [--from M]  run N seeds and list those that fail
"""

from __future__ import annotations

import argparse
import sys

from penstock.hosts.simulator.many_seeds import run_many
from penstock.hosts.simulator.report import SimulationError
from penstock.hosts.simulator.runs import run_seed


def main() -> int:
    """Return 1 if a seed failed, else 0."""
    parser = argparse.ArgumentParser(prog="python -m penstock.hosts.simulator", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, help="replay this seed and print every event")
    parser.add_argument("--seeds", type=int, default=300, help="number of seeds to run without --seed (default: 300)")
    parser.add_argument("--from", type=int, default=0, dest="first", help="first seed (default: 0)")
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
    print(f"\nseed {seed}: {outcome.status.name} after {outcome.steps} events, as expected")
    return 0


if __name__ == "__main__":
    sys.exit(main())
