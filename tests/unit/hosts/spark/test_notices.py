"""What readers say from threads of their own gets to the slot's thread."""

from __future__ import annotations

import threading

from penstock.engine.runtime.task.events import DataAvailable
from penstock.hosts.spark.worker.event_loop import ReaderNotices


def test_each_notice_wakes_the_slot_and_a_vertex_gets_one_event() -> None:
    """A source would be polled only when its timer fires, or be polled a thousand times for one chunk."""
    rings: list[int] = []
    notices = ReaderNotices(lambda: rings.append(1))
    for vertex in (3, 3, 5, 3):
        notices.notify(vertex)
    assert len(rings) == 4
    assert sorted(notices.take(), key=lambda one: one[0]) == [(3, DataAvailable()), (5, DataAvailable())]
    assert notices.take() == []


def test_any_thread_may_notify() -> None:
    """The client of a message queue would lose what it has said while the slot looked."""
    notices = ReaderNotices(lambda: None)
    threads = [threading.Thread(target=notices.notify, args=(vertex,)) for vertex in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {vertex for vertex, _ in notices.take()} == set(range(20))
