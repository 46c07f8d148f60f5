"""Sessions of one key in flight: CPU time for each record, by how many sessions of its key have not ended.

python -m benchmarks.curves.sessions_of_a_key
"""

from __future__ import annotations

from random import Random
from typing import Any

from benchmarks.curves.curve import Figures, Stopwatch, run
from benchmarks.curves.driven import Driven
from penstock.datastream.window import EventTimeSessionWindows
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.windows.choice import window_operator
from penstock.engine.runtime.windows.contents import Reduced
from penstock.engine.runtime.windows.evaluation import Evaluation
from penstock.engine.runtime.windows.windowing import WindowSettings

_RECORDS = 20_000
_GAP_MS = 1_000
_AT_ONCE = 100


def measure(sessions: int) -> Figures:
    """Open the sessions, then send records that extend one of them."""
    assigner: Any = EventTimeSessionWindows(_GAP_MS)
    add = UserFunction(lambda one, other: (one[0], one[1] + other[1]), "reduce")
    trigger = assigner.get_default_trigger(None)
    driven = Driven(
        window_operator(
            "sessions",
            lambda record: record[0],
            WindowSettings(assigner=assigner, trigger=trigger, contents=Reduced(add), evaluation=Evaluation()),
        )
    )
    times = [number * 10 * _GAP_MS for number in range(sessions)]
    driven.records([("key", 1)] * sessions, times)
    random = Random(1)
    chosen = [random.choice(times) + random.randrange(_GAP_MS) for _ in range(_RECORDS)]
    watch = Stopwatch()
    for first in range(0, _RECORDS, _AT_ONCE):
        driven.records([("key", 1)] * _AT_ONCE, chosen[first : first + _AT_ONCE])
    return {"us a record": watch.lap_us() / _RECORDS}


if __name__ == "__main__":
    run(__doc__, (1, 4, 40, 400, 4_000), measure)
