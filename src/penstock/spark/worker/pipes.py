"""The pipes between a Python worker and the JVM beside it, in the hands of the slot's own thread.

PySpark reads a worker's input on a thread, hands batches over by a queue, and writes each batch in a dozen small system
calls. For a row a few hundred bytes long that costs more than all that is done with it. A stage of ours goes on for as
long as the job does, so it takes the two pipes over: it polls the one for input, and writes Arrow messages into the
other, one call each. What goes over the pipes is what PySpark would read and write: Arrow's stream format.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import pyarrow as pa

from penstock.spark.rows import to_message

_READ_BYTES = 1 << 16
_SEND_BYTES = 1 << 15


class OwnPipes:
    """Part of a stage's function: unpickled in a worker, it keeps PySpark from starting its reading thread."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, ()

    def of_worker(self) -> tuple[BinaryIO, BinaryIO]:
        """Input and output of the worker in which this is called, found in PySpark's frame that calls the stage."""
        frame = sys._getframe()
        while frame.f_back is not None:
            frame = frame.f_back
            if frame.f_code.co_name == "process" and frame.f_globals.get("__name__") == "pyspark.worker":
                return frame.f_locals["input_data_stream"], frame.f_locals["outfile"]
        raise AssertionError("not called by a PySpark worker, or by another version than the one that penstock needs")


def _unpickled() -> OwnPipes:
    # PySpark looks at this after it has loaded the function and before it reads any input.
    os.environ["SPARK_PIPELINED_UDF"] = "0"
    return OwnPipes()


class Inbox:
    """Batches as they come, and a bell: `get` returns None when only the bell rang, or nothing came in time."""

    def __init__(self, pipe: BinaryIO) -> None:
        self._stream = _Stream(pipe)
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._bell, self._ringer = os.pipe()
        for descriptor in (self._bell, self._ringer):
            os.set_blocking(descriptor, False)
        self._poll = select.poll()
        self._poll.register(pipe, select.POLLIN)
        self._poll.register(self._bell, select.POLLIN)
        self.ended = False

    def get(self, timeout_ns: int | None) -> pa.RecordBatch | None:
        """The next batch; waits for it at most `timeout_ns`, for ever if None, not at all if 0."""
        if not self._stream.ahead:
            # Rounded up: a wait that ends too early is a turn of the loop for nothing.
            ready = dict(self._poll.poll(None if timeout_ns is None else max(0, -(-timeout_ns // 1_000_000))))
            if ready.pop(self._bell, None) is not None:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._bell, 1024)
            if not ready:
                return None
        return self._next()

    def _next(self) -> pa.RecordBatch | None:
        try:
            if self._batches is None:
                self._batches = iter(pa.ipc.open_stream(self._stream))
            return next(self._batches)
        except (StopIteration, OSError, pa.ArrowInvalid):
            # When Spark ends a query it closes the pipe in the middle of a row. Input that is lost is told by Spark.
            self.ended = True
            return None

    def ring(self) -> None:
        """Wake up whoever waits in `get`, from any thread."""
        with contextlib.suppress(BlockingIOError):  # full: then it has enough to wake up for
            os.write(self._ringer, b"\0")


class _Stream:
    """What pyarrow reads from: as much as there is in one system call, and knowing whether more has been read."""

    closed = False

    def __init__(self, pipe: BinaryIO) -> None:
        self._read: Any = pipe.read1  # type: ignore[attr-defined]
        self._chunk = b""
        self._at = 0

    @property
    def ahead(self) -> bool:
        """Whether bytes of the next batch are here already."""
        return self._at < len(self._chunk)

    def read(self, count: int) -> bytes:
        """Exactly so many bytes, fewer at the end only."""
        at, chunk = self._at, self._chunk
        if at + count <= len(chunk):
            self._at = at + count
            return chunk[at : at + count]
        parts = [chunk[at:]]
        missing = count - len(parts[0])
        self._chunk, self._at = b"", 0
        while missing:
            chunk = self._read(max(missing, _READ_BYTES))
            if not chunk:
                break
            parts.append(chunk[:missing])
            if len(chunk) > missing:
                self._chunk, self._at = chunk, missing
                break
            missing -= len(chunk)
        return b"".join(parts)


class Outgoing:
    """Writes rows. PySpark itself has written the first batch: with it the stream and its schema begin."""

    def __init__(self, pipe: BinaryIO) -> None:
        self._pipe = pipe
        self._write = pipe.raw.write  # type: ignore[attr-defined]

    def begun(self) -> None:
        """PySpark has written the first batch."""
        self._pipe.flush()
        # What lies in the socket is no longer held back by anybody: as little as lets a buffer through in one go.
        with socket.socket(fileno=os.dup(self._pipe.fileno())) as pipe:
            pipe.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)

    def write(self, rows: Sequence[tuple[int, bytes]]) -> None:
        """Write rows; blocks while the reader has no room. Raises OSError when there is no reader any more."""
        message = to_message(rows)
        written = self._write(message)
        while written < len(message):
            message = message[written:]
            written = self._write(message)
