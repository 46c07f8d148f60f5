"""The transport of a worker: how its host reads batches from Spark, and writes rows to Spark.

There are two: `PipeTransport` (the worker's main thread uses the pipes itself) and `IteratorTransport` (PySpark reads
and writes). A host uses only the interface `Transport`. `read`, `wait`, `write` and `ended` belong to the main thread;
any thread may call `ring`.
"""

from __future__ import annotations

import contextlib
import os
import queue
import select
import socket
import threading
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Protocol

import pyarrow as pa

from penstock.common.functions.user_calls import RAISED
from penstock.hosts.spark.rows import to_batch, to_message


class Transport(Protocol):
    """Read batches, write rows. A batch has the columns of `rows.py`, possibly wrapped in one struct column."""

    @property
    def ended(self) -> bool:
        """Return whether the input has ended: Spark has ended the query, or the connection to the JVM is lost."""
        ...

    def read(self, timeout_ns: int | None) -> pa.RecordBatch | None:
        """Return the next batch, or None after `ring`, at the end of the input, or after `timeout_ns` nanoseconds.

        A timeout of None waits without a limit; 0 or less does not wait. Reads ahead only a little, since unread input
        is the back pressure on its senders.
        """
        ...

    def wait(self, timeout_ns: int | None) -> None:
        """Wait like `read`, without reading: until `ring` is called, the input is lost, or the timeout has passed."""
        ...

    def write(self, rows: Sequence[tuple[int, bytes]]) -> Iterator[pa.RecordBatch]:
        """Write rows, (target slot, buffer) each; at least one. Blocks while their reader is full.

        The stage must yield each batch of this iterator; after the last one all rows are written. Raises OSError if
        there is no longer a reader.
        """
        ...

    def ring(self) -> None:
        """Make the current `read` or `wait`, or otherwise the next one, return. Several calls may count as one."""
        ...


QUEUED_BATCHES = 2
"""The capacity of the queue, the same as in PySpark."""

_BELL = object()
_END = object()


