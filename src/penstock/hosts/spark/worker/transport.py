"""The transport of a slot: how its host gets batches from Spark and hands rows to it.

There are two: `PipeTransport` (the slot's thread owns the worker's pipes) and `IteratorTransport` (PySpark's own). A
host knows only what is here. `read`, `wait`, `write` and `ended` belong to the slot's thread, `ring` may be called by
any.
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
    """Batches in, rows out. A batch has the columns of `rows.py`, as they are or wrapped in one struct column."""

    @property
    def ended(self) -> bool:
        """Whether the input is over: Spark has ended the query, or the connection to the JVM is lost."""
        ...

    def read(self, timeout_ns: int | None) -> pa.RecordBatch | None:
        """The next batch; None if `ring` was called, the input ended, or nothing came within `timeout_ns` nanoseconds.

        None waits without limit, 0 or less does not wait. Reads little ahead: what is not read holds back its senders.
        """
        ...

    def wait(self, timeout_ns: int | None) -> None:
        """Wait as `read` does, and read nothing: until `ring` was called, the input is lost, or the time is over."""
        ...

    def write(self, rows: Sequence[tuple[int, bytes]]) -> Iterator[pa.RecordBatch]:
        """Write rows, (target slot, buffer) each; at least one. Blocks while their reader has no room.

        The stage yields each batch that this gives, and the rows are written when it has been exhausted. Raises OSError
        when there is no reader any more.
        """
        ...

    def ring(self) -> None:
        """Make the `read` or `wait` that waits now, or else the next one, return. Any number of calls count as one."""
        ...


# The plain transport: PySpark reads the input on a thread of its own and writes what the stage yields.
#
# An iterator can't be asked with a timeout, and a host also has to react to timers, pushes and control messages. So a
# thread takes batches from PySpark's iterator and puts them into a queue, from which the slot's thread reads. The queue
# is bounded, or back pressure would end here. Each batch passes two threads and two queues (PySpark's and this one):
# that is what makes it slower than pipes.

QUEUED_BATCHES = 2
"""As many as PySpark's own queue holds."""

_BELL = object()
_END = object()


