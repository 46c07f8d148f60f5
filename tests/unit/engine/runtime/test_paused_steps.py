"""What arrives while a step is paused, or follows what was resumed: nothing overtakes what the chain holds."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.engine.runtime.hosted_task import Host, mapping
from tests.unit.engine.runtime.test_async_wait import Asking

from penstock.datastream.window import ProcessingTimeSessionWindows, TumblingProcessingTimeWindows
from penstock.engine.runtime.network.buffer import CheckpointBarrier, EndOfData, Watermark
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.operators.stateless import FlatMapOperator
from penstock.engine.runtime.task.chain import DEPTH_MAX
from penstock.engine.runtime.windows.choice import window_operator
from penstock.engine.runtime.windows.contents import Reduced
from penstock.engine.runtime.windows.evaluation import Evaluation
from penstock.engine.runtime.windows.windowing import WindowSettings


def long_chain() -> list[Operator]:
    return [mapping() for _ in range(DEPTH_MAX)]


@pytest.mark.parametrize(
    "assigner", [TumblingProcessingTimeWindows.of(10), ProcessingTimeSessionWindows.with_gap(10)], ids=repr
)
def test_results_of_the_clock_are_before_the_barrier_that_follows(assigner: Any) -> None:
    """They would be in no snapshot, neither as contents of windows nor behind these, and a restart would lose them."""
    operator = window_operator(
        "window",
        lambda record: record[0],
        WindowSettings(
            assigner=assigner,
            trigger=assigner.get_default_trigger(None),
            contents=Reduced(UserFunction(lambda a, b: a, "reduce")),
            evaluation=Evaluation(),
        ),
    )
    host = Host(operator, *long_chain(), senders=1, buffer_timeout_ms=0)
    host.slot.budget.chunk_records = 2
    host.sends(0, [(key, 1) for key in "abc"]).works()
    host.now_ms += 100
    left = host.sends(0, CheckpointBarrier(1, 0)).works().left()
    assert left[:3] == [("a", 1), ("b", 1), ("c", 1)]
    assert isinstance(left[3], CheckpointBarrier)


@pytest.mark.parametrize("ordered", [True, False])
def test_a_watermark_behind_the_last_results_comes_before_the_end(ordered: bool) -> None:
    """The last windows of a bounded job would not fire: their records would be gone."""
    host = Asking(*long_chain(), ordered=ordered)
    host.sends(0, (["a"], [1]), Watermark(9), EndOfData()).works()
    assert host.answers("a", 5).flushed() == [5, Watermark(9), EndOfData()]


@pytest.mark.parametrize("ordered", [True, False])
def test_a_watermark_behind_results_that_take_several_steps_comes_before_the_end(ordered: bool) -> None:
    """The same, of a chain whose last operator takes long for the results of calls."""

    def below(number: int) -> Any:
        for each in range(number):
            host.ns += 5_000_000 if each < 2 else 0
            yield each

    host = Asking(FlatMapOperator("below", UserFunction(below, "flat_map")), ordered=ordered)
    host.slot.budget.chunk_records = 2
    host.sends(0, (["a"], [1]), Watermark(9), EndOfData()).works()
    assert host.answers("a", 5).flushed() == [0, 1, 2, 3, 4, Watermark(9), EndOfData()]
