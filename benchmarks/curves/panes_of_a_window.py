"""Sliding windows of many panes with shared slices: CPU time for each result, with the records that it takes.

Ten keys, each with a record in each pane, so each pane has ten records and makes ten results.

    python -m benchmarks.curves.panes_of_a_window
"""

from __future__ import annotations

from benchmarks.curves.curve import Figures, Stopwatch, run
from benchmarks.curves.long_steps import sliding

_KEYS = 10
_MEASURED = 500
_SLIDE_MS = 1_000


def measure(panes: int) -> Figures:
    """Fill one window, then let it slide."""
    driven = sliding(panes)
    keys = [(f"key {number}", 1) for number in range(_KEYS)]
    for pane in range(panes):
        driven.records(keys, [pane * _SLIDE_MS] * _KEYS)
        driven.until(pane * _SLIDE_MS + _SLIDE_MS - 1)
    before = driven.results
    watch = Stopwatch()
    for pane in range(panes, panes + _MEASURED):
        driven.records(keys, [pane * _SLIDE_MS] * _KEYS)
        driven.until(pane * _SLIDE_MS + _SLIDE_MS - 1)
    assert driven.results - before == _MEASURED * _KEYS
    return {"us a result": watch.lap_us() / (_MEASURED * _KEYS)}


if __name__ == "__main__":
    run(__doc__, (1, 10, 36, 360, 3_600), measure)