class IteratorTransport:
    """A `Transport` over PySpark's iterators. PySpark has to flush its output after each batch that is yielded."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        # Not a bounded queue but a semaphore beside it: the bell must get in when there is no room for a batch.
        self._arrived: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._room = threading.Semaphore(QUEUED_BATCHES)
        self._rung = False
        self._bell = threading.Event()
        self._ended = False
        thread = threading.Thread(target=self._take_all, args=(batches,), name="penstock-reader", daemon=True)
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
            # Reset before the host looks at what it was woken for: a later ring is a new one.
            self._rung = False
        elif arrived is _END:
            self._ended = True
        else:
            self._room.release()
            return arrived
        return None

    def wait(self, timeout_ns: int | None) -> None:
        # A bell of its own: in the queue there may be batches before the other one. What is lost is noticed by the next
        # `read`, or by the thread that watches for the end of the query.
        self._bell.wait(None if timeout_ns is None else max(0.0, timeout_ns / 1e9))
        self._bell.clear()

    def write(self, rows: Sequence[tuple[int, bytes]]) -> Iterator[pa.RecordBatch]:
        yield to_batch(rows)

    def ring(self) -> None:
        self._bell.set()
        # Two threads at once may both put a bell: one `read` too many returns, which does no harm.
        if not self._rung:
            self._rung = True
            self._arrived.put(_BELL)

    def _take_all(self, batches: Iterator[pa.RecordBatch]) -> None:
        # PySpark's reader fails when Spark closes the pipe, possibly in the middle of a row. If input is lost for
        # another reason, Spark fails the query and says why.
        with contextlib.suppress(*RAISED):
            for batch in batches:
                self._room.acquire()
                self._arrived.put(batch)
        self._arrived.put(_END)


# The transport over a worker's pipes, which the slot's thread reads and writes itself.
#
# PySpark reads a worker's input on a thread, hands batches over by a queue, and writes each batch in a dozen small
# system calls. For a row of a few hundred bytes that costs more than all that is done with it. A stage of a pipelined
# job runs as long as the job, so it takes over both pipes: it polls the one for input, and writes Arrow messages into
# the other, one system call each. What goes over the pipes is what PySpark would read and write: Arrow's stream format.
# docs/internals/decisions/0006-own-pipes.md has the reasons and the figures.

_READ_BYTES = 1 << 16
_SEND_BYTES = 1 << 15
_WAIT_MAX_MS = 86_400_000
# Besides what poll always reports.
_HANGS_UP = getattr(select, "POLLRDHUP", 0)
# All that a pipe can hold on Linux: any number of rings is noticed as one.
_BELL_BYTES = 1 << 16


class PipeTransport:
    """A `Transport` over the two ends of a worker's socket, which nothing else reads or writes.

    The first batch is yielded, so that PySpark starts the stream and writes its schema; all others are written here.
    """

    def __init__(self, incoming: BinaryIO, outgoing: BinaryIO) -> None:
        self._inbox = Inbox(incoming)
        self._outgoing = Outgoing(outgoing)
        self._begun = False

    @property
    def ended(self) -> bool:
        return self._inbox.ended

    def read(self, timeout_ns: int | None) -> pa.RecordBatch | None:
        return self._inbox.get(timeout_ns)

    def wait(self, timeout_ns: int | None) -> None:
        self._inbox.wait(timeout_ns)

    def write(self, rows: Sequence[tuple[int, bytes]]) -> Iterator[pa.RecordBatch]:
        if self._begun:
            self._outgoing.write(rows)
            return
        yield to_batch(rows)
        self._outgoing.begun()
        self._begun = True

    def ring(self) -> None:
        self._inbox.ring()


class Inbox:
    """Batches as they arrive, and a bell: `get` returns None when only the bell rang, or nothing came in time."""

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
        self._poll_bell.register(pipe, _HANGS_UP)
        self._poll_bell.register(self._bell, select.POLLIN)
        self.ended = False

    def get(self, timeout_ns: int | None) -> pa.RecordBatch | None:
        """The next batch; waits for it at most `timeout_ns`, without limit if None, not at all if 0 or less."""
        # Bytes that were read along with the batch before are not in the pipe any more: poll would not report them.
        if self._stream.ahead or self._wait(self._poll, timeout_ns):
            return self._next()
        return None

    def wait(self, timeout_ns: int | None) -> None:
        """Wait at most `timeout_ns` for the bell alone. If Spark closes the pipe, the input has `ended`."""
        if self._wait(self._poll_bell, timeout_ns):
            self.ended = True

    def _wait(self, poll: select.poll, timeout_ns: int | None) -> bool:
        """Whether there was anything but the bell."""
        # Rounded up: a wait that ends too early costs one more turn of the host's loop. Poll takes 24 days at most, and
        # a timer, or state that expires, may be further off.
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
            # reason, Spark fails the query and says why.
            self.ended = True
            return None

    def ring(self) -> None:
        """Make `get` return; may be called by any thread."""
        with contextlib.suppress(BlockingIOError):  # the pipe is full of rings: one is enough
            os.write(self._ringer, b"\0")


class _Stream:
    """The file that pyarrow reads from: one system call takes what there is, and `ahead` holds what is left of it.

    `read1` of the pipe's BufferedReader would not do alone: whether it holds bytes can't be asked.
    """

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
        """Exactly `count` bytes; fewer only at the end."""
        at, chunk = self._at, self._chunk
        if at + count <= len(chunk):
            self._at = at + count
            return chunk[at : at + count]
        parts = [chunk[at:]]
        missing = count - len(parts[0])
        self._chunk, self._at = b"", 0
        while missing:
            # Little ahead (64 KiB): what is taken out of the pipe no longer holds back its sender.
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
        """PySpark has written the first batch: from now on this object is the only writer."""
        self._pipe.flush()
        # No back pressure acts on what is in the socket's buffer: no more than lets one buffer through at once.
        with socket.socket(fileno=os.dup(self._pipe.fileno())) as pipe:
            pipe.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)

    def write(self, rows: Sequence[tuple[int, bytes]]) -> None:
        """Write rows; blocks while the reader has no room. Raises OSError when there is no reader any more."""
        # The raw pipe, past PySpark's buffer of `spark.buffer.size` bytes, which would cut a message into many calls.
        message = to_message(rows)
        written = self._write(message)
        while written < len(message):
            message = message[written:]
            written = self._write(message)
