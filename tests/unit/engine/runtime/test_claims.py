"""Large rows in memory that workers share: what travels as a claim, what in its row, and what is refused."""

from __future__ import annotations

import tracemalloc
from array import array
from collections.abc import Iterable
from random import Random
from typing import Any

import pytest

from penstock.common.errors import TaskLostError
from penstock.engine.runtime.network.buffer import CLAIM_EDGE, OFFER_EDGE, decode_header, decode_message, encode_message
from penstock.engine.runtime.network.claims import ClaimReceiver, ClaimSender, ClaimSettings, Offer, Pool
from penstock.engine.runtime.network.worth import IN_ROWS, ROW_BYTE_NS, SHARED_BYTE_NS, Price

SETTINGS = ClaimSettings(blocks=8, block_bytes=100, row_bytes_min=50)


class Memory:
    """Pools in a dict. `created`: how often one was wanted."""

    def __init__(self, has_room: bool = True, is_shared: bool = True) -> None:
        self.pools: dict[int, Pool] = {}
        self.created = 0
        self.has_room = has_room
        self.is_shared = is_shared

    def create(self, words: int, data_bytes: int) -> tuple[Offer, Pool] | None:
        self.created += 1
        if not self.has_room:
            return None
        offer = Offer(0, 7_000 + self.created)
        pool = self.pools[offer.nonce] = Pool(array("Q", bytes(8 * words)), bytearray(data_bytes))
        return offer, pool

    def open(self, offer: Offer, words: int, data_bytes: int) -> Pool | None:
        return self.pools[offer.nonce] if self.is_shared else None


def sender(memory: Memory, receivers: int = 1, settings: ClaimSettings = SETTINGS) -> ClaimSender:
    return ClaimSender(3, attempt=2, receivers=receivers, settings=settings, memory=memory)


def receiver(memory: Memory, worker: int = 0, receivers: int = 1, settings: ClaimSettings = SETTINGS) -> ClaimReceiver:
    return ClaimReceiver(worker, attempt=2, receivers=receivers, settings=settings, memory=memory)


def row(size: int, fill: int = 120) -> bytes:
    """A row of a usual edge."""
    return bytes(19) + bytes([fill]) * (size - 19)


def kinds(rows: Iterable[tuple[int, bytes]]) -> list[str]:
    """ "offer", "claim", or "row" of each row."""
    names = {CLAIM_EDGE: "claim", OFFER_EDGE: "offer"}
    return [names.get(decode_header(each).edge, "row") for _, each in rows]


def connected(memory: Memory) -> tuple[ClaimSender, ClaimReceiver]:
    """A sender and its only receiver, which has confirmed."""
    sending, receiving = sender(memory), receiver(memory)
    list(receiving.incoming(each for _, each in sending.outgoing([(0, row(60))])))
    return sending, receiving


def test_a_pool_is_offered_before_the_first_large_row_and_used_once_it_is_confirmed() -> None:
    """A claim would arrive at a worker that can't find its payload."""
    memory = Memory()
    sending, receiving = sender(memory), receiver(memory)
    small, large = row(49), row(250)
    assert sending.outgoing([(0, small)]) == [(0, small)] and not memory.created
    first = sending.outgoing([(0, small), (0, large), (0, small)])
    assert kinds(first) == ["row", "offer", "row", "row"]
    assert kinds(sending.outgoing([(0, large)])) == ["row"], "not confirmed yet"
    assert list(receiving.incoming(each for _, each in first)) == [small, large, small]
    later = sending.outgoing([(0, large), (0, small)])
    assert kinds(later) == ["claim", "row"] and len(later[0][1]) < 100
    assert list(receiving.incoming(each for _, each in later)) == [large, small]
    assert memory.created == 1


def test_a_worker_that_does_not_find_the_memory_gets_payloads_in_rows() -> None:
    """Workers of two machines would wait for each other, or lose rows."""
    memory = Memory(is_shared=False)
    sending, receiving = sender(memory), receiver(memory)
    for _ in range(3):
        rows = sending.outgoing([(0, row(200))])
        assert list(receiving.incoming(each for _, each in rows)) == [row(200)]
        assert "claim" not in kinds(rows)


def test_without_memory_to_share_nothing_is_offered_and_it_is_asked_for_once() -> None:
    """A full disk would be asked again with each row."""
    memory = Memory(has_room=False)
    sending = sender(memory)
    for _ in range(3):
        assert sending.outgoing([(0, row(200))] * 2) == [(0, row(200))] * 2
    assert memory.created == 1


def test_blocks_are_reused_only_after_their_claims_were_taken() -> None:
    """A payload would be overwritten before its receiver has read it."""
    sending, receiving = connected(Memory())
    rows = [row(400, fill) for fill in range(5)]
    waiting = [each for fill in rows for _, each in sending.outgoing([(0, fill)])]
    assert kinds((0, each) for each in waiting) == ["claim", "claim", "row", "row", "row"], "8 blocks hold two of 4"
    assert next(iter(receiving.incoming(waiting[:1]))) == rows[0]
    assert kinds(sending.outgoing([(0, row(401))])) == ["row"], "4 blocks are free"
    more = [each for _, each in sending.outgoing([(0, row(400, 9))])]
    assert kinds((0, each) for each in more) == ["claim"]
    assert list(receiving.incoming(waiting[1:] + more)) == [*rows[1:], row(400, 9)]


