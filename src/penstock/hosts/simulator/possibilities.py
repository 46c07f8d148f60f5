"""The possible next actions of each slot, recomputed only for slots affected by an event or whose time has come."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import partial
from typing import Protocol

from penstock.engine.runtime.ids import SlotId
from penstock.hosts.simulator.host import SlotHost
from penstock.hosts.simulator.network import Channel, ControlMessages, Network
from penstock.hosts.simulator.scheduler import Agenda
from penstock.hosts.simulator.worker_places import WorkerPlaces

_WRITE_RATE = 3.0
_BUSY_RATE = 0.1


class ActionExecutor(Protocol):
    """Executes the chosen action."""

    def open(self, slot: SlotId) -> None:
        """Open a slot."""

    def step_slot(self, slot: SlotId) -> None:
        """Run a step of a slot."""

    def write(self, slot: SlotId) -> None:
        """Write a row of a slot."""

    def upload(self, slot: SlotId) -> None:
        """Write a part of a slot's snapshot."""

    def call(self, slot: SlotId) -> None:
        """Continue a call of an asynchronous function."""

    def receive(self, channel: Channel) -> None:
        """Deliver a row to a slot."""

    def receive_feedback(self, channel: Channel) -> None:
        """Deliver a buffer that was fed back to a slot."""

    def receive_control(self, slot: SlotId) -> None:
        """Deliver a control message to a slot."""

    def report(self, slot: SlotId) -> None:
        """Deliver a report of a slot to the job master."""


