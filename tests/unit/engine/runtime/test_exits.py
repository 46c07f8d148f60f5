"""What is no Exception in users' functions, and values that can't be pickled: errors that say whose they are."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest
from tests.unit.engine.runtime.conftest import Rig
from tests.unit.engine.runtime.hosted_task import Host

from penstock.api.functions.basic import MapFunction
from penstock.api.sink import Sink, SinkWriter
from penstock.common.errors import UserFunctionError
from penstock.common.functions.user_calls import Interrupted
from penstock.engine.runtime.checkpoint_options import CheckpointOptions
from penstock.engine.runtime.network.buffer import CheckpointBarrier
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.sink import CollectOperator, SinkOperator
from penstock.engine.runtime.operators.stateless import FilterOperator, FlatMapOperator, MapOperator
from penstock.engine.runtime.task.events import Opaque

NAMED = r"operator 'one', subtask 2 of 4, in .*\n  value 2\n(.|\n)*SystemExit: no more of these"


def leave(value: int) -> Any:
    if value == 2:
        sys.exit("no more of these")
    return [value]


@pytest.mark.parametrize("kind", [MapOperator, FilterOperator, FlatMapOperator])
def test_a_function_that_leaves_is_named(kind: type) -> None:
    """The worker would end without a word, and the job would restart without end: nobody would look for a sys.exit."""
    with pytest.raises(UserFunctionError, match=NAMED):
        Rig(kind("one", UserFunction(leave, "map"))).process(1, 2, 3)


class PanicException(BaseException):
    """As libraries in Rust raise it."""


def panic(value: int) -> Any:
    if value == 2:
        raise PanicException("no more of these")
    return [value]


@pytest.mark.parametrize("kind", [MapOperator, FilterOperator, FlatMapOperator])
def test_a_function_whose_library_panics_is_named(kind: type) -> None:
    """The worker would end, and be reported as lost: nobody would look for the fault in the function."""
    with pytest.raises(UserFunctionError, match=NAMED.replace("SystemExit", "PanicException")):
        Rig(kind("one", UserFunction(panic, "map"))).process(1, 2, 3)


@pytest.mark.parametrize("what", [KeyboardInterrupt, Interrupted, GeneratorExit])
def test_what_wants_a_function_to_end_passes_and_says_where_it_was(what: type[BaseException]) -> None:
    """A cancelled job would fail, a Ctrl-C in a test of a function would be its error, a generator could not be closed.

    If it was the function that raised it, the host reports it, and must know where it was.
    """

    def ended(value: int) -> Any:
        raise what

    with pytest.raises(what) as raised:
        Rig(MapOperator("one", UserFunction(ended, "map"))).process(1)
    (note,) = raised.value.__notes__
    assert note.startswith("operator 'one', subtask 2 of 4, in ") and note.endswith("ended")


class LeavesInOpen(MapFunction[int, int]):
    def open(self, runtime_context: Any) -> None:
        sys.exit(3)

    def map(self, value: int) -> int:
        return value


def test_a_function_that_leaves_while_it_is_opened_is_named() -> None:
    """The same, before the first record."""
    with pytest.raises(UserFunctionError, match=r"operator 'one'.*in LeavesInOpen.open\n(.|\n)*SystemExit: 3"):
        Rig(MapOperator("one", UserFunction(LeavesInOpen(), "map")))


class Leaves:
    def __reduce__(self) -> Any:
        sys.exit("pickled")


@pytest.mark.parametrize(
    ("value", "because"), [({"lock": threading.Lock()}, "lock"), (lambda: 1, "pickle"), (Leaves(), "SystemExit")]
)
def test_a_result_that_can_not_be_pickled_is_named(value: Any, because: str) -> None:
    """A user who collects a thousand results of ten operators would read of pickle, of a lock, and of no operator."""
    rig = Rig(CollectOperator("one", 7))

    def deliver(sink: int, values: list[Any]) -> None:
        Opaque.pickled(values)

    rig.context.deliver_result = deliver
    with pytest.raises(UserFunctionError, match=r"operator 'one'.*in result: the value can't be pickled") as raised:
        rig.process(1, value, 3)
    assert because in str(raised.value) and "value 1" not in str(raised.value)


class Holding(Sink[Any]):
    """Prepares what can't be pickled."""

    def create_writer(self, context: Any) -> Any:
        return HoldingWriter()


class HoldingWriter(SinkWriter[Any]):
    def write(self, value: Any, timestamp: int | None) -> None:
        pass

    def flush(self, end_of_input: bool) -> None:
        pass

    def prepare_commit(self) -> list[Any]:
        return ["part-1", {"lock": threading.Lock()}]


def test_a_committable_that_can_not_be_pickled_is_named() -> None:
    """Each checkpoint would fail on the way to the driver, with an error that names no sink."""
    host = Host(SinkOperator("one", Holding(), 7), senders=1, leaves=False)
    host.sends(0, [1], CheckpointBarrier(1, 0, CheckpointOptions())).works()
    with pytest.raises(UserFunctionError, match=r"operator 'one'.*in prepare_commit: .*\n  value \{'lock': <unlocked"):
        host.asks()
