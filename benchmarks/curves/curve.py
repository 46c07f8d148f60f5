"""What all growth curves share: one measurement at n, 10 n and 100 n, printed as a table.

A curve is a function from a size to figures. Each is CPU time of this process, its threads included, so that other
programs on the machine change little. Without Spark: `python -m benchmarks.curves.<name>`; `--sizes` gives others.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Sequence

from benchmarks.measurement import tell

Figures = dict[str, float]


class Stopwatch:
    """CPU time of this process since it was made or last read, in microseconds."""

    def __init__(self) -> None:
        self._began = time.process_time()

    def lap_us(self) -> float:
        """Return the time since the last call."""
        now = time.process_time()
        took, self._began = now - self._began, now
        return took * 1e6


def run(description: str | None, sizes: Sequence[int], measure: Callable[[int], Figures]) -> None:
    """Measure at each size, print a table, and in the last line the figures of all sizes as JSON."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument("--sizes", default=",".join(map(str, sizes)), help="comma-separated")
    chosen = [int(size) for size in parser.parse_args().sizes.split(",")]
    told: Figures = {}
    for size in chosen:
        gc.collect()
        figures = measure(size)
        if size == chosen[0]:
            print("".join(f"{title:>24}" for title in ("n", *figures)))
        print(
            "".join(f"{cell:>24}" for cell in (f"{size:,}", *(f"{value:,.2f}" for value in figures.values()))),
            flush=True,
        )
        told |= {f"{name}_{size}": value for name, value in figures.items()}
    tell(told)
