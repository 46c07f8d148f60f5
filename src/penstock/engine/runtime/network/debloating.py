"""Buffer debloating of a slot: what is in flight is bounded by the time it takes, not only by the size of buffers.

What a slot takes off the wire goes back, as advice, to the slots that send to it, by the channel between slots
(`intake.py`). A slot that has more in flight than it was advised to holds (`in_flight.py`): it makes no step and takes
no input, as if it waited for room in a pipe, so its own senders come to hold in turn, up to the sources. Its buffers
become as small as its budgets ask for. Source: Flink docs, "Network memory tuning guide", The Buffer Debloating
Mechanism; docs/internals/decisions/0022-in-flight.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from penstock.common.time.earliest import earliest
from penstock.engine.runtime.ids import SlotId
from penstock.engine.runtime.network.buffer import (
    ADVICE_EDGE,
    ATTEMPT_MASK,
    NO_KEY_GROUP,
    Header,
    decode_header,
    decode_segments,
    encode,
)
from penstock.engine.runtime.network.in_flight import InFlight
from penstock.engine.runtime.network.intake import Advice, Intake


class Debloating:
    """Of one attempt of a slot. `sent`: bytes that buffers bring, in all, by index of the target in the next level.

    `target_ms`: how long what is in flight to one slot should last.
    """

    def __init__(
        self, slot: SlotId, attempt: int, target_ms: int, sent: Mapping[int, int], now_ms: Callable[[], int]
    ) -> None:
        self._slot = slot
        self._attempt = attempt & ATTEMPT_MASK
        self._now_ms = now_ms
        self.in_flight = InFlight(sent)
        self.intake = Intake(target_ms, now_ms())
        self.holds = False
        """Whether the slot is to wait until less is in flight, as of the last `look`."""

    def look(self) -> bool:
        """Whether the slot is to wait now."""
        self.holds = self.in_flight.reckon(self._now_ms())
        return self.holds

    @property
    def buffer_bytes(self) -> int | None:
        """How many bytes buffers should bring; None: as many as can be."""
        return self.in_flight.buffer_bytes

    def heard(self, message: bytes) -> None:
        """Advice has arrived. That of a slot of an earlier attempt is dropped."""
        header = decode_header(message)
        if header.attempt == self._attempt:
            taken, budget, buffer, is_aside = decode_segments(message)[0][0]  # type: ignore[index]
            self.in_flight.heard(header.sender, Advice(taken, budget, buffer, is_aside), self._now_ms())

    def outgoing_advice(self) -> Iterator[tuple[SlotId, bytes]]:
        """What is to be said now, and to which slots."""
        level, index = self._slot
        for sender, advice in self.intake.advice(self._now_ms()).items():
            header = Header(NO_KEY_GROUP, ADVICE_EDGE, index, 0, sender, self._attempt)
            yield SlotId(level - 1, sender), encode(header, [([*advice], None)])

    def wake_at_ms(self) -> int | None:
        """When `outgoing_advice` or `look` has something new though nothing has arrived."""
        due_ms = self.intake.due_ms()
        lapse_ms = self.in_flight.lapse_ms() if self.holds else None
        return earliest(due_ms, lapse_ms)
