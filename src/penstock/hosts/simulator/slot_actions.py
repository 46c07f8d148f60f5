"""Carries out the actions of slots that the scheduler picks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from penstock.engine.rpc.messages import ToTask, decode_from_job_master
from penstock.engine.runtime.ids import SlotId
from penstock.hosts.simulator.checkers import RegionChecks
from penstock.hosts.simulator.host import SlotHost
from penstock.hosts.simulator.network import Channel, ControlMessages, Network
from penstock.hosts.simulator.possibilities import Possibilities
from penstock.hosts.simulator.report import Trace, event_line, name_of, row_line
from penstock.hosts.simulator.worker_places import WorkerPlaces


class SlotActions:
    """Calls `touched` and `touched_channel` for slots and channels that an action has changed.

    `checks`: by level, the checks of the region that hosts it.
    """

    def __init__(
        self,
        hosts: dict[SlotId, SlotHost],
        network: Network,
        feedback: Network,
        control: ControlMessages,
        checks: Mapping[int, RegionChecks],
        random: Random,
        trace: Trace,
        reported: Callable[[bytes], None],
        places: WorkerPlaces,
    ) -> None:
        self.touched: Callable[[SlotId], None] = lambda slot: None
        self.touched_channel: Callable[[Channel], None] = lambda channel: None
        self._hosts = hosts
        self._network = network
        self._feedback = feedback
        self.touched_feedback: Callable[[Channel], None] = lambda channel: None
        self._control = control
        self._checks = checks
        self._random = random
        self._trace = trace
        self._reported = reported
        self._places = places

    def report_changes_to(self, possibilities: Possibilities) -> None:
        """Report to `possibilities` the slots and channels that actions change."""
        self.touched, self.touched_channel = possibilities.touch, possibilities.touch_channel
        self.touched_feedback = possibilities.touch_feedback

    def open(self, slot: SlotId) -> None:
        """Open a slot."""
        self._hosts[slot].open()
        self._after(slot, "open")

    def step_slot(self, slot: SlotId) -> None:
        """Run a step of a slot."""
        self._hosts[slot].step()
        self._after(slot, "step")

    def upload(self, slot: SlotId) -> None:
        """Write a part of a slot's snapshot."""
        self._hosts[slot].continue_upload(self._random.choice([1, 1, 3, 1_000]))
        self.touched(slot)
        self._trace.add(name_of(slot), "writes state")

    def call(self, slot: SlotId) -> None:
        """Continue a call of an asynchronous function."""
        self._hosts[slot].continue_call(self._random)
        self.touched(slot)
        self._trace.add(name_of(slot), "continues with a call")

    def write(self, slot: SlotId) -> None:
        """Write a row of a slot."""
        index, row = self._hosts[slot].next_row()
        sender = self._places.worker_of(slot)
        for target, written in self._places.sent(slot, index, row):
            self._network.send(sender, target, written)
            self.touched_channel((sender, target))
            self._trace.add(name_of(slot), f"writes {row_line(written)}", f"to slot {index}")
        self._hosts[slot].set_price(self._places.price(slot))
        self.touched(slot)

    def receive(self, channel: Channel) -> None:
        """Deliver a row to a slot."""
        arrived = self._places.received(channel[1], self._network.receive(channel))
        self.touched_channel(channel)
        if arrived is None:
            return
        slot, row = arrived
        host = self._hosts[slot]
        self._checks[host.id.level].channels.arrived(row)
        if host.is_open:
            host.receive(row)
        self._after(host.id, f"row {row_line(row)} from {name_of(channel[0])}")

    def receive_feedback(self, channel: Channel) -> None:
        """Deliver a buffer that was fed back to a slot."""
        row = self._feedback.receive(channel)
        self.touched_feedback(channel)
        host = self._hosts[channel[1]]
        if host.is_open:
            host.receive_feedback(row)
        self._after(host.id, f"fed back {row_line(row)} from {name_of(channel[0])}")

    def receive_control(self, slot: SlotId) -> None:
        """Deliver a control message to a slot."""
        message = decode_from_job_master(self._control.next_to(slot))
        assert isinstance(message, ToTask)
        self._hosts[slot].receive_control(message)
        self._after(slot, f"v{message.vertex} {event_line(message.event)}")

    def report(self, slot: SlotId) -> None:
        """Deliver a report of a slot to the job master."""
        data = self._control.next_from(slot)
        self.touched(slot)
        self._reported(data)

    def _after(self, slot: SlotId, event: str) -> None:
        host = self._hosts[slot]
        self.touched(slot)
        if host.slot is not None:
            self._checks[slot.level].tasks.after_event(host.slot)
        sent = f"{len(host.rows)} rows out" if host.rows else ""
        self._trace.add(name_of(slot), event, sent)
