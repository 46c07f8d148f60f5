"""A slow program must get all its results, in order, without holding back the job."""

import threading

from penstock.engine.jobmaster.results.result_sinks import SpillingQueue


def test_order_is_kept_through_memory_and_disk():
    """Values would come out of order if chunks in memory overtook those on disk."""
    queue = SpillingQueue(records_in_memory=4)
    for start in range(0, 30, 3):
        queue.put(list(range(start, start + 3)))
    taken = [queue.get() for _ in range(5)]
    queue.put([30])
    queue.close()
    while (values := queue.get()) is not None:
        taken.append(values)
    assert [value for values in taken for value in values] == list(range(31))


def test_a_reader_waits_for_a_writer():
    """An iteration would end early if an empty queue were taken for a closed one."""
    queue = SpillingQueue()
    threading.Timer(0.05, lambda: (queue.put([1]), queue.close())).start()
    assert queue.get() == [1]
    assert queue.get() is None
