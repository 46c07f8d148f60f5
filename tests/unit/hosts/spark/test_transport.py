"""Both transports of a slot, with PySpark's code between: batches in order, a bell, rows that Spark can read."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import pytest
from tests.unit.hosts.spark.worker_ends import Worker, text

from penstock.common.configuration.choices import SparkTransport
from penstock.hosts.spark.rows import to_message

SECOND_NS = 1_000_000_000


@pytest.fixture(params=SparkTransport, ids=lambda kind: kind.value)
def worker(request) -> Iterator[Worker]:
    worker = Worker(request.param)
    yield worker
    worker.close()


def test_batches_come_in_order_then_the_end(worker) -> None:
    """Records of a sender would overtake each other, or stay behind until the next one comes."""
    transport = worker.transport
    worker.jvm.send(*[str(n).encode() for n in range(50)])
    assert [int(text(transport.read(SECOND_NS))) for _ in range(50)] == list(range(50))
    assert transport.read(0) is None, "nothing more is there, and nothing is made up"
    assert not transport.ended
    worker.jvm.hang_up()
    assert transport.read(None) is None
    assert transport.ended
    assert transport.read(None) is None, "nor does it wait for what can't come"


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65_000, 70_000, 1_000_000])
def test_batches_of_any_size(worker, size) -> None:
    """A record larger than what is read at once would be cut, or waited for without end."""
    data = [bytes([n]) * size for n in range(3)]
    sender = threading.Thread(target=worker.jvm.send, args=data)
    sender.start()
    assert [text(worker.transport.read(2 * SECOND_NS)) for _ in range(3)] == data
    sender.join()


def test_it_reads_only_a_little_ahead(worker) -> None:
    """Back pressure would end here: the worker would take in what it can't process."""
    sent = []

    def send() -> None:
        with contextlib.suppress(OSError):
            for n in range(200):
                worker.jvm.send(bytes(100_000))
                sent.append(n)

    threading.Thread(target=send, daemon=True).start()
    worker.transport.read(SECOND_NS)
    time.sleep(0.1)
    assert len(sent) < 20


def test_a_full_queue_continues_when_it_is_read(worker) -> None:
    """A slot that was held back for a moment would never get another record."""
    sender = threading.Thread(target=worker.jvm.send, args=[bytes([n]) * 100_000 for n in range(20)])
    sender.start()
    time.sleep(0.05)
    assert [text(worker.transport.read(2 * SECOND_NS))[0] for _ in range(20)] == list(range(20))
    sender.join()


def test_the_bell_wakes_a_waiting_slot(worker) -> None:
    """A cancel would be noticed with the next record, which may never come."""
    transport = worker.transport
    threading.Timer(0.05, transport.ring).start()
    assert transport.read(None) is None
    assert not transport.ended
    assert transport.read(0) is None
    for _ in range(100_000):
        transport.ring()
    assert transport.read(None) is None
    started = time.monotonic()
    assert transport.read(30_000_000) is None
    assert time.monotonic() - started > 0.02, "rings before the slot listens count as one"


def test_the_bell_rings_while_batches_wait(worker) -> None:
    """A slot under load would not learn of a checkpoint, or lose a record for it."""
    transport = worker.transport
    worker.jvm.send(b"0", b"1", b"2")
    assert text(transport.read(SECOND_NS)) == b"0"
    transport.ring()
    found = [transport.read(SECOND_NS) for _ in range(3)]
    assert [text(batch) for batch in found if batch is not None] in ([b"1", b"2"], [b"1"])
    rest = [] if found.count(None) == 1 else [text(transport.read(SECOND_NS))]
    assert [text(batch) for batch in found if batch is not None] + rest == [b"1", b"2"]


def test_it_waits_no_longer_than_the_timeout(worker) -> None:
    """Timers and flushes would wait for the next record."""
    transport = worker.transport
    started = time.monotonic()
    assert transport.read(0) is None
    assert transport.read(-5_000_000) is None
    assert time.monotonic() - started < 0.05
    assert transport.read(30_000_000) is None
    assert 0.02 < time.monotonic() - started < 1


def test_a_batch_cut_short_ends_the_input(worker) -> None:
    """A worker whose pipe is gone would wait without end, or fail with a traceback that is not the reason."""
    transport = worker.transport
    worker.jvm.send(b"1")
    assert text(transport.read(SECOND_NS)) == b"1"
    worker.jvm.socket.send(bytes(to_message([(0, bytes(1000))])[:100]))
    worker.jvm.hang_up()
    assert transport.read(None) is None
    assert transport.ended


def test_rows_arrive_as_they_were_written(worker) -> None:
    """Spark would not understand the second row, or get the buffer of another one."""
    messages = [[(1, b"a")], [(2, b"b"), (3, b"")], [(0, bytes(500_000))], [(2**31 - 1, b"\xff" * 70_000)]]
    thread = threading.Thread(target=worker.write, args=messages)
    thread.start()
    assert [worker.jvm.receive() for _ in messages] == messages
    thread.join()


def test_a_row_is_out_when_it_is_written(worker) -> None:
    """The last row of a burst would stay in a buffer of PySpark's until the next one."""
    seen = []
    go_on = threading.Event()

    def stage():
        for message in ([(0, b"first")], [(1, b"second")]):
            yield from worker.transport.write(message)
            go_on.wait(2)
            go_on.clear()

    thread = threading.Thread(target=worker.run, args=[stage()])
    thread.start()
    for _ in range(2):
        seen += worker.jvm.receive()
        go_on.set()
    thread.join()
    assert seen == [(0, b"first"), (1, b"second")]


def test_a_write_waits_for_its_reader(worker) -> None:
    """A slow task would not hold back its sources: memory would fill with what it has not read."""
    written = []

    def stage():
        for n in range(100):
            yield from worker.transport.write([(0, bytes(100_000))])
            written.append(n)

    thread = threading.Thread(target=worker.run, args=[stage()])
    thread.start()
    time.sleep(0.1)
    assert len(written) < 20
    for _ in range(100):
        worker.jvm.receive()
    thread.join()
    assert len(written) == 100


def test_a_closed_reader_is_noticed(worker) -> None:
    """The worker of a stopped query would continue for nothing."""
    worker.jvm.hang_up()
    with pytest.raises(OSError):
        worker.write(*[[(0, bytes(100_000))]] * 10)
