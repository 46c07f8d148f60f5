"""Threads other than the slot's that report to the JobMaster, over real sockets."""

from __future__ import annotations

import threading

from tests.unit.engine.rpc.test_control import Driver, Slot, register, until

from penstock.engine.rpc.messages import FromSlot, Heartbeat
from penstock.engine.runtime.task.events import SampledStack, StacksSampled


def test_another_thread_than_the_slots_can_send() -> None:
    """Samples of the stack of a function that hangs would arrive when it no longer hangs."""
    driver = Driver()
    slot = Slot(driver.server.address, 1, interval_ms=5, heartbeat=lambda sent: FromSlot(0, 1, 1, Heartbeat([], sent)))
    answer = FromSlot(0, 1, 1, StacksSampled(0, 1, 7, [SampledStack(["m.f:1"], True, 3)]))
    threads = [threading.Thread(target=slot.send_from_other_thread, args=(answer,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    slot.send(register(1))
    for thread in threads:
        thread.join()
    until(lambda: driver.arrived.count(answer) == 3 and register(1) in driver.arrived)
    # Otherwise the JobMaster would take the count of messages for a sign that some were lost.
    until(lambda: isinstance(driver.arrived[-1].report, Heartbeat) and driver.arrived[-1].report.sent == 4)
    slot.close()
    driver.server.stop()
