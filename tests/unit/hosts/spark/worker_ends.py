"""A worker's socket with PySpark's own code on one end and a stand-in for the JVM on the other."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.pandas.serializers import ArrowStreamSerializer

from penstock.common.configuration.choices import SparkTransport
from penstock.hosts.spark.rows import buffers_of, to_batch
from penstock.hosts.spark.worker.transport import IteratorTransport, PipeTransport, Transport

Rows = list[tuple[int, bytes]]


def wrapped(batch: pa.RecordBatch) -> pa.RecordBatch:
    """As PySpark wraps what a stage yields, and as the JVM wraps what it sends."""
    struct = pa.StructArray.from_arrays(batch.columns, fields=pa.struct(list(batch.schema)))
    return pa.RecordBatch.from_arrays([struct], ["_0"])


def text(batch: pa.RecordBatch | None) -> bytes:
    """The only buffer of a batch."""
    assert batch is not None
    (only,) = buffers_of(batch)
    return only


class Worker:
    """The worker's two streams as PySpark opens them, and the transport of a slot over them."""

    def __init__(self, kind: SparkTransport) -> None:
        self.kind = kind
        ours, theirs = socket.socketpair()
        # The buffer size is that of penstock's sessions.
        self.incoming = os.fdopen(os.dup(ours.fileno()), "rb", 64)
        self.outgoing = os.fdopen(os.dup(ours.fileno()), "wb", 64)
        ours.close()
        self.jvm = Jvm(theirs)
        self.transport: Transport
        if kind is SparkTransport.PIPES:
            self.transport = PipeTransport(self.incoming, self.outgoing)
        else:
            self.transport = IteratorTransport(ArrowStreamSerializer().load_stream(self.incoming))

    def run(self, stage: Iterator[pa.RecordBatch]) -> None:
        """Write what a stage yields, as PySpark does; it flushes each batch unless its reading thread is off."""
        serializer = ArrowStreamSerializer(flush_per_batch=self.kind is SparkTransport.ITERATORS)
        serializer.dump_stream(map(wrapped, stage), self.outgoing)
        self.outgoing.flush()

    def write(self, *messages: Rows) -> None:
        """Run a stage that only writes."""
        self.run(batch for rows in messages for batch in self.transport.write(rows))

    def close(self) -> None:
        self.jvm.hang_up()
        self.incoming.close()
        with contextlib.suppress(OSError):
            self.outgoing.close()


class Jvm:
    """The other end."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self._file = end.makefile("wb")
        self._writer: pa.RecordBatchStreamWriter | None = None
        self._reader: pa.RecordBatchStreamReader | None = None

    def send(self, *texts: bytes) -> None:
        """A batch for each text, all in one go."""
        for content in texts:
            batch = wrapped(to_batch([(0, content)]))
            self._writer = self._writer or pa.RecordBatchStreamWriter(self._file, batch.schema)
            self._writer.write_batch(batch)
        self._file.flush()

    def receive(self) -> Rows:
        """The rows of the next batch."""
        self._reader = self._reader or pa.ipc.open_stream(self.socket.makefile("rb"))
        rows = self._reader.read_next_batch().column(0).to_pylist()
        return [(row["target"], row["buffer"]) for row in rows]

    def hang_up(self) -> None:
        with contextlib.suppress(OSError):
            # Before the file is closed: a thread that is blocked writing to it holds its lock.
            self.socket.shutdown(socket.SHUT_RDWR)
            self._file.close()
        self.socket.close()
