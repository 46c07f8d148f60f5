"""The claim check: between workers that share memory, a large row carries a claim, and its payload lies in the memory.

Spark's JVM spends ten times as much on a payload as both workers together. Order, barriers and back pressure stay with
Spark's rows: a claim is a row like any other, in the place of its payload.

A sender owns one pool, of a fixed number of blocks. Each block has a stamp, the number of the claim that it holds.
Each receiver has two words in the pool, which only it writes:

    word        written                                              read by the sender
    confirmed   the pool's nonce, once the receiver has opened it    before: payloads travel in their rows
    taken       the number of the last claim that was copied         its blocks, and those of earlier claims, are free

A sender offers its pool before its first large row. A receiver on another machine can't open it, and never confirms. So
nothing waits: a payload that finds no confirmation or no free blocks travels in its row, where Spark's bound on
bytes is the back pressure. A claim that does not find its stamps fails the slot: its job restarts from a checkpoint.

A receiver copies a payload when its row arrives. What waits, is set aside or logged later are bytes, never claims.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from penstock.common.errors import TaskLostError
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.network.buffer import (
    ATTEMPT_MASK,
    CLAIM_EDGE,
    NO_KEY_GROUP,
    OFFER_EDGE,
    Header,
    decode_header,
    decode_message,
    encode_message,
)
from penstock.engine.runtime.network.worth import IN_ROWS, Price

Row = tuple[int, bytes]
"""(worker of the next level, row)"""


class ClaimSettings(msgspec.Struct, frozen=True):
    """The size of a worker's pool, the smallest row that goes there (bytes), and where (None: the host decides)."""

    blocks: int = 128
    block_bytes: int = 1 << 16
    row_bytes_min: int = 1 << 14
    directory: str | None = None


class Offer(NamedTuple):
    """How a receiver finds a pool: the place among those that its host knows, and the nonce that must be in it."""

    place: int
    nonce: int


class Pool(NamedTuple):
    """Memory of one sender. `words`: unsigned integers of 64 bits, all 0 at first. `data`: bytes."""

    words: Any
    data: Any


class SharedMemory(Protocol):
    """Memory that processes share, provided by the host."""

    def create(self, words: int, data_bytes: int) -> tuple[Offer, Pool] | None:
        """Return a new pool whose memory is reserved; None if there is none to share."""

    def open(self, offer: Offer, words: int, data_bytes: int) -> Pool | None:
        """Return the pool of another worker on this machine; None if it is not there, or is another one."""


