"""The states of a slot that all hosts share: what reaches its tasks, what is reported when, and what is dropped."""

from __future__ import annotations

from contextlib import contextmanager
from random import Random
from typing import Any

import pytest
from tests.unit.plain_buffers import encoded

from penstock.common.functions.user_calls import Interrupted
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.execution_mode import STREAMING
from penstock.engine.runtime.network.buffer import NO_KEY_GROUP, Header
from penstock.engine.runtime.network.edge import EdgeInfo
from penstock.engine.runtime.network.partitioners import RebalancePartitioner
from penstock.engine.runtime.operators.sink import CollectOperator
from penstock.engine.runtime.task.environment import Environment
from penstock.engine.runtime.task.events import Cancel, CheckpointComplete, Close, Finished, Result, WriteSnapshot
from penstock.engine.runtime.task.slot import Slot, SlotLifecycle
from penstock.engine.runtime.task.vertex import ChainNode, LevelSpec, VertexSpec
from penstock.hosts.simulator.storage import MemoryStorage

ATTEMPT = 3
EDGE = EdgeInfo(0, 0, 1, 1, 0, 0, (1,))


class Noted(CollectOperator):
    """Raises in the methods named in `fails`."""

    def __init__(self, log: list[str], *fails: str) -> None:
        super().__init__("noted", 0)
        self.log, self.fails = log, fails

    def note(self, method: str) -> None:
        self.log.append(method)
        if method in self.fails:
            raise OSError(method)

    def open(self) -> None:
        self.note("open")

    def process(self, chunk: Rows) -> None:
        self.note("process")
        super().process(chunk)

    def checkpoint_complete(self, checkpoint_id: int) -> None:
        self.note(f"complete {checkpoint_id}")

    def close(self) -> None:
        self.note("close")


class Host:
    """Notes what a slot with one task asks for."""

    def __init__(self, *fails: str, interrupts: bool = False) -> None:
        self.log: list[str] = []
        self._fails = fails
        self._interrupts = interrupts
        self.life = SlotLifecycle(ATTEMPT, self, self._interruptible)

    def open(self) -> Host:
        self.life.open(self._create, lambda slot: slot.restore(MemoryStorage(Random(0), 0)))
        return self

    def control(self, event: Any, attempt: int = ATTEMPT) -> list[str]:
        """What is noted when this event arrives."""
        self.log.clear()
        self.life.control(attempt, 0, event)
        return self.log

    def step(self) -> list[str]:
        """What is noted while all that can be done now is done."""
        self.log.clear()
        while self.life.step(lambda: ()):
            pass
        return self.log

    def receive(self, sequence: int = 0) -> None:
        header = Header(NO_KEY_GROUP, 0, 0, sequence, 0, ATTEMPT)
        self.life.receive([encoded(header, [(["value"], None)])])

    def _create(self) -> Slot:
        operator = Noted(self.log, *self._fails)
        vertex = VertexSpec(0, "v", 1, 128, [ChainNode(operator, "", [])], [(EDGE, RebalancePartitioner())], [])
        return Slot(
            LevelSpec("job", 0, (1,), [vertex], {0: EDGE}, STREAMING, attempt=ATTEMPT), 0, Environment(int, int)
        )

    @contextmanager
    def _interruptible(self) -> Any:
        yield
        if self._interrupts:
            raise Interrupted

    def created(self) -> None:
        self.log.append("created")

    def peers_known(self, peers: Any) -> None:
        self.log.append("peers_known")

    def feed_back(self, buffers: list[Any]) -> None:
        self.log.append("feed back")

    def opened(self) -> None:
        self.log.append("opened")

    def failed(self, error: BaseException) -> None:
        self.log.append(f"failed by {error}")

    def cancel_failed(self, error: BaseException) -> None:
        self.log.append(f"not cancelled: {error}")

    def counters(self) -> None:
        self.log.append("counters")

    def closed(self) -> None:
        self.log.append("closed")

    def write(self, effect: WriteSnapshot) -> None:
        self.log.append("write")

    def report(self, effect: Any) -> None:
        self.log.append(type(effect).__name__)


