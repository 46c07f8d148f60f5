"""Live queries between those who ask and the job master."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.common.errors import StateNotFoundError, StateUnavailableError
from penstock.engine.jobmaster.effects import StateReply
from penstock.engine.jobmaster.events import StateReadRequested
from penstock.engine.jobmaster.state_query import LiveState, StateQuery
from penstock.engine.rpc.messages import ReadAnswer, ReadCommand
from penstock.engine.runtime.task.events import Opaque
from penstock.hosts.spark.driver.open_requests import OpenReads

QUERY = StateQuery("counts", keys=(1,))
STATE = LiveState("count", "count", "value of Long", ["key", "value"], [Opaque([(1, 7)])], True)


class Master:
    """Takes events; `runs` False: the job has ended."""

    def __init__(self) -> None:
        self.asked: list[StateReadRequested] = []
        self.runs = True

    def post(self, event: StateReadRequested) -> bool:
        self.asked.append(event)
        return self.runs


def test_each_question_gets_its_answer() -> None:
    """A page would show another customer's state."""
    reads, master = OpenReads(), Master()
    first, second, third = (reads.query(QUERY, master.post) for _ in range(3))
    numbers = [event.request for event in master.asked]
    third.cancel()
    reads.answer(StateReply(numbers[2], STATE))
    reads.answer(StateReply(numbers[1], error=StateNotFoundError("no such state")))
    assert isinstance(second.exception(0), StateNotFoundError) and not first.done()
    reads.answer(StateReply(numbers[0], STATE))
    reads.answer(StateReply(numbers[0], error=StateNotFoundError("again")))
    assert first.result(0) is STATE


def test_a_job_that_has_ended_completes_all_requests() -> None:
    """A request would hang until its connection is closed."""
    reads, master = OpenReads(), Master()
    before = reads.query(QUERY, master.post)
    reads.end()
    master.runs = False
    for asked in (before, reads.query(QUERY, master.post)):
        assert isinstance(asked.exception(0), StateUnavailableError)


@pytest.mark.parametrize("key", ["x y", "(" * 5_000, "object()"])
def test_a_client_at_the_control_port(key: str) -> None:
    """A program would wait forever for the answer to an invalid query, or get rows without columns."""
    reads, master = OpenReads(), Master()
    sent: list[ReadAnswer] = []

    def asks(*keys: str) -> Any:
        reads.command(ReadCommand(5, "counts", keys=list(keys) or None, limit=3), sent.append, master.post)
        return sent[-1] if sent else None

    assert asks("1", "(1,'a')") is None and master.asked[0].query == StateQuery("counts", keys=(1, (1, "a")), limit=3)
    reads.answer(StateReply(master.asked[0].request, STATE))
    assert sent == [ReadAnswer(5, "", "", "count", "count", "value of Long", ["key", "value"], STATE.entries, True)]
    asks()
    assert master.asked[1].query.keys is None
    reads.answer(StateReply(master.asked[1].request, error=StateNotFoundError("none")))
    assert (sent[-1].number, sent[-1].error, sent[-1].text) == (5, "StateNotFoundError", "none")
    assert asks(key).error == "KeyTypeError" and len(master.asked) == 2
