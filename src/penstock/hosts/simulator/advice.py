"""Advice between slots, in transit: it may be lost, late, doubled and wrong, which must never stop a job."""

from __future__ import annotations

from random import Random

from penstock.engine.runtime.ids import SlotId
from penstock.engine.runtime.network.buffer import decode_header, encode
from penstock.engine.runtime.network.intake import Advice
from penstock.hosts.simulator.circumstances import Circumstances

_BYTES_MAX = (1, 100, 10_000, 1 << 40)


class AdviceInTransit:
    """Arrives in any order, in later attempts, too."""

    def __init__(self, circumstances: Circumstances, random: Random) -> None:
        self._random = random
        self._lost_rate = circumstances.advice_lost_rate
        self._false_rate = circumstances.advice_false_rate
        self._messages: list[tuple[SlotId, bytes]] = []

    def __bool__(self) -> bool:
        return bool(self._messages)

    def send(self, target: SlotId, message: bytes) -> None:
        """A slot advises another one."""
        self._messages.append((target, message))

    def next(self) -> tuple[SlotId, bytes] | None:
        """Some message that arrives now; None: it was lost."""
        random, messages = self._random, self._messages
        place = random.randrange(len(messages))
        target, message = messages[place]
        is_false = random.random() < self._false_rate
        if is_false and random.random() < 0.5:
            # It comes once more.
            return target, message
        del messages[place]
        if random.random() < self._lost_rate:
            return None
        if is_false:
            taken, budget, buffer = (random.randrange(random.choice(_BYTES_MAX)) for _ in range(3))
            said = Advice(taken, budget, buffer, is_aside=taken % 2 == 0)
            message = encode(decode_header(message), [([*said], None)])
        return target, message