def test_an_open_slot_works_and_reports() -> None:
    """A job would not begin, or its results would stay in the slot."""
    host = Host().open()
    assert host.log == ["created", "open", "opened"] and not host.life.discarding
    host.receive()
    assert host.step() == ["process", Result.__name__]
    assert [*host.control(CheckpointComplete(1)), *host.step()] == ["complete 1"]


@pytest.mark.parametrize("event", [Close(), Cancel()], ids=["close", "cancel"])
def test_the_end_is_reported_after_all_that_belongs_to_it(event: Any) -> None:
    """The job would end without the last counters of a slot, or while one of its snapshots is still written."""
    host = Host().open()
    assert host.control(event) == ["close", "counters", "closed", Finished.__name__]
    assert host.life.discarding


@pytest.mark.parametrize("event", [Close(), Cancel(), CheckpointComplete(1)], ids=["close", "cancel", "complete"])
def test_events_of_another_attempt_are_ignored(event: Any) -> None:
    """A Cancel of the attempt that has failed would end the one that replaces it."""
    host = Host().open()
    assert host.control(event, ATTEMPT - 1) == [] and not host.life.discarding
    assert host.step() == []


def test_a_failure_is_reported_and_the_tasks_are_closed() -> None:
    """Connections of a function would stay open, or the job would wait for a slot that does nothing."""
    host = Host("process").open()
    host.receive()
    assert host.step() == ["process", "failed by process", "close"]
    assert host.life.discarding


def test_a_slot_that_can_not_open_fails() -> None:
    """The job would wait for its registration until a timeout."""
    host = Host("open").open()
    assert host.log == ["created", "open", "failed by open", "close"] and host.life.discarding


def test_the_first_failure_is_the_one_that_is_reported() -> None:
    """The user would read that a connection was not closed, and not why the job failed."""
    host = Host("process", "close").open()
    host.receive()
    assert host.step() == ["process", "failed by process", "close", "not cancelled: close"]


def test_a_failure_at_the_end_is_reported_after_the_counters() -> None:
    """A sink that can't write its last rows would be reported as closed."""
    host = Host("close").open()
    noted = host.control(Close())
    assert noted[-1] == "failed by close" and Finished.__name__ not in noted


def test_what_arrives_after_the_end_is_dropped() -> None:
    """A function would be called after its close."""
    host = Host().open()
    host.control(Cancel())
    host.receive()
    assert host.step() == [] and host.control(CheckpointComplete(1)) == []
    assert not host.life.step(lambda: pytest.fail("outcomes are taken by a slot that discards"))


def test_a_failed_slot_is_still_closed_by_the_job_master() -> None:
    """The job master would wait for the last report of a slot that has failed."""
    host = Host("process").open()
    host.receive()
    host.step()
    assert host.control(Cancel()) == ["counters", "closed", Finished.__name__]


def test_an_interrupt_is_no_failure() -> None:
    """A job that is cancelled would end as failed."""
    host = Host(interrupts=True).open()
    assert host.life.step(lambda: ()), "the next turn finds the Cancel"
    assert not host.life.discarding and host.control(Cancel())[-1] == Finished.__name__


def test_a_host_that_ends_closes_what_is_open_once() -> None:
    """A query that Spark ends would leave connections open, or close them twice."""
    host = Host().open()
    host.log.clear()
    host.life.abandon()
    host.life.abandon()
    assert host.log == ["close"]


def test_a_slot_that_was_not_created_takes_nothing() -> None:
    """An error in the set-up of a worker would be hidden behind another one."""
    host = Host()
    host.receive()
    host.life.abandon()
    assert host.control(Cancel()) == [] and host.step() == []
    host.life.fail(OSError("no level"))
    assert host.log == ["failed by no level"]
