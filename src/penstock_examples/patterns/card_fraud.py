"""Card fraud: a payment of less than 5, and the very next one above 500, within a minute."""

from __future__ import annotations

from typing import NamedTuple

from penstock.cep import CEP, Pattern, field
from penstock.common import Duration
from penstock.datastream import DataStream


class Payment(NamedTuple):
    """A payment by card."""

    card: str
    amount: float


def frauds(payments: DataStream[Payment]) -> DataStream[Payment]:
    """Return the large payment of each pair."""
    test: Pattern[Payment, Payment] = Pattern.begin("test")
    pattern = test.where(field("amount") < 5).next("theft").where(field("amount") > 500)
    found = CEP.pattern(payments.key_by("card"), pattern.within(Duration.of_minutes(1)))
    return found.select(lambda match: match["theft"][0])
