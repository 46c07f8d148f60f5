"""Orders: those that are paid within 15 minutes, and, on a side output, those that are not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from penstock.cep import CEP, Pattern, PatternProcessFunction, TimedOutPartialMatchHandler, field
from penstock.common import Duration
from penstock.datastream import DataStream, OutputTag

UNPAID: OutputTag[str] = OutputTag("unpaid orders")


class OrderEvent(NamedTuple):
    """A step of an order."""

    order: str
    kind: str


class Judge(PatternProcessFunction[OrderEvent, str], TimedOutPartialMatchHandler[OrderEvent]):
    """Names the orders."""

    def process_match(self, match: dict[str, list[OrderEvent]], ctx: PatternProcessFunction.Context) -> Iterable[str]:
        """Return the paid order."""
        yield match["pay"][0].order

    def process_timed_out_match(
        self, match: dict[str, list[OrderEvent]], ctx: PatternProcessFunction.Context
    ) -> Iterable[tuple[OutputTag[str], str]]:
        """Return the unpaid order."""
        yield UNPAID, match["create"][0].order


def paid(events: DataStream[OrderEvent]) -> DataStream[str]:
    """Return paid orders; `UNPAID` is a side output."""
    create: Pattern[OrderEvent, OrderEvent] = Pattern.begin("create")
    pays = create.where(field("kind") == "create").followed_by("pay").where(field("kind") == "pay")
    return CEP.pattern(events.key_by("order"), pays.within(Duration.of_minutes(15))).process(Judge())
