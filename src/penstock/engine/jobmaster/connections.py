"""The control connections of an attempt's slots.

One that breaks and is made again loses what was under way, in both directions, and neither end is notified: splits,
committables, the end of a task. It is unknown what to send again, so the attempt has to fail.
"""

from __future__ import annotations

from collections import Counter

from penstock.common.errors import TaskLostError
from penstock.engine.rpc.messages import Heartbeat, SlotReport
from penstock.engine.runtime.ids import SlotId


class SlotConnections:
    """Of one attempt."""

    def __init__(self) -> None:
        self._connections: dict[SlotId, bytes] = {}
        self._received: Counter[SlotId] = Counter()
        """How many messages of a slot have arrived, heartbeats of its control thread not counted."""
        self._broken: set[SlotId] = set()

    def have_broken(self, slot: SlotId) -> bool:
        """Whether messages of a slot, or to it, may be lost."""
        return slot in self._broken

    def fault(self, slot: SlotId, connection: bytes, report: SlotReport) -> TaskLostError | None:
        """A slot reported by a connection. An error: messages may be lost, which was not known before."""
        # The first connection may have broken, too, before the driver heard of it: the number shows that.
        is_complete = self._connections.setdefault(slot, connection) == connection
        if isinstance(report, Heartbeat) and report.sent is not None:
            is_complete = is_complete and self._received[slot] == report.sent
            self._received[slot] = report.sent
        else:
            self._received[slot] += 1
        if is_complete:
            return None
        self._connections[slot] = connection
        self._broken.add(slot)
        return TaskLostError(
            f"the connection of level {slot.level} slot {slot.index} to the driver broke, or its worker was lost and "
            "started again by Spark: messages may be lost"
        )