class _Layout:
    """The places of words in a pool. The words of a receiver have a cache line of their own."""

    LINE = 8

    def __init__(self, settings: ClaimSettings, receivers: int) -> None:
        self._receivers_at = -(-settings.blocks // self.LINE) * self.LINE
        self.words = self._receivers_at + receivers * self.LINE
        self.data_bytes = settings.blocks * settings.block_bytes

    def confirmed(self, receiver: int) -> int:
        """Return the place of a receiver's confirmation."""
        return self._receivers_at + receiver * self.LINE

    def taken(self, receiver: int) -> int:
        """Return the place of the number of the last claim that a receiver has taken."""
        return self.confirmed(receiver) + 1


class ClaimSender:
    """Puts the large rows of one worker into its pool. `receivers`: the workers of the next level."""

    def __init__(
        self, worker: int, *, attempt: int, receivers: int, settings: ClaimSettings, memory: SharedMemory
    ) -> None:
        self._worker = worker
        self._attempt = attempt
        self._settings = settings
        self._memory = memory
        self._layout = _Layout(settings, receivers)
        # A slow receiver must leave blocks to the others.
        self._held_max = settings.blocks if receivers == 1 else -(-settings.blocks // 2)
        self._offer: Offer | None = None
        self._pool: Pool | None = None
        self._is_off = False
        self._offered: set[int] = set()
        self._confirmed: set[int] = set()
        self._receivers = receivers
        self._free: list[int] = []
        """Used last is taken first: it is in the processor's caches."""
        self._claims: dict[int, deque[tuple[int, Sequence[int]]]] = {}
        """The numbers and blocks of claims that may not be taken yet, by receiver."""
        self._held: dict[int, int] = {}
        """How many blocks they have."""
        self._number = 0

    def outgoing(self, rows: list[Row]) -> list[Row]:
        """Return the rows to write: claims in place of large rows, and offers before them."""
        least = self._settings.row_bytes_min
        if self._is_off or not any(len(row) >= least for _, row in rows):
            return rows
        ready: list[Row] = []
        for receiver, row in rows:
            if len(row) >= least:
                ready += self._large(receiver, row)
            else:
                ready.append((receiver, row))
        return ready

    @property
    def price(self) -> Price:
        """The price of the bytes of its rows (network/worth.py)."""
        is_shared = len(self._confirmed) == self._receivers
        return Price(self._settings.row_bytes_min) if is_shared else IN_ROWS

    def _large(self, receiver: int, row: bytes) -> Iterator[Row]:
        pool = self._ensure_pool()
        if pool is None or self._offer is None:
            yield receiver, row
            return
        if receiver not in self._offered:
            self._offered.add(receiver)
            yield receiver, self._message(OFFER_EDGE, receiver, [*self._offer])
        claim = None
        if pool.words[self._layout.confirmed(receiver)] == self._offer.nonce:
            self._confirmed.add(receiver)
            claim = self._claim(pool, receiver, row)
        yield receiver, row if claim is None else claim

    def _claim(self, pool: Pool, receiver: int, row: bytes) -> bytes | None:
        """Put a row into the pool. Returns the claim, or None if too few blocks are free."""
        size = self._settings.block_bytes
        count = -(-len(row) // size)
        self._release(pool)
        if count > len(self._free) or self._held.get(receiver, 0) + count > self._held_max:
            return None
        blocks = self._free[-count:]
        del self._free[-count:]
        self._number += 1
        payload = memoryview(row)
        for index, block in enumerate(blocks):
            part = payload[index * size : (index + 1) * size]
            pool.data[block * size : block * size + len(part)] = part
            pool.words[block] = self._number
        self._claims.setdefault(receiver, deque()).append((self._number, blocks))
        self._held[receiver] = self._held.get(receiver, 0) + count
        return self._message(CLAIM_EDGE, receiver, [self._number, len(row), blocks])

    def _release(self, pool: Pool) -> None:
        for receiver, claims in list(self._claims.items()):
            taken = pool.words[self._layout.taken(receiver)]
            while claims and claims[0][0] <= taken:
                _, blocks = claims.popleft()
                self._free += blocks
                self._held[receiver] -= len(blocks)
            if not claims:
                # There may be a thousand receivers, but no more claims than blocks.
                del self._claims[receiver]

    def _ensure_pool(self) -> Pool | None:
        if self._pool is None and not self._is_off:
            created = self._memory.create(self._layout.words, self._layout.data_bytes)
            self._is_off = created is None
            if created is not None:
                self._offer, self._pool = created
                self._free = list(range(self._settings.blocks))
        return self._pool

    def _message(self, edge: int, receiver: int, message: list[Any]) -> bytes:
        header = Header(
            NO_KEY_GROUP,
            edge,
            self._worker,
            sequence=0,
            target=receiver,
            attempt=self._attempt,
            kind=ChunkKind.MESSAGE,
        )
        return encode_message(header, message)


class ClaimReceiver:
    """Takes the payloads of claims that arrive at one worker, of the `receivers` workers of its level."""

    def __init__(
        self, worker: int, *, attempt: int, receivers: int, settings: ClaimSettings, memory: SharedMemory
    ) -> None:
        self._worker = worker
        self._attempt = attempt & ATTEMPT_MASK
        self._settings = settings
        self._memory = memory
        self._layout = _Layout(settings, receivers)
        self._pools: dict[int, Pool] = {}
        self._numbers: dict[int, int] = {}

    def incoming(self, rows: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the rows that senders had: payloads in place of claims, and no offers.

        Raises TaskLostError if a payload is not there.
        """
        for row in rows:
            edge = row[2:4]
            if edge == _CLAIM:
                yield self._payload(row)
            elif edge == _OFFER:
                self._offered(row)
            else:
                yield row

    def _offered(self, row: bytes) -> None:
        header = decode_header(row)
        offer = Offer(*decode_message(row))
        pool = self._memory.open(offer, self._layout.words, self._layout.data_bytes)
        if pool is not None and header.attempt == self._attempt:
            self._pools[header.sender] = pool
            self._numbers[header.sender] = 0
            pool.words[self._layout.confirmed(self._worker)] = offer.nonce

    def _payload(self, row: bytes) -> bytes:
        header = decode_header(row)
        number, length, blocks = decode_message(row)
        pool = self._pools.get(header.sender)
        size = self._settings.block_bytes
        if pool is None or header.attempt != self._attempt or number <= self._numbers[header.sender]:
            raise self._lost(header, number, "its memory was never offered, or it was taken before")
        if not (len(blocks) - 1) * size < length <= len(blocks) * size:
            raise self._lost(header, number, f"{len(blocks)} blocks can't hold {length} bytes")
        if not all(0 <= block < self._settings.blocks for block in blocks):
            raise self._lost(header, number, "its blocks are outside of the memory")
        self._check_stamps(header, pool, number, blocks)
        parts = [pool.data[block * size : (block + 1) * size] for block in blocks[:-1]]
        last = blocks[-1] * size
        parts.append(pool.data[last : last + length - size * (len(blocks) - 1)])
        payload = b"".join(parts)
        # Again: the sender could have reused them meanwhile.
        self._check_stamps(header, pool, number, blocks)
        self._numbers[header.sender] = number
        pool.words[self._layout.taken(self._worker)] = number
        return payload

    def _check_stamps(self, header: Header, pool: Pool, number: int, blocks: Sequence[int]) -> None:
        for block in blocks:
            if (stamp := pool.words[block]) != number:
                raise self._lost(header, number, f"block {block} holds claim {stamp}")

    def _lost(self, header: Header, number: int, reason: str) -> TaskLostError:
        return TaskLostError(
            f"the payload of claim {number} from worker {header.sender} (attempt {header.attempt}) is not in the "
            f"memory that the workers share: {reason}"
        )


_CLAIM = CLAIM_EDGE.to_bytes(2, "big")
_OFFER = OFFER_EDGE.to_bytes(2, "big")
