"""Assigns the slots of a level to worker processes, and rows to the slots of a worker.

A worker has one input and one output, which its slots share. Slots are assigned in turn: the first slots, which have
subtasks of all vertices of the level, are on different workers. Payloads of large rows may be in memory that workers
share: network/claims.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from penstock.engine.runtime.network.buffer import (
    BUNDLE_EDGE,
    HEADER_BYTES,
    NO_KEY_GROUP,
    Header,
    decode_header,
    encode_header,
)
from penstock.engine.runtime.network.claims import ClaimReceiver, ClaimSender, SharedMemory
from penstock.engine.runtime.network.worth import IN_ROWS, Price
from penstock.engine.runtime.task.vertex import LevelSpec

# A bundle holds several small buffers that travel as one row, where slots share workers. It has a header of its own,
# and the length of each buffer stands before the buffer.

BUNDLED_BYTES_MAX = 1 << 11
"""Larger buffers travel alone: copying them costs more than a row."""
_BUNDLED_BUFFERS_MAX = 32
"""Buffers in one bundle: with their sizes 64 KiB at most, which Spark's JVM reads from a worker in one call."""
_LENGTH_BYTES = 2
_BUNDLE_HEADER = encode_header(Header(NO_KEY_GROUP, BUNDLE_EDGE, sender=0, sequence=0, target=0, attempt=0))


def bundles(buffers: Sequence[bytes]) -> Iterator[bytes]:
    """Yield bundles of buffers that have at most BUNDLED_BYTES_MAX each; a single buffer stays unchanged."""
    for start in range(0, len(buffers), _BUNDLED_BUFFERS_MAX):
        part = buffers[start : start + _BUNDLED_BUFFERS_MAX]
        if len(part) == 1:
            yield part[0]
        else:
            lengths = (len(buffer).to_bytes(_LENGTH_BYTES, "big") for buffer in part)
            yield b"".join((_BUNDLE_HEADER, *(piece for pair in zip(lengths, part, strict=True) for piece in pair)))


def in_bundles(buffers: Iterable[bytes]) -> Iterator[bytes]:
    """Yield buffers in order: small ones that follow each other in bundles, large ones alone."""
    small: list[bytes] = []
    for buffer in buffers:
        if len(buffer) <= BUNDLED_BYTES_MAX:
            small.append(buffer)
        else:
            yield from bundles(small)
            small.clear()
            yield buffer
    yield from bundles(small)


def unbundled(data: bytes) -> Iterator[bytes]:
    """Yield the buffers of a bundle, in order; a row that is one buffer; nothing for a push."""
    if not data.startswith(_BUNDLE_HEADER):
        if len(data) >= HEADER_BYTES:
            yield data
        return
    at = len(_BUNDLE_HEADER)
    while at < len(data):
        start = at + _LENGTH_BYTES
        at = start + int.from_bytes(data[at:start], "big")
        yield data[start:at]


def slots_of(worker: int, slots: int, workers: int) -> range:
    """Return the slots of a worker, in a level with `slots` slots and `workers` workers."""
    return range(worker, slots, workers)


class WorkerRoutes:
    """Routes the rows of one worker of a level: from a slot to a worker of the next level, and to a slot of its own.

    Where slots share workers, small buffers for one worker travel together in one row: a barrier alone takes a buffer
    for each pair of slots. `memory`: what the worker shares with others on its machine; None: nothing.
    """

    def __init__(self, level: LevelSpec, worker: int = 0, memory: SharedMemory | None = None) -> None:
        self._level = level.level
        self._edges = level.edges
        self.are_shared = bool(level.workers) and level.workers != level.widths
        """Whether slots of any level of the job share workers."""
        workers = level.workers or level.widths
        following = level.level + 1
        self._workers = workers[following] if self.are_shared and following < len(workers) else 1
        self._sender: ClaimSender | None = None
        self._receiver: ClaimReceiver | None = None
        if level.claims is not None and memory is not None:
            if following < len(workers):
                self._sender = ClaimSender(
                    worker, attempt=level.attempt, receivers=workers[following], settings=level.claims, memory=memory
                )
            self._receiver = ClaimReceiver(
                worker, attempt=level.attempt, receivers=workers[level.level], settings=level.claims, memory=memory
            )

    def to_workers(self, rows: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        """Return rows for slots of the next level as rows for its workers. Rows of one worker keep their order."""
        if self.are_shared:
            rows = self._bundled(rows)
        return rows if self._sender is None else self._sender.outgoing(rows)

    @property
    def price(self) -> Price:
        """The price of the bytes of the worker's rows (network/worth.py)."""
        return IN_ROWS if self._sender is None else self._sender.price

    def received(self, rows: Iterable[bytes]) -> Iterable[bytes]:
        """Yield the rows that senders had before they put payloads into shared memory.

        Raises TaskLostError if a payload is not there.
        """
        return rows if self._receiver is None else self._receiver.incoming(rows)

    def by_slot(self, rows: Iterable[bytes]) -> dict[int, list[bytes]]:
        """Return the buffers of these rows by slot of this level, in order. Pushes are left out."""
        buffers: dict[int, list[bytes]] = {}
        for row in rows:
            for buffer in unbundled(row):
                header = decode_header(buffer)
                slot = self._edges[header.edge].hop(self._level, header.sender, header.target)
                buffers.setdefault(slot, []).append(buffer)
        return buffers

    def _bundled(self, rows: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        gathered: dict[int, list[bytes]] = {}
        for slot, buffer in rows:
            gathered.setdefault(slot % self._workers, []).append(buffer)
        return [(worker, row) for worker, buffers in gathered.items() for row in in_bundles(buffers)]
