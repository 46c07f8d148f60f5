"""A thread beside the slot's that reports to the job master, over real sockets."""

from __future__ import annotations

import threading

from tests.unit.engine.rpc.test_control import Driver, Slot, register, until

from penstock.engine.rpc.messages import FromSlot, Heartbeat
from penstock.engine.runtime.task.events import SampledStack, StacksSampled


def test_a_thread_beside_the_slot_can_send() -> None:
    """Who asks where a slot's function hangs would be answered when it does not hang any more."""
    driver = Driver()
    slot = Slot(driver.server.address, 1, interval_ms=5, heartbeat=lambda sent: FromSlot(0, 1, 1, Heartbeat([], sent)))
    answer = FromSlot(0, 1, 1, StacksSampled(0, 1, 7, [SampledStack(["m.f:1"], True, 3)]))
    threads = [threading.Thread(target=slot.send_beside, args=(answer,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    slot.send(register(1))
    for thread in threads:
        thread.join()
    until(lambda: driver.arrived.count(answer) == 3 and register(1) in driver.arrived)
    # Else the job master would take the count of messages for a sign that some were lost.
    until(lambda: isinstance(driver.arrived[-1].report, Heartbeat) and driver.arrived[-1].report.sent == 4)
    slot.close()
    driver.server.stop()
