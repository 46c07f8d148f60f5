"""A worker's pipes: input in order and with a bell, output that PySpark's side can read."""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import threading
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

from penstock.spark.rows import buffers_of, to_batch, to_message
from penstock.spark.worker.pipes import Inbox, Outgoing, OwnPipes


class Jvm:
    """The other end of a worker's two pipes."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self.socket = theirs
        # As PySpark opens them, with the buffer size that penstock's sessions set.
        self.incoming = os.fdopen(os.dup(ours.fileno()), "rb", 64)
        self.outgoing = os.fdopen(os.dup(ours.fileno()), "wb", 64)
        ours.close()
        self._sink = pa.BufferOutputStream()
        self._file = theirs.makefile("wb")
        self._writer: pa.RecordBatchStreamWriter | None = None

    def write(self, *texts: bytes) -> None:
        """A batch for each text, all in one go."""
        for text in texts:
            batch = wrapped([(0, text)])
            self._writer = self._writer or pa.RecordBatchStreamWriter(self._file, batch.schema)
            self._writer.write_batch(batch)
        self._file.flush()

    def hang_up(self) -> None:
        self._file.close()
        self.socket.close()


def wrapped(rows: list[tuple[int, bytes]]) -> pa.RecordBatch:
    """As PySpark wraps rows."""
    batch = to_batch(rows)
    struct = pa.StructArray.from_arrays(batch.columns, fields=pa.struct(list(batch.schema)))
    return pa.RecordBatch.from_arrays([struct], ["_0"])


@pytest.fixture
def jvm() -> Iterator[Jvm]:
    jvm = Jvm()
    yield jvm
    jvm.incoming.close()
    jvm.outgoing.close()
    jvm.socket.close()


def text(batch: pa.RecordBatch | None) -> bytes:
    assert batch is not None
    (only,) = buffers_of(batch)
    return only


def test_batches_come_in_order_then_the_end(jvm) -> None:
    """Records of a sender would overtake each other, or stay behind until the next one comes."""
    inbox = Inbox(jvm.incoming)
    jvm.write(*[str(n).encode() for n in range(50)])
    assert [int(text(inbox.get(1_000_000_000))) for _ in range(50)] == list(range(50))
    assert inbox.get(0) is None, "nothing more is there, and nothing is made up"
    assert not inbox.ended
    jvm.hang_up()
    assert inbox.get(None) is None
    assert inbox.ended


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65_000, 70_000, 1_000_000])
def test_batches_of_any_size(jvm, size) -> None:
    """A record larger than what is read at once would be cut, or waited for for ever."""
    inbox = Inbox(jvm.incoming)
    data = [bytes([n]) * size for n in range(3)]
    writer = threading.Thread(target=jvm.write, args=data)
    writer.start()
    assert [text(inbox.get(2_000_000_000)) for _ in range(3)] == data
    writer.join()


def test_it_reads_only_a_little_ahead(jvm) -> None:
    """Back pressure would end here: the worker would take in what it can't process."""
    inbox = Inbox(jvm.incoming)
    written = []

    def write() -> None:
        with contextlib.suppress(OSError):
            for n in range(200):
                jvm.write(bytes(100_000))
                written.append(n)

    threading.Thread(target=write, daemon=True).start()
    inbox.get(1_000_000_000)
    time.sleep(0.1)
    assert len(written) < 20


def test_the_bell_wakes_who_waits(jvm) -> None:
    """A cancel would be noticed with the next record, which may never come."""
    inbox = Inbox(jvm.incoming)
    threading.Timer(0.05, inbox.ring).start()
    assert inbox.get(None) is None
    assert not inbox.ended
    assert inbox.get(0) is None
    for _ in range(100_000):
        inbox.ring()
    assert inbox.get(None) is None, "rings that nobody hears are no more than one"


def test_it_waits_no_longer_than_it_is_told(jvm) -> None:
    """Timers and flushes would wait for the next record."""
    inbox = Inbox(jvm.incoming)
    began = time.monotonic()
    assert inbox.get(0) is None
    assert inbox.get(-5_000_000) is None
    assert time.monotonic() - began < 0.05
    assert inbox.get(30_000_000) is None
    assert 0.02 < time.monotonic() - began < 1


def test_a_batch_cut_short_ends_the_slot(jvm) -> None:
    """A worker whose pipe is gone would wait for ever, or tell a traceback that is not the reason."""
    inbox = Inbox(jvm.incoming)
    jvm.write(b"1")
    assert text(inbox.get(1_000_000_000)) == b"1"
    jvm.socket.send(bytes(to_message([(0, bytes(1000))])[:100]))
    jvm.hang_up()
    assert inbox.get(None) is None
    assert inbox.ended


def test_rows_are_read_as_what_pyspark_has_begun(jvm) -> None:
    """Spark would not understand the second row."""
    first, rest = [(1, b"a")], [[(2, b"b"), (3, b"")], [(0, bytes(500_000))]]
    writer = pa.RecordBatchStreamWriter(jvm.outgoing, wrapped(first).schema)
    writer.write_batch(wrapped(first))
    outgoing = Outgoing(jvm.outgoing)
    outgoing.begun()

    def write() -> None:
        for rows in rest:
            outgoing.write(rows)

    thread = threading.Thread(target=write)
    thread.start()
    reader = pa.ipc.open_stream(jvm.socket.makefile("rb"))
    read = [reader.read_next_batch().column(0).to_pylist() for _ in range(3)]
    thread.join()
    assert [[(row["target"], row["buffer"]) for row in rows] for rows in read] == [first, *rest]


def test_a_stage_turns_pysparks_reading_thread_off(monkeypatch) -> None:
    """Both threads would read the same pipe, and each would get half of a batch."""
    monkeypatch.setenv("SPARK_PIPELINED_UDF", "1")
    data = pickle.dumps(OwnPipes())
    assert os.environ["SPARK_PIPELINED_UDF"] == "1"
    pickle.loads(data)
    assert os.environ["SPARK_PIPELINED_UDF"] == "0"


def test_outside_of_a_worker_there_are_no_pipes() -> None:
    """With another PySpark the slot would wait for ever rather than say why it can't work."""
    with pytest.raises(AssertionError, match="PySpark worker"):
        OwnPipes().of_worker()
