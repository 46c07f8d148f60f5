"""Rows in memory that workers share, under all faults: blocks that are lost, late, or reused too early."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from random import Random

import pytest
from tests.simulation.mutation import until_found
from tests.simulation.programs import sweeps
from tests.simulation.undisturbed import CallCounter, circumstances_with

from penstock.engine.runtime.network import claims
from penstock.engine.runtime.network.buffer import CLAIM_EDGE
from penstock.engine.runtime.network.claims import ClaimReceiver, ClaimSender, ClaimSettings, Pool
from penstock.hosts.simulator.circumstances import Circumstances
from penstock.hosts.simulator.generation import generate
from penstock.hosts.simulator.runs import run_program

pytestmark = pytest.mark.simulation

SEEDS_IN_CI = 4
SEEDS_IN_SOAK = 10_000


def circumstances(seed: int) -> Circumstances:
    """Return drawn circumstances, with memory of a few small blocks for all rows."""
    random = Random(seed)
    settings = ClaimSettings(
        blocks=random.choice([1, 2, 5, 50]), block_bytes=random.choice([16, 100, 1_000]), row_bytes_min=0
    )
    return circumstances_with(
        seed,
        claims=settings,
        memory_lost_rate=random.choice([0.0, 0.3]),
        memory_late_rate=random.choice([0.0, 0.5, 0.9]),
        workers_most=random.choice([None, 1, 2]),
    )


def run(seed: int) -> None:
    run_program(generate(seed), circumstances(seed), seed, named=False)


@pytest.mark.parametrize("seeds", sweeps(SEEDS_IN_CI, SEEDS_IN_SOAK))
def test_rows_in_shared_memory_give_what_a_plain_evaluation_gives(seeds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records would be lost, doubled or of another row where workers share memory."""
    taken = CallCounter(monkeypatch, ClaimReceiver._payload)
    for seed in range(seeds):
        run(seed)
    assert taken.count > 50 * seeds


def reused_too_early(patch: pytest.MonkeyPatch) -> None:
    """Blocks are free as soon as their claim is written."""

    def release(self: ClaimSender, pool: Pool) -> None:
        for receiver, waiting in self._claims.items():
            self._free += [block for _, blocks in waiting for block in blocks]
            self._claims[receiver] = deque()
            self._held[receiver] = 0

    patch.setattr(ClaimSender, "_release", release)


def used_before_it_is_confirmed(patch: pytest.MonkeyPatch) -> None:
    """A claim goes to a worker that may not find the memory."""
    patch.setattr(claims._Layout, "confirmed", lambda self, receiver: self._receivers_at + 2)
    make = ClaimSender._ensure_pool

    def confirm(self: ClaimSender) -> Pool | None:
        pool = make(self)
        if pool is not None and self._offer is not None:
            pool.words[self._layout.confirmed(0)] = self._offer.nonce
        return pool

    patch.setattr(ClaimSender, "_ensure_pool", confirm)


def lost(patch: pytest.MonkeyPatch) -> None:
    """A payload is dropped now and then, without an error."""
    incoming = ClaimReceiver.incoming

    def dropping(self: ClaimReceiver, rows: Iterable[bytes]) -> Iterator[bytes]:
        before = sum(self._numbers.values())
        for row in incoming(self, rows):
            number = sum(self._numbers.values())
            if number == before or number % 7 != 3:
                yield row

    patch.setattr(ClaimReceiver, "incoming", dropping)


def overtaken(patch: pytest.MonkeyPatch) -> None:
    """A claim leaves before the rows that were to be written before it."""
    outgoing = ClaimSender.outgoing
    claim_edge = CLAIM_EDGE.to_bytes(2, "big")

    def claims_first(self: ClaimSender, rows: list[claims.Row]) -> list[claims.Row]:
        held: list[claims.Row] = vars(self).setdefault("held_rows", [])
        ready = outgoing(self, rows)
        if all(row[2:4] != claim_edge for _, row in ready) and not held and self._number % 5 == 4:
            held += ready
            return []
        ready += held
        held.clear()
        return ready

    patch.setattr(ClaimSender, "outgoing", claims_first)


def freed_by_the_wrong_receiver(patch: pytest.MonkeyPatch) -> None:
    """All receivers write to one word: what one has taken frees the blocks of the others."""
    patch.setattr(claims._Layout, "taken", lambda self, receiver: self._receivers_at + 1)


def stamps_that_nobody_compares(patch: pytest.MonkeyPatch) -> None:
    """Blocks are reused too early, and the receiver does not look at their stamps: only the results show it."""
    reused_too_early(patch)
    patch.setattr(ClaimReceiver, "_check_stamps", lambda self, header, pool, number, blocks: None)


FAULTS = [
    reused_too_early,
    used_before_it_is_confirmed,
    lost,
    overtaken,
    freed_by_the_wrong_receiver,
    stamps_that_nobody_compares,
]


FIRST = {overtaken: 26}
"""The seed that is known to find it. The search begins there and goes on."""


@pytest.mark.thorough
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_is_found(fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator would pass a claim check that loses or exchanges payloads."""
    fault(monkeypatch)
    programs = ((seed, generate(seed)) for seed in range(FIRST.get(fault, 0), 500))
    until_found(monkeypatch, programs, lambda seed, program: run(seed))
