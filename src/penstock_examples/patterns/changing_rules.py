"""Fraud by rules that change while the job runs: rules are JSON texts of a control stream."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from penstock.cep import (
    CEP,
    AfterMatchSkipStrategy,
    Pattern,
    PatternProcessFunction,
    RejectedRule,
    field,
    pattern_to_json,
)
from penstock.common import Duration
from penstock.datastream import DataStream, OutputTag
from penstock_examples.patterns.card_fraud import Payment

REJECTED: OutputTag[RejectedRule] = OutputTag("rejected rules")


def bursts(least: int) -> Pattern[Payment, Payment]:
    """Return the pattern of `least` or more small payments, and then one that is not small, within a minute."""
    small: Pattern[Payment, Payment] = Pattern.begin("small", AfterMatchSkipStrategy.skip_past_last_event())
    repeated = small.where(field("amount") < 5).times_or_more(least).greedy()
    return repeated.followed_by("large").where(field("amount") >= 5).within(Duration.of_minutes(1))


def rule(id: str, version: int, pattern: Pattern[Any, Any] | None) -> str:
    """Return the rule with this pattern as JSON; without a pattern, the rule is removed."""
    content = {"remove": True} if pattern is None else {"pattern": json.loads(pattern_to_json(pattern))}
    return json.dumps({"id": id, "version": version, **content})


class Alert(PatternProcessFunction[Payment, str]):
    """Names card and rule."""

    def process_match(self, match: dict[str, list[Payment]], ctx: PatternProcessFunction.Context) -> Iterable[str]:
        """Return an alert."""
        yield f"{match['large'][0].card}: {ctx.pattern_id()} {ctx.pattern_version()}, {len(match['small'])} small"


def alerts(payments: DataStream[Payment], rules: DataStream[str]) -> DataStream[str]:
    """Return alerts; `REJECTED` is a side output."""
    found = CEP.dynamic_patterns(payments.key_by("card"), rules).side_output_rejected_rules(REJECTED)
    return found.process(Alert())
