"""Advice between slots, in transit: it may be lost, late, doubled and wrong, which must never stop a job."""

from __future__ import annotations

from random import Random

from penstock.runtime.ids import SlotId
from penstock.runtime.network.buffer import decode_header, encode
from penstock.simulator.circumstances import Circumstances

_BYTES_MAX = (1, 100, 10_000, 1 << 40)


class AdviceInTransit:
    """Arrives in any order, in later attempts, too. `false_rate`: how much of it is lost, doubled or wrong."""

    def __init__(self, circumstances: Circumstances, random: Random) -> None:
        self._random = random
        self._rate = circumstances.false_advice_rate
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
        if random.random() >= self._rate:
            del messages[place]
            return target, message
        match random.choice(["lost", "twice", "wrong"]):
            case "lost":
                del messages[place]
                return None
            case "wrong":
                del messages[place]
                taken, budget = (random.randrange(random.choice(_BYTES_MAX)) for _ in range(2))
                message = encode(decode_header(message), [([taken, budget], None)])
        return target, message