class IteratorTransport:
    """Use PySpark's iterators: PySpark reads the input on a thread of its own, and writes what the stage yields.

    An iterator has no timeout, and a host must also react to timers, pushes and control messages. So a thread moves
    batches from PySpark's iterator to a queue, from which the main thread reads. The queue is bounded, to keep back
    pressure. Each batch passes two threads and two queues (PySpark's and this one), so this is slower than pipes.
    PySpark must flush its output after each batch that the stage yields.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        # A semaphore instead of a bounded queue: the bell must be queued even if there is no room for a batch.
        self._arrived: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._room = threading.Semaphore(QUEUED_BATCHES)
        self._rung = False
        self._bell = threading.Event()
        self._ended = False
        thread = threading.Thread(target=self._read_all, args=(batches,), name="penstock-reader", daemon=True)
        thread.start()

    @property
    def ended(self) -> bool:
        return self._ended

    def read(self, timeout_ns: int | None) -> pa.RecordBatch | None:
        if self._ended:
            return None
        try:
            if timeout_ns is not None and timeout_ns <= 0:
                arrived = self._arrived.get_nowait()
            else:
                arrived = self._arrived.get(timeout=None if timeout_ns is None else timeout_ns / 1e9)
        except queue.Empty:
            return None
        if arrived is _BELL:
            # Reset this before the host checks why it was woken, so that a later ring counts as a new one.
            self._rung = False
        elif arrived is _END:
            self._ended = True
        else:
            self._room.release()
            return arrived
        return None

    def wait(self, timeout_ns: int | None) -> None:
        # A separate bell, since batches may precede the one in the queue. If the input is lost, the next `read` notices
        # it, or the thread that watches for the end of the query.
        self._bell.wait(None if timeout_ns is None else max(0.0, timeout_ns / 1e9))
        self._bell.clear()

    def write(self, rows: Sequence[tuple[int, bytes]]) -> Iterator[pa.RecordBatch]:
        yield to_batch(rows)

    def ring(self) -> None:
        self._bell.set()
        # Two threads may both put a bell at the same time: one more `read` returns, which is harmless.
        if not self._rung:
            self._rung = True
            self._arrived.put(_BELL)

    def _read_all(self, batches: Iterator[pa.RecordBatch]) -> None:
        # PySpark's reader fails when Spark closes the pipe, possibly in the middle of a row. If input is lost for
        # another reason, Spark fails the query with that reason.
        with contextlib.suppress(*RAISED):
            for batch in batches:
                self._room.acquire()
                self._arrived.put(batch)
        self._arrived.put(_END)


_READ_BYTES = 1 << 16
_SEND_BYTES = 1 << 15
_WAIT_MAX_MS = 86_400_000
_FINE_WAIT_NS = 10_000_000
"""Shorter waits end within microseconds: poll counts in milliseconds, and what is due would wait half of one more."""
_SELECTED_MAX = 1024
"""select takes descriptors below this number. Source: Linux, select(2), FD_SETSIZE."""
# In addition to the events that poll always reports.
_HUNG_UP = getattr(select, "POLLRDHUP", 0)
# The capacity of a pipe on Linux: one read removes all rings.
_BELL_BYTES = 1 << 16


class PipeTransport:
    """Use the two ends of a worker's socket, which no other code reads or writes.

    PySpark reads a worker's input on a thread, passes batches by a queue, and writes each batch in a dozen small system
    calls. For a row of a few hundred bytes this costs more than all its processing. A stage of a pipelined job runs as
    long as the job, so it can take over both pipes: it polls the input, and writes Arrow messages to the output, one
    system call each, in the same format, Arrow's stream format. PySpark writes the first batch, which the stage yields,
    and with it the schema. docs/internals/decisions/0006-own-pipes.md has the reasons and the figures.
    """

    def __init__(self, incoming: BinaryIO, outgoing: BinaryIO) -> None:
        self._inbox = Inbox(incoming)
        self._outgoing = Outgoing(outgoing)
        self._has_schema = False
        """Whether PySpark has written the schema and the first batch."""

    @property
    def ended(self) -> bool:
        return self._inbox.ended

    def read(self, timeout_ns: int | None) -> pa.RecordBatch | None:
        return self._inbox.get(timeout_ns)

    def wait(self, timeout_ns: int | None) -> None:
        self._inbox.wait(timeout_ns)

    def write(self, rows: Sequence[tuple[int, bytes]]) -> Iterator[pa.RecordBatch]:
        if self._has_schema:
            self._outgoing.write(rows)
            return
        yield to_batch(rows)
        self._outgoing.take_over()
        self._has_schema = True

    def ring(self) -> None:
        self._inbox.ring()


class Inbox:
    """Read batches from a pipe, until a bell rings: `get` returns None then, and after its timeout."""

    def __init__(self, pipe: BinaryIO) -> None:
        self._stream = _Stream(pipe)
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._bell, self._ringer = os.pipe()
        for descriptor in (self._bell, self._ringer):
            os.set_blocking(descriptor, False)
        self._poll = select.poll()
        self._poll.register(pipe, select.POLLIN)
        self._poll.register(self._bell, select.POLLIN)
        self._poll_bell = select.poll()
        self._poll_bell.register(pipe, _HUNG_UP)
        self._poll_bell.register(self._bell, select.POLLIN)
        self._descriptors = [pipe.fileno(), self._bell]
        self._waits_finely = max(self._descriptors) < _SELECTED_MAX
        self.ended = False

    def get(self, timeout_ns: int | None) -> pa.RecordBatch | None:
        """Return the next batch. Waits at most `timeout_ns`, without a limit if None, not at all if 0 or less."""
        # Bytes that were read together with the previous batch are no longer in the pipe, so poll does not report them.
        if self._stream.has_buffered or self._wait(self._poll, timeout_ns, self._descriptors):
            return self._next()
        return None

    def wait(self, timeout_ns: int | None) -> None:
        """Wait at most `timeout_ns` for the bell only. Sets `ended` if Spark closes the pipe."""
        if self._wait(self._poll_bell, timeout_ns, [self._bell]):
            self.ended = True

    def _wait(self, poll: select.poll, timeout_ns: int | None, descriptors: list[int]) -> bool:
        """Wait, and return whether there was an event other than the bell. `descriptors`: those that end the wait."""
        if timeout_ns is not None and 0 < timeout_ns < _FINE_WAIT_NS and self._waits_finely:
            select.select(descriptors, (), (), timeout_ns / 1e9)
            timeout_ns = 0
        # Round up: a wait that ends too early costs another turn of the host's loop. The maximum for poll is 24 days,
        # and a timer may be later.
        timeout_ms = None if timeout_ns is None else min(max(0, -(-timeout_ns // 1_000_000)), _WAIT_MAX_MS)
        ready = dict(poll.poll(timeout_ms))
        if ready.pop(self._bell, None) is not None:
            with contextlib.suppress(BlockingIOError):
                os.read(self._bell, _BELL_BYTES)
        return bool(ready)

    def _next(self) -> pa.RecordBatch | None:
        try:
            if self._batches is None:
                self._batches = iter(pa.ipc.open_stream(self._stream))
            return next(self._batches)
        except (StopIteration, OSError, pa.ArrowInvalid):
            # When Spark ends a query it closes the pipe, possibly in the middle of a row. If input is lost for another
            # reason, Spark fails the query with that reason.
            self.ended = True
            return None

    def ring(self) -> None:
        """Make `get` return. Any thread may call this."""
        with contextlib.suppress(BlockingIOError):  # the pipe is full of rings, and one is enough
            os.write(self._ringer, b"\0")


class _Stream:
    """The file from which pyarrow reads: one system call reads the available bytes, and `_chunk` keeps the rest.

    A BufferedReader does not suffice: it does not tell whether it has buffered bytes.
    """

    closed = False

    def __init__(self, pipe: BinaryIO) -> None:
        self._read: Any = pipe.read1  # type: ignore[attr-defined]
        self._chunk = b""
        self._at = 0

    @property
    def has_buffered(self) -> bool:
        """Return whether bytes of the next batch are already read."""
        return self._at < len(self._chunk)

    def read(self, count: int) -> bytes:
        """Return exactly `count` bytes, or fewer at the end of the input."""
        at, chunk = self._at, self._chunk
        if at + count <= len(chunk):
            self._at = at + count
            return chunk[at : at + count]
        parts = [chunk[at:]]
        missing = count - len(parts[0])
        self._chunk, self._at = b"", 0
        while missing:
            # Read ahead only a little (64 KiB): bytes that have left the pipe cause no back pressure on the sender.
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
    """Write rows to a pipe, after PySpark has written the schema and the first batch."""

    def __init__(self, pipe: BinaryIO) -> None:
        self._pipe = pipe
        self._write = pipe.raw.write  # type: ignore[attr-defined]

    def take_over(self) -> None:
        """Become the only writer, after PySpark has written the first batch."""
        self._pipe.flush()
        # Bytes in the socket's buffer cause no back pressure: make it as small as one network buffer.
        with socket.socket(fileno=os.dup(self._pipe.fileno())) as pipe:
            pipe.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)

    def write(self, rows: Sequence[tuple[int, bytes]]) -> None:
        """Write rows. Blocks while the reader is full. Raises OSError if there is no longer a reader."""
        # The raw pipe: PySpark's buffer of `spark.buffer.size` bytes would split a message into many system calls.
        message = to_message(rows)
        written = self._write(message)
        while written < len(message):
            message = message[written:]
            written = self._write(message)
