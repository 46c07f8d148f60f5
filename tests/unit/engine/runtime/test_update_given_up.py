"""An update that is not made, or fails at its barrier, leaves no function open, no state and no class behind."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.engine.runtime.hosted_task import Host
from tests.unit.engine.runtime.test_function_update import (
    CALLS,
    Listed,
    Sum,
    Tag,
    answer,
    barrier,
    mapping,
    new,
    summing,
)

from penstock.common import Types
from penstock.common.errors import UserFunctionError
from penstock.datastream.state import ListStateDescriptor, ValueStateDescriptor
from penstock.engine.plan import program_pickler
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.task.events import Cancel, DropUpdate, Opaque, PrepareUpdate
from penstock.engine.runtime.task.function_update import NewFunctions


@pytest.fixture(autouse=True)
def no_calls() -> None:
    CALLS.clear()


class ListedFails(Listed):
    """Can't read the operator state."""

    def initialize_state(self, context: Any) -> None:
        raise ValueError("no state")


def new_in_chain(*functions: Any) -> PrepareUpdate:
    """The update of a task with as many operators."""
    pickled = [program_pickler.dumps([UserFunction(one, "map")]) for one in functions]
    return PrepareUpdate(1, Opaque([NewFunctions(n, one) for n, one in enumerate(pickled)]))


def reaches_barrier(host: Host, error: str) -> None:
    host.sends(0, barrier()).sends(1, barrier())
    with pytest.raises(UserFunctionError, match=error):
        host.works()
    host.handle(Cancel())


def test_an_old_function_that_fails_in_close_leaves_no_other_one_open() -> None:
    """Connections of the other functions, old or new, would stay open as long as the worker lives."""
    host = Host(mapping(Tag("old 0", fails_in="close")), mapping(Tag("old 1")))
    host.handle(new_in_chain(Tag("new 0"), Tag("new 1")))
    reaches_barrier(host, "no close")
    for one in ("old 0", "new 0", "old 1", "new 1"):
        assert CALLS.count(f"{one} open") == CALLS.count(f"{one} close") == 1, CALLS


def test_a_function_that_can_not_read_the_state_at_the_barrier_leaves_no_other_one_open() -> None:
    """Connections of functions that were opened for nothing would stay open as long as the worker lives."""
    host = Host(mapping(Listed("old 0")), mapping(Tag("old 1")))
    host.handle(new_in_chain(ListedFails("new 0"), Tag("new 1")))
    reaches_barrier(host, "no state")
    for one in ("old 0", "old 1", "new 1"):
        assert CALLS.count(f"{one} open") == CALLS.count(f"{one} close") == 1, CALLS


def test_what_was_not_opened_is_not_closed() -> None:
    """The user's `close` would meet what its `open` has not made."""
    host = Host(mapping(Listed("old")))
    host.handle(new(Listed("new"))).handle(DropUpdate(1))
    assert CALLS == ["old finds 0", "old open"]


def test_states_of_functions_that_were_given_up_are_forgotten() -> None:
    """The mended function would be refused for a state, or the type of one, that no function of the job has."""
    kept = ValueStateDescriptor("sum", Types.INT())
    host = Host(summing(Sum("old", kept)))
    for number, extra in enumerate(
        (ValueStateDescriptor("more", Types.INT()), ListStateDescriptor("more", Types.INT()))
    ):
        host.handle(new(Sum("new", extra, kept), "process_element", number + 1)).handle(DropUpdate(number + 1))
        assert answer(host) == ""
    host.handle(new(Sum("newer", kept), "process_element", 3))
    assert answer(host) == ""
    host.sends(0, [1], barrier(update=3), [2]).sends(1, barrier(update=3))
    assert host.flushed() == [("old", 1), barrier(update=3), ("newer", 3)]


class ListedSum(Sum):
    """Keeps operator state, besides that of each key."""

    def initialize_state(self, context: Any) -> None:
        self.listed = context.get_operator_state_store().get_list_state(ListStateDescriptor("seen", Types.INT()))

    def snapshot_state(self, context: Any) -> None:
        self.listed.update([1])


def test_a_function_with_operator_state_and_keyed_state_takes_over() -> None:
    """It could not be updated: it asks for its keyed state at the barrier only."""
    host = Host(summing(ListedSum("old", ValueStateDescriptor("sum", Types.INT()))))
    host.handle(new(ListedSum("new", ValueStateDescriptor("sum", Types.INT())), "process_element"))
    assert answer(host) == ""
    host.sends(0, [1], barrier(), [2]).sends(1, barrier())
    assert host.flushed() == [("old", 1), barrier(), ("new", 3)]


@pytest.fixture
def script() -> Iterator[dict[str, Any]]:
    variables = vars(sys.modules["__main__"])
    yield variables
    variables.pop("Alert", None)


def test_a_class_of_an_update_that_was_given_up_gives_way_to_the_next(script: dict[str, Any]) -> None:
    """Records of the mended class would be pickled as those of a class that nobody has: the job would fail."""
    host = Host(mapping(Tag("old")))
    for number in (1, 2):
        exec("class Alert: number = None", of_script := {"__name__": "__main__"})
        alert = of_script["Alert"]
        alert.number = number
        classes = program_pickler.dumps({"Alert": alert})
        host.handle(new(Tag("new", fails_in="open"), number=number, classes=classes))
        assert script["Alert"].number == number
