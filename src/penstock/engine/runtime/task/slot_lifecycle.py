"""One attempt of a slot in pipelined mode, from the opening of its tasks to their end. All its hosts share it.

    state        event                          next         effects, in this order
    created      open                           open         created, opened
    created      open fails                     discarding   failed, Cancel to all tasks
    open         a control event for a task     open
    open         step                           open         feed_back, advise, what the tasks ask for
    open         Close, Cancel                  discarding   counters, closed, what the tasks ask for
    open         a failure                      discarding   failed, Cancel to all tasks
    discarding   Close, Cancel                  discarding   counters, closed, what the tasks ask for
    discarding   anything else                  discarding

Control events of another attempt are ignored in every state. A slot that discards goes on taking input: its senders,
which may be blocked writing to it, must get their Close or Cancel. Source: Flink's TaskExecutor and Task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from penstock.common.functions.user_calls import RAISED, Interrupted
from penstock.engine.runtime.ids import SlotId
from penstock.engine.runtime.task.events import (
    Cancel,
    Close,
    ControlEffect,
    ControlEvent,
    Event,
    Peers,
    SampleStacks,
    Senders,
    WriteSnapshot,
)
from penstock.engine.runtime.task.slot import Slot


class SlotEffects(Protocol):
    """What a slot asks of its host. The host keeps the order."""

    def created(self) -> None:
        """Report that the slot is there: to restore its state may take longer than a heartbeat's interval."""

    def opened(self) -> None:
        """Report that the tasks are open and wait for input."""

    def failed(self, error: BaseException) -> None:
        """Report what the slot has failed by."""

    def not_cancelled(self, error: BaseException) -> None:
        """After a failure a task could not be cancelled, either. The first failure is the one that is reported."""

    def counters(self) -> None:
        """Report the counters a last time: after the last report of the last slot the job is over."""

    def closed(self) -> None:
        """All tasks are closed, which is reported next: stop writing snapshots, or their files would stay forever."""

    def introduced(self, peers: Peers | Senders) -> None:
        """These slots are where this one feeds something back to, or gives advice to."""

    def advise(self, advice: list[tuple[SlotId, bytes]]) -> None:
        """Send advice to these slots, or drop it: it is repeated."""

    def feed_back(self, buffers: list[tuple[SlotId, bytes]]) -> None:
        """Send buffers back to these slots."""

    def write(self, effect: WriteSnapshot) -> None:
        """Write a snapshot beside the slot."""

    def report(self, effect: ControlEffect) -> None:
        """Send this to the job master."""


class SlotLifecycle:
    """Of one attempt. `interruptible` surrounds the calls of users' functions while the tasks run."""

    def __init__(
        self,
        attempt: int,
        effects: SlotEffects,
        interruptible: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.slot: Slot | None = None
        self.discarding = False
        """Whether the tasks are closed or have failed: input and output are dropped."""
        self._attempt = attempt
        self._effects = effects
        self._interruptible = interruptible

    def open(self, create: Callable[[], Slot], restore: Callable[[Slot], object]) -> None:
        """Create the tasks, restore their state and open them."""

        def opens() -> None:
            slot = self.slot = create()
            self._effects.created()
            restore(slot)
            slot.open()
            self._effects.opened()

        self._guarded(opens)

    def lets_in(self, attempt: int) -> bool:
        """Whether a control event is for this attempt."""
        return attempt == self._attempt

    def control(self, attempt: int, vertex: int, event: ControlEvent) -> None:
        """The job master sends an event to the task of a vertex; Close and Cancel are for all tasks."""
        slot = self.slot
        if slot is None or not self.lets_in(attempt):
            return
        if isinstance(event, (Close, Cancel)):
            self._guarded(lambda: self._end(slot, event))
        elif not self.discarding:
            self._guarded(lambda: self._handle(slot, vertex, event))

    def receive(self, buffers: Iterable[bytes]) -> None:
        """Input has arrived."""
        slot = self.slot
        if slot is not None and not self.discarding:
            self._guarded(lambda: _receive(slot, buffers))

    def receive_feedback(self, take: Callable[[], Iterable[bytes]]) -> bool:
        """Take what was fed back. True: there was something."""
        slot = self.slot
        if slot is None or self.discarding:
            return False
        return self._guarded(lambda: _receive_feedback(slot, take()))

    def receive_advice(self, messages: Iterable[bytes]) -> None:
        """Slots that this one sends to have advised it."""
        slot = self.slot
        if slot is not None and not self.discarding:
            self._guarded(lambda: _receive_advice(slot, messages))

    def step(self, outcomes: Callable[[], Iterable[tuple[int, Event]]]) -> bool:
        """Let the tasks do one step. True: there is more to do now, before anything arrives.

        `outcomes`: of what the host does beside the slot, by vertex; taken only if the tasks run.
        """
        slot = self.slot
        if slot is None or self.discarding:
            return False
        return self._guarded(lambda: self._step(slot, outcomes))

    def fail(self, error: BaseException) -> None:
        """The slot can't go on: report it, and close the tasks."""
        self.discarding = True
        self._effects.failed(error)
        if self.slot is not None:
            try:
                self.slot.handle_all(Cancel())
            except RAISED as further:
                self._effects.not_cancelled(further)

    def abandon(self) -> None:
        """The host ends: close the functions that are open. Nothing but a failure is reported."""
        slot = self.slot
        if slot is not None and not slot.finished:
            self._guarded(lambda: slot.handle_all(Cancel()))

    def _step(self, slot: Slot, outcomes: Callable[[], Iterable[tuple[int, Event]]]) -> bool:
        for vertex, event in outcomes():
            slot.handle(vertex, event)
        with self._interruptible():
            busy = slot.step()
        if slot.feeds_back:
            self._effects.feed_back(slot.take_feedback())
        if slot.advises and (advice := slot.outgoing_advice()):
            self._effects.advise(advice)
        self._send_effects(slot)
        return busy

    def _handle(self, slot: Slot, vertex: int, event: ControlEvent) -> None:
        if isinstance(event, (Peers, Senders)):
            self._effects.introduced(event)
            slot.introduced()
        if isinstance(event, (Senders, SampleStacks)):
            # No task has to know.
            return
        slot.handle(vertex, event)

    def _end(self, slot: Slot, event: Close | Cancel) -> None:
        self.discarding = True
        try:
            slot.handle_all(event)
        finally:
            self._effects.counters()
            self._send_effects(slot)

    def _send_effects(self, slot: Slot) -> None:
        if slot.finished:
            self._effects.closed()
        for effect in slot.take_effects():
            if isinstance(effect, WriteSnapshot):
                self._effects.write(effect)
            else:
                assert isinstance(effect, ControlEffect)
                self._effects.report(effect)

    def _guarded(self, do: Callable[[], object]) -> bool:
        try:
            return bool(do())
        except Interrupted:
            # By a Cancel, which has been received, or by the end of the host: the next turn finds it.
            return True
        except RAISED as error:
            self.fail(error)
            return False


def _receive(slot: Slot, buffers: Iterable[bytes]) -> None:
    for buffer in buffers:
        slot.receive(buffer)


def _receive_feedback(slot: Slot, buffers: Iterable[bytes]) -> bool:
    taken = False
    for buffer in buffers:
        slot.receive_feedback(buffer)
        taken = True
    return taken


def _receive_advice(slot: Slot, messages: Iterable[bytes]) -> None:
    for message in messages:
        slot.receive_advice(message)
