"""Mutation tests of the simulator: some program with a loop must find each fault of iterations."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from tests.simulation.mutation import until_found

from penstock.engine.jobmaster.loops import LoopEnd
from penstock.engine.runtime.network.buffer import decode_header
from penstock.engine.runtime.network.channel_log import ChannelLog
from penstock.engine.runtime.task import snapshot_logs
from penstock.engine.runtime.task.events import EndLoop, LoopQuiet
from penstock.engine.runtime.task.feedback import Feedback
from penstock.engine.runtime.task.slot import Slot
from penstock.engine.runtime.task.task import LoopProbe
from penstock.hosts.simulator import Circumstances, run_program
from penstock.hosts.simulator.generation import generate
from penstock.hosts.simulator.network import Channel, FeedbackNetwork, Network
from penstock.hosts.simulator.programs import Program

pytestmark = pytest.mark.simulation

SEEDS = 2_000
OFTEN = {
    "checkpoint_at_steps": tuple(range(0, 800, 40)), "checkpoint_timeout_ms": 3_000, "cancel_at_step": None,
    "crash_at_steps": (100, 200, 300), "crash_rate": 0.9,
}  # fmt: skip


def nothing_logged(patch: pytest.MonkeyPatch) -> None:
    """Snapshots leave out feedback that arrives while a barrier is in the loop."""
    patch.setattr(ChannelLog, "append", lambda self, buffer: None)


def log_not_replayed(patch: pytest.MonkeyPatch) -> None:
    """The head does not process the feedback in a snapshot."""
    patch.setattr(Feedback, "open", lambda self: None)


def barrier_not_awaited(patch: pytest.MonkeyPatch) -> None:
    """The head's snapshot is written when its barrier leaves."""
    frozen = Feedback.frozen

    def at_once(self: Any, snapshot: Any, stops: bool, aborted: bool) -> None:
        frozen(self, snapshot, stops, aborted)
        if snapshot.checkpoint_id in self._logs:
            self._logs[snapshot.checkpoint_id].missing.clear()
            self._write_if_complete(snapshot.checkpoint_id)

    patch.setattr(Feedback, "frozen", at_once)


def one_round_is_enough(patch: pytest.MonkeyPatch) -> None:
    """A loop ends as soon as each of its tasks has been idle once."""

    def quiet(self: LoopEnd, answer: LoopQuiet, now_ms: int) -> None:
        self._answers[answer.vertex, answer.subtask] = answer  # type: ignore[index]
        if len(self._answers) == len(self.tasks) and not self.has_ended:
            self.has_ended = True
            for vertex, subtask in self._heads:
                self._send(vertex, subtask, EndLoop())

    patch.setattr(LoopEnd, "quiet", quiet)


def buffers_not_counted(patch: pytest.MonkeyPatch) -> None:
    """A loop ends when each of its tasks has been idle twice."""
    patch.setattr(LoopProbe, "counted", lambda self: (0, 0))


def newest_first(patch: pytest.MonkeyPatch) -> None:
    """The channel between slots does not keep the order of a sender."""
    receive = Network.receive

    def newest(self: Network, channel: Channel) -> bytes:
        self._channels[channel].rotate(1)
        return receive(self, channel)

    patch.setattr(FeedbackNetwork, "receive", newest)


def earlier_attempts_let_in(patch: pytest.MonkeyPatch) -> None:
    """The head processes feedback of earlier attempts."""

    def receive_feedback(self: Any, buffer: bytes) -> None:
        header = decode_header(buffer)
        self.tasks[self._heads[header.edge]].receive_feedback(header, buffer)

    patch.setattr(Slot, "receive_feedback", receive_feedback)


def log_stays_where_it_was(patch: pytest.MonkeyPatch) -> None:
    """After a change of parallelism the log of a head that is gone is lost."""

    def share_of(logged: Any, partitioners: Any, subtask: int, parallelism: int) -> Any:
        return (one for one in logged if one[2] == subtask)

    patch.setattr(snapshot_logs, "share_of", share_of)


FAULTS: dict[Callable[[pytest.MonkeyPatch], None], tuple[int, dict[str, Any]]] = {
    nothing_logged: (119, OFTEN),
    log_not_replayed: (119, OFTEN),
    barrier_not_awaited: (0, OFTEN),
    one_round_is_enough: (0, {}),
    buffers_not_counted: (9, {}),
    newest_first: (17, {}),
    earlier_attempts_let_in: (143, {**OFTEN, "late_rate": 0.5}),
    log_stays_where_it_was: (286, {**OFTEN, "driver_crash_at_steps": (150, 400), "rescale_rate": 1.0}),
}
"""The seed to start with, to save time, and the circumstances that let a fault show soon."""
LONG = (barrier_not_awaited, log_stays_where_it_was)
"""Their jobs hang, which takes long to detect."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", [pytest.param(f, marks=pytest.mark.soak) if f in LONG else f for f in FAULTS])
def test_a_fault_is_found(fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator would pass loops that lose, double or reorder records, or end too early."""
    fault(monkeypatch)
    first, provoked = FAULTS[fault]

    def run(seed: int, program: Program) -> None:
        drawn = Circumstances.draw(Random(seed + 1))
        later = {"in_flight_ms": 0, "unaligned_after_ms": None, "state_reads_at_steps": ()}
        run_program(program, dataclasses.replace(drawn, **{**later, **provoked}), seed)

    programs = ((seed, generate(seed)) for seed in range(first, first + SEEDS))
    with_loops = (each for each in programs if any(node.kind == "loop" for node in each[1].nodes))
    until_found(monkeypatch, with_loops, run)
