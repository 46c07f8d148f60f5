"""A task that is asked for keyed state while it works."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tests.unit.engine.runtime.hosted_task import Host, mapping

from penstock.api.state.descriptors import ValueStateDescriptor
from penstock.common import Types
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.process import KeyedProcessOperator
from penstock.engine.runtime.task import state_reader
from penstock.engine.runtime.task.events import Close, ListStates, Opaque, ReadState, StateRead, StatesListed
from penstock.engine.state import live_table


class Counting:
    """Counts a key's records, and emits the count ten times, a record at a time."""

    def open(self, context: Any) -> None:
        descriptor = ValueStateDescriptor("count", Types.LONG())
        descriptor.set_queryable("counts")
        self.count = context.get_state(descriptor)
        self.kept = context.get_state(ValueStateDescriptor("kept"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        if value == "lock":
            self.kept.update(threading.Lock())
        for _ in range(10):
            self.count.update((self.count.value() or 0) + 1)
            yield ctx.get_current_key(), self.count.value()


def counting() -> Host:
    host = Host(KeyedProcessOperator("Counting", lambda value: value, UserFunction(Counting(), "process_element")))
    host.slot.budget.chunk_records = 1
    return host


def read(host: Host, *keys: Any, state: str = "count", operator: str = "", limit: int = 0) -> StateRead:
    (answer,) = host.handle(ReadState(5, operator, state, Opaque(list(keys)) if keys else None, limit)).asks()
    assert isinstance(answer, StateRead) and answer.read == 5
    return answer


def test_a_paused_task_answers_and_goes_on_as_if_nothing_had_been() -> None:
    """Under back pressure a user would be told nothing, or his function would find another key's state."""
    host = counting()
    host.sends(0, ["a", "b", "a", "c"])
    host.tick_ns = host.slot.budget.step_ns // 3
    while not host.task.chain.paused or not read(host, "a").rows:
        host.slot.step()
    told = [entry.value for entry in read(host, "b", "a", "none").entries]
    assert told[1][0][0] == "a" and 0 < told[1][0][1] < 20 and told[2] == []
    host.tick_ns = 0
    every = [("a", n) for n in range(1, 21)] + [(key, n) for key in "bc" for n in range(1, 11)]
    assert sorted(host.flushed()) == sorted(every)


def test_a_key_that_is_asked_for_twice_has_its_rows_once_for_each() -> None:
    """Who sums up what is answered would count a key four times."""
    host = counting().sends(0, ["a", "b"])
    host.works()
    answer = read(host, "a", "b", "a")
    assert [entry.value for entry in answer.entries] == [[("a", 10)], [("b", 10)], [("a", 10)]]
    assert answer.rows == 3


def test_what_it_has_is_told_with_its_names() -> None:
    """A user would have to know the program to ask anything."""
    host = counting()
    (listed,) = host.handle(ListStates(3)).asks()
    assert isinstance(listed, StatesListed) and listed.read == 3
    shapes = {shape.state: shape for shape in listed.states}
    assert shapes["count"].queryable_names == ["counts"] and shapes["count"].columns == ["key", "value"]
    assert shapes["count"].type == "value of Long" and shapes["count"].operator_name == "Counting"
    assert not any("timers" in state for state in shapes)


def test_some_entries_of_many_and_of_what_nobody_has_asked_for() -> None:
    """A look at a few entries would send all; a subtask that has seen no record yet would fail the question."""
    host = counting().sends(0, list(range(9)))
    host.works()
    some = read(host, limit=4)
    assert some.rows == 4 == len(some.entries[0].value)
    for answer in (read(host, limit=4, state="other"), read(host, limit=4, operator="other")):
        assert not answer.error and answer.rows == 0 and answer.entries[0].value == []
    assert [entry.value for entry in read(host, 1, 2, state="other").entries] == [[], []]


def test_what_can_not_be_sent_fails_the_question_and_not_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who looks at a state would restart his job; or the driver would be sent gigabytes."""
    host = counting().sends(0, ["lock"])
    host.works()
    refused = read(host, "lock", state="kept")
    assert "lock" in refused.error and refused.entries == []
    monkeypatch.setattr(state_reader, "ANSWER_BYTES_MAX", 10)
    assert "bytes" in read(host, "lock").error
    assert len(host.flushed()) == 10


def test_windows_that_are_too_many_are_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user would wait for an answer that never comes, and his stream for the question."""
    host = Host(
        mapping(),
        KeyedProcessOperator("Windows", lambda value: value, UserFunction(Counting(), "process_element")),
    )
    backend = host.task.chain.operators[1].keyed_backend()
    for key in range(3):
        backend.key = backend.namespace = key
        backend.state(ValueStateDescriptor("count", Types.LONG()), namespaced=True).update(key)
    monkeypatch.setattr(live_table, "EXAMINED_MAX", 2)
    assert "among 3 entries" in read(host, 1, state="window/count").error
    assert read(host, 1).error == ""
    (listed,) = host.handle(ListStates(3)).asks()
    assert {shape.operator_name for shape in listed.states} == {"Windows"}


def test_questions_are_not_in_the_journal() -> None:
    """The error of a job that is asked a thousand times a second would show nothing but questions."""
    host = counting()
    read(host, 1)
    assert "ReadState" not in str(host.task.journal)
    host.handle(Close())
    assert not any(isinstance(effect, StateRead) for effect in host.handle(ReadState(6, "", "count", limit=1)).asks())