class Possibilities:
    """The possible actions of one attempt's slots. Call `touch` for each slot that may have changed, then `refresh`."""

    def __init__(
        self,
        agenda: Agenda,
        executor: ActionExecutor,
        hosts: dict[SlotId, SlotHost],
        network: Network,
        feedback: Network,
        control: ControlMessages,
        now_ms: Callable[[], int],
        places: WorkerPlaces,
    ) -> None:
        self._places = places
        self._agenda = agenda
        self._executor = executor
        self._hosts = hosts
        self._network = network
        self._feedback = feedback
        self._control = control
        self._now_ms = now_ms
        self._kinds: list[tuple[str, Callable[[SlotId], None], float]] = [
            ("open", executor.open, 1.0),
            ("write", executor.write, _WRITE_RATE),
            ("step", executor.step_slot, 1.0),
            ("upload", executor.upload, 1.0),
            ("control", executor.receive_control, 1.0),
            ("call", executor.call, 1.0),
            ("report", executor.report, 1.0),
        ]
        self._possible: dict[SlotId, tuple[bool, ...]] = dict.fromkeys(hosts, (False,) * len(self._kinds))
        self._touched: dict[SlotId, None] = dict.fromkeys(hosts)
        self._receives: dict[SlotId, float] = {}
        """The rate at which a worker receives rows, if it does."""
        self._channels: dict[SlotId, list[Channel]] = {}
        """Channels to a worker that have changed."""
        self._feedback_channels: dict[SlotId, list[Channel]] = {slot: list(feedback.waiting(slot)) for slot in hosts}
        """Channels of feedback to a slot that have changed."""
        self._wakes_ms: dict[SlotId, int] = {}
        self._wakes: list[tuple[int, SlotId]] = []

    def touch(self, slot: SlotId) -> None:
        """Mark a slot as changed, if it exists: messages also reach slots between two attempts."""
        if slot in self._hosts:
            # Whether one slot of a worker can act depends on the others.
            self._touched |= dict.fromkeys(self._neighbors(slot))

    def _neighbors(self, slot: SlotId) -> list[SlotId]:
        """Return the slots that share a worker with this one, itself included."""
        return self._places.slots_of(self._places.worker_of(slot))

    def touch_channel(self, channel: Channel) -> None:
        """Mark a channel to which a row was added, or from which one was removed."""
        sender, target = channel
        for slot in self._places.slots_of(sender):
            if self._hosts[slot].rows:
                # The sender may be waiting for room in this channel.
                self._touched[slot] = None
        self._channels.setdefault(target, []).append(channel)

    def touch_feedback(self, channel: Channel) -> None:
        """Mark a channel to which a buffer was fed back, or from which one was removed."""
        self._feedback_channels.setdefault(channel[1], []).append(channel)

    def refresh(self) -> None:
        """Update the agenda."""
        now_ms = self._now_ms()
        while self._wakes and self._wakes[0][0] <= now_ms:
            at, slot = heapq.heappop(self._wakes)
            if self._wakes_ms.get(slot) == at:
                self._touched[slot] = None
        for slot in self._touched:
            self._refresh(slot, self._hosts[slot], now_ms)
        self._touched.clear()
        for worker in list(self._channels):
            self._set_channels(worker, self._receives[worker])
        for slot in list(self._feedback_channels):
            self._set_feedback(slot, self._receives.get(self._places.worker_of(slot), 0.0))

    def next_wake_ms(self) -> int | None:
        """Return when the next slot becomes active without an event."""
        while self._wakes and self._wakes_ms.get(self._wakes[0][1]) != self._wakes[0][0]:
            heapq.heappop(self._wakes)
        return self._wakes[0][0] if self._wakes else None

    def _refresh(self, slot: SlotId, host: SlotHost, now_ms: int) -> None:
        worker = self._places.worker_of(slot)
        slots = self._places.slots_of(worker)
        others = [self._hosts[other] for other in slots if other != slot] if len(slots) > 1 else []
        blocked = bool(host.rows) or any(other.rows for other in others)
        busy = host.busy
        wake_ms, upload_ms = host.wake_at_ms(), host.upload_at_ms()
        is_open = host.is_open
        due = host.fresh or busy or (wake_ms is not None and wake_ms <= now_ms)
        possible: tuple[bool, ...] = (
            not is_open and not host.discarding,
            is_open and bool(host.rows) and self._network.has_room(worker, self._target(slot, host.rows[0][0])),
            is_open and not blocked and not host.discarding and due,
            upload_ms is not None and upload_ms <= now_ms,
            is_open and not blocked and self._control.has_message_for(slot),
            is_open and host.has_calls,
            self._control.has_message_from(slot),
        )
        if host.is_frozen:
            # Messages that it sent before are still in transit.
            possible = (*([False] * (len(possible) - 1)), possible[-1])
        before = self._possible[slot]
        if possible != before:
            self._possible[slot] = possible
            for (kind, do, rate), can, could in zip(self._kinds, possible, before, strict=True):
                if can and not could:
                    self._agenda.enter((kind, slot), partial(do, slot), rate)
                elif could and not can:
                    self._agenda.leave((kind, slot))
        receives = not blocked and host.takes_rows and all(other.takes_rows for other in others)
        one_is_busy = busy or any(other.busy for other in others)
        self._set_channels(worker, (_BUSY_RATE if one_is_busy else 1.0) if receives else 0.0)
        later = [at for at in (wake_ms, upload_ms) if at is not None and at > now_ms and not host.is_frozen]
        if not later:
            self._wakes_ms.pop(slot, None)
        elif (at := min(later)) != self._wakes_ms.get(slot):
            self._wakes_ms[slot] = at
            heapq.heappush(self._wakes, (at, slot))

    def _target(self, slot: SlotId, index: int) -> SlotId:
        return self._places.worker_of(SlotId(slot.level + 1, index))

    def _set_channels(self, worker: SlotId, rate: float) -> None:
        touched = self._channels.pop(worker, ())
        changed = rate != self._receives.get(worker)
        if not touched and not changed:
            return
        self._receives[worker] = rate
        waiting = self._network.waiting(worker)
        if changed:
            for slot in self._places.slots_of(worker):
                self._feedback_channels.setdefault(slot, []).extend(self._feedback.waiting(slot))
        for channel in [*touched, *waiting] if changed else touched:
            if rate and channel in waiting:
                self._agenda.enter(channel, partial(self._executor.receive, channel), rate)
            else:
                self._agenda.leave(channel)

    def _set_feedback(self, slot: SlotId, rate: float) -> None:
        waiting = self._feedback.waiting(slot)
        for channel in self._feedback_channels.pop(slot, ()):
            if rate and channel in waiting:
                self._agenda.enter(("feedback", channel), partial(self._executor.receive_feedback, channel), rate)
            else:
                self._agenda.leave(("feedback", channel))