def test_a_slow_receiver_leaves_half_of_the_blocks_to_the_others() -> None:
    """One slow task would send the rows of all tasks through Spark."""
    memory = Memory()
    sending = sender(memory, receivers=2)
    workers = [receiver(memory, worker, 2) for worker in range(2)]
    for target, each in sending.outgoing([(0, row(60)), (1, row(60))]):
        list(workers[target].incoming([each]))
    assert kinds(sending.outgoing([(0, row(150))] * 4)) == ["claim", "claim", "row", "row"]
    for _ in range(5):
        rows = sending.outgoing([(1, row(390))])
        assert kinds(rows) == ["claim"]
        assert list(workers[1].incoming(each for _, each in rows)) == [row(390)]


def test_a_pool_of_one_block_serves_several_receivers() -> None:
    """Memory would be reserved that no row could ever go to."""
    memory = Memory()
    settings = ClaimSettings(blocks=1, block_bytes=100, row_bytes_min=50)
    sending = sender(memory, receivers=2, settings=settings)
    workers = [receiver(memory, worker, 2, settings) for worker in range(2)]
    for target, each in sending.outgoing([(0, row(60)), (1, row(60))]):
        list(workers[target].incoming([each]))
    for target in (0, 1, 0):
        rows = sending.outgoing([(target, row(90))])
        assert kinds(rows) == ["claim"]
        assert list(workers[target].incoming(each for _, each in rows)) == [row(90)]


def test_a_pool_that_no_machine_has_costs_nothing_until_it_is_wanted() -> None:
    """A wrong size would fill the memory of each worker with the numbers of its blocks."""
    memory = Memory(has_room=False)
    tracemalloc.start()
    try:
        sending = sender(memory, settings=ClaimSettings(blocks=1 << 24, block_bytes=100, row_bytes_min=50))
        assert sending.outgoing([(0, row(200))]) == [(0, row(200))]
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_payloads_of_any_size_come_as_they_were_sent() -> None:
    """Edges of blocks would cut or shift a payload."""
    random = Random(1)
    for settings in (SETTINGS, ClaimSettings(blocks=3, block_bytes=64, row_bytes_min=0)):
        memory = Memory()
        sending, receiving = sender(memory, settings=settings), receiver(memory, settings=settings)
        claims = 0
        waiting: list[bytes] = []
        sent: list[bytes] = []
        for _ in range(500):
            payload = bytes(19) + random.randbytes(random.choice([0, 1, 80, 81, 82, 181, 500, 781, 782]))
            sent.append(payload)
            rows = sending.outgoing([(0, payload)])
            claims += kinds(rows).count("claim")
            waiting += [each for _, each in rows]
            while waiting and random.random() < 0.6:
                arrived = list(receiving.incoming([waiting.pop(0)]))
                assert not arrived or arrived == [sent.pop(0)]
        assert list(receiving.incoming(waiting)) == sent
        assert claims > 100


def _changed(claim: bytes, change: Any) -> bytes:
    message = decode_message(claim)
    change(message)
    return encode_message(decode_header(claim), message)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda message: message.__setitem__(0, 99), "holds claim 1"),
        (lambda message: message.__setitem__(1, 500), "3 blocks can't hold 500 bytes"),
        (lambda message: message.__setitem__(1, 100), "3 blocks can't hold 100 bytes"),
        (lambda message: message.__setitem__(2, [0, 1, 8]), "outside of the memory"),
        (lambda message: message.__setitem__(2, [-1, 0, 1]), "outside of the memory"),
    ],
)
def test_a_claim_that_does_not_fit_its_memory_fails_the_slot(change: Any, reason: str) -> None:
    """Bytes of something else would be decoded as a buffer."""
    sending, receiving = connected(Memory())
    ((_, claim),) = sending.outgoing([(0, row(250))])
    with pytest.raises(TaskLostError, match=reason):
        list(receiving.incoming([_changed(claim, change)]))


def test_a_claim_is_taken_once_from_its_own_attempt_and_after_an_offer() -> None:
    """A row that came twice, or from an attempt before, would give the payload of another row."""
    memory = Memory()
    sending, receiving = connected(memory)
    ((_, claim),) = sending.outgoing([(0, row(250))])
    other = ClaimReceiver(0, attempt=3, receivers=1, settings=SETTINGS, memory=memory)
    with pytest.raises(TaskLostError, match="never offered"):
        list(other.incoming([claim]))
    assert list(receiving.incoming([claim])) == [row(250)]
    with pytest.raises(TaskLostError, match="taken before"):
        list(receiving.incoming([claim]))


def test_blocks_that_were_reused_too_early_are_noticed() -> None:
    """The receiver would take the payload of a later claim for that of an earlier one."""
    memory = Memory()
    sending, receiving = connected(memory)
    ((_, claim),) = sending.outgoing([(0, row(750))])
    (pool,) = memory.pools.values()
    pool.words[decode_message(claim)[2][0]] = 2
    with pytest.raises(TaskLostError, match="holds claim 2"):
        list(receiving.incoming([claim]))


def test_only_the_bytes_of_claims_are_cheap() -> None:
    """Columns in small rows would not be encoded, although Spark copies these rows."""
    memory = Memory()
    sending, first, second = sender(memory, 2), receiver(memory, 0, 2), receiver(memory, 1, 2)
    assert sending.price is IN_ROWS
    for taking, worker in ((first, 0), (second, 1)):
        list(taking.incoming([each for _, each in sending.outgoing([(worker, row(60))])]))
        list(sending.outgoing([(worker, row(60))]))
        assert (sending.price == Price(SETTINGS.row_bytes_min)) is (worker == 1), "all receivers share the memory"
    assert sending.price.byte_ns(49) == IN_ROWS.byte_ns(1 << 30) == ROW_BYTE_NS
    assert sending.price.byte_ns(50) == SHARED_BYTE_NS
