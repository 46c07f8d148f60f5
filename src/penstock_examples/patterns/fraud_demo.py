"""Fraud by rules that change while the job runs: `python -m penstock_examples.patterns.fraud_demo`.

Payments come at 2,000 a second for half a minute. A rule is added, replaced, broken, joined by another, and
removed.
"""

from __future__ import annotations

import random
import time
from typing import Any

from penstock.cep import Pattern, field
from penstock.common import Duration, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors import DataGeneratorSource, RateLimiterStrategy
from penstock_examples.patterns.card_fraud import Payment
from penstock_examples.patterns.changing_rules import REJECTED, alerts, bursts, rule

RATE = 2_000
SECONDS = 30
CARDS = 500
EVERY = 1_500
"""A fraud begins with each such number: a few small payments by one card, and a large one."""


def payment(number: int) -> Payment:
    """Return a payment. A fraud has two or four small ones, and then one of 900."""
    fraud, place = divmod(number, EVERY)
    small = 2 + fraud % 2 * 2
    if place <= small:
        return Payment(f"stolen {fraud}", 1.0 if place < small else 900.0)
    chance = random.Random(number)
    return Payment(f"card {chance.randrange(CARDS)}", round(chance.uniform(6, 400), 2))


def thefts() -> Pattern[Payment, Payment]:
    """Return the pattern of a small payment and, as the very next one, one above 500."""
    test: Pattern[Payment, Payment] = Pattern.begin("small")
    found = test.where(field("amount") < 5).next("large").where(field("amount") > 500)
    return found.within(Duration.of_minutes(1))


def rules() -> list[tuple[str, str]]:
    """Return what the control stream sends, every few seconds, with a word about each."""
    return [
        ("rule bursts 1: three or more small payments, then a large one", rule("bursts", 1, bursts(3))),
        ("rule bursts 2: two or more small payments", rule("bursts", 2, bursts(2))),
        ("a rule that is not one", '{"id": "bursts", "version": 3, "pattern": "everything"}'),
        ("rule thefts 1: the last small payment, and the large one behind it", rule("thefts", 1, thefts())),
        ("rule bursts 4: removed", rule("bursts", 4, None)),
    ]


def main() -> None:
    """Run the demo."""
    sent = rules()
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    steady = RateLimiterStrategy.per_second(RATE, burst_ms=SECONDS * 1000)
    seldom = RateLimiterStrategy.per_second((len(sent) + 1) / SECONDS, burst_ms=SECONDS * 1000)
    numbers: DataGeneratorSource[int] = DataGeneratorSource(lambda number: number, RATE * SECONDS, steady)
    in_order = WatermarkStrategy.for_monotonous_timestamps()
    payments = env.from_source(
        numbers, in_order.with_timestamp_assigner(lambda number, _: number * 1000 // RATE), "payments"
    ).map(payment)
    changes: DataGeneratorSource[int] = DataGeneratorSource(lambda number: number, len(sent), seldom)
    control: Any = env.from_source(changes, WatermarkStrategy.no_watermarks(), "rules").set_parallelism(1)
    found: Any = alerts(payments, control.map(lambda number: sent[number][1]).set_parallelism(1))
    lines = found.map(lambda alert: f"    {alert}").union(
        found.get_side_output(REJECTED).map(lambda rejected: f"    rejected: {rejected.error}"),
        control.map(lambda number: sent[number][0]).set_parallelism(1),
    )
    print(f"{RATE:,} payments a second for {SECONDS} s. Starting Spark and the job ...", flush=True)
    with lines.execute_and_collect("fraud by changing rules") as results:
        began: float | None = None
        for line in results:
            began = began or time.monotonic()
            print(f"{time.monotonic() - began:4.0f} s  {line}", flush=True)


if __name__ == "__main__":
    main()
