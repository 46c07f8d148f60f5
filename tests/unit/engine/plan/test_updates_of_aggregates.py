"""Aggregates of fields in a new program: what a running job may take over of them."""

from __future__ import annotations

import pytest
from tests.unit.engine.plan.test_updating import graph

from penstock.common.errors import JobError
from penstock.engine.plan.updating import updated

PROGRAM = """
import numpy
from penstock.common import Time, Types
from penstock.common.types import Row
from penstock.datastream import ArrayAggregateFunction
from penstock.datastream.window import TumblingEventTimeWindows

class Total(ArrayAggregateFunction):
    accumulator = {"total": numpy.float64}
    result_type = Types.DOUBLE()
    def add(self, accumulators, slots, n):
        numpy.add.at(accumulators.total, slots, n)
    def get_result(self, accumulators):
        return accumulators.total

ROWS = Types.ROW_NAMED(["key", "n"], [Types.STRING(), Types.LONG()])
rows = env.from_collection([Row(key="a", n=1)], ROWS)
keyed = (rows.as_columns() if COLUMNS else rows).key_by("key")
windowed = keyed.window(TumblingEventTimeWindows.of(Time.seconds(5))) if WINDOWS else keyed
windowed.aggregate({"x": ("n", Total()), "y": ("n", "sum")}).uid("summed").print()
env.execute("job")
"""
OTHER_CODE = ("accumulators.total, slots, n)", "accumulators.total, slots, 2 * n)")
OTHER_STATE = ("numpy.float64}", "numpy.float32}")
BUILT_IN = ('("n", "sum")', '("n", "max")')


def program(windows: bool, columns: bool, change: tuple[str, str] | None = None) -> str:
    """Return the program, with other text in one place."""
    found = PROGRAM.replace("COLUMNS", str(columns)).replace("WINDOWS", str(windows))
    if change is None:
        return found
    assert change[0] in found
    return found.replace(*change)


def test_windows_on_rows_take_other_code() -> None:
    """A fault in a user's class would need a savepoint."""
    new = updated(graph(program(True, False)), graph(program(True, False, OTHER_CODE)))
    assert new.operators == ["TumblingEventTimeWindows"]


@pytest.mark.parametrize("change", [OTHER_STATE, BUILT_IN])
def test_windows_on_rows_keep_their_state(change: tuple[str, str]) -> None:
    """The accumulators in the state would be those of another aggregate."""
    with pytest.raises(JobError, match="another form"):
        updated(graph(program(True, False)), graph(program(True, False, change)))


@pytest.mark.parametrize("change", [OTHER_CODE, OTHER_STATE, BUILT_IN])
@pytest.mark.parametrize(("windows", "columns"), [(True, True), (False, True), (False, False)])
def test_others_are_refused(windows: bool, columns: bool, change: tuple[str, str]) -> None:
    """The job would go on with the old aggregate, without an error."""
    with pytest.raises(JobError, match=r"'.*' differs in more than its functions .*start it from the savepoint"):
        updated(graph(program(windows, columns)), graph(program(windows, columns, change)))
