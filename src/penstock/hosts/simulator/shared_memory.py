"""Memory that simulated workers share: pools that some workers don't find, and words that senders see late."""

from __future__ import annotations

from array import array
from random import Random

from penstock.engine.runtime.network.claims import Offer, Pool


class LateWords:
    """The words of a pool as its sender sees them: what receivers have written may be missing for a while."""

    def __init__(self, words: array[int], late_rate: float, random: Random) -> None:
        self._words = words
        self._seen = array("Q", words)
        self._late_rate = late_rate
        self._random = random

    def __getitem__(self, place: int) -> int:
        if self._random.random() >= self._late_rate:
            self._seen[place] = self._words[place]
        return self._seen[place]

    def __setitem__(self, place: int, word: int) -> None:
        self._words[place] = word


class SimulatedMemory:
    """The pools of all workers. `lost_rate`: the probability that a worker does not find a pool, or can't create one.

    `late_rate`: the probability that a sender does not see yet what a receiver has written.
    """

    def __init__(self, lost_rate: float, late_rate: float, random: Random) -> None:
        self._lost_rate = lost_rate
        self._late_rate = late_rate
        self._random = random
        self._pools: dict[int, Pool] = {}

    def create(self, words: int, data_bytes: int) -> tuple[Offer, Pool] | None:
        """Return a new pool, or None."""
        if self._random.random() < self._lost_rate / 2:
            return None
        offer = Offer(0, self._random.getrandbits(63) + 1)
        pool = self._pools[offer.nonce] = Pool(array("Q", bytes(8 * words)), bytearray(data_bytes))
        return offer, Pool(LateWords(pool.words, self._late_rate, self._random), pool.data)

    def open(self, offer: Offer, words: int, data_bytes: int) -> Pool | None:
        """Return a pool, unless the worker does not find it."""
        pool = self._pools[offer.nonce]
        assert (len(pool.words), len(pool.data)) == (words, data_bytes)
        return None if self._random.random() < self._lost_rate else pool
