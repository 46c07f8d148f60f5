"""Decisions that are restored by another version of the program."""

from __future__ import annotations

import pickle
from typing import Any

from penstock.api.functions.aggregator import Aggregator, ConvergenceCriterion
from penstock.engine.runtime.ids import ChannelId
from penstock.engine.runtime.network.buffer import EndOfSuperstep
from penstock.engine.runtime.network.edge import FeedbackRole
from penstock.engine.runtime.operators.superstep_head import SuperstepPlace, SuperstepRules
from penstock.engine.runtime.task.superstep_decisions import Decisions
from penstock.iteration import MaxAggregator, SumAggregator

CHANNEL = ChannelId(1, 0)
RESTORED = 4


class AtLeast(ConvergenceCriterion[Any]):
    def __init__(self, limit: int) -> None:
        self.limit = limit

    def is_converged(self, iteration: int, value: Any) -> bool:
        return value is not None and value >= self.limit


class Times(SumAggregator):
    """A sum, times a factor."""

    def __init__(self, factor: int) -> None:
        super().__init__()
        self.factor = factor

    def get_aggregate(self) -> Any:
        return super().get_aggregate() * self.factor


def decisions(rules: SuperstepRules) -> Decisions:
    return Decisions(rules, "iteration", {CHANNEL: FeedbackRole.WORKSET})


def decide(decisions: Decisions, name: str) -> None:
    """Decide one superstep, whose number is what was aggregated."""
    number = decisions.decided + 1
    decisions.ended(CHANNEL, EndOfSuperstep(number, records=1, aggregates=pickle.dumps({name: number})))
    decisions.decide()


def place_of(rules: SuperstepRules) -> SuperstepPlace:
    """Return the place before superstep RESTORED, in a snapshot of a program with these rules."""
    before = decisions(rules)
    while before.decided < RESTORED - 1:
        decide(before, "sum")
    return before.place(RESTORED)


def restored(before: SuperstepRules, after: SuperstepRules) -> Decisions:
    found = decisions(after)
    found.restore(place_of(before))
    return found


def results_for(decisions: Decisions, number: int) -> dict[str, Any]:
    """Return what functions read in a superstep as the aggregates before."""
    of_superstep: dict[str, tuple[Aggregator[Any], Any]] = pickle.loads(decisions.aggregates_for(number))
    return {name: value for name, (_, value) in of_superstep.items()}


def sums(slack: int = 0) -> SuperstepRules:
    return SuperstepRules(slack=slack, aggregators={"sum": SumAggregator()})


def test_more_slack_than_before_reads_the_oldest_results_that_there_are() -> None:
    """The job would fail with a KeyError each time that it starts from the savepoint."""
    found = restored(sums(), sums(slack=2))
    read = []
    for number in range(RESTORED, RESTORED + 4):
        read.append(results_for(found, number)["sum"])
        decide(found, "sum")
    assert read == [3, 3, 3, 4]


def test_less_slack_than_before_reads_the_newest_results() -> None:
    """Results would be those of too early a superstep."""
    assert results_for(restored(sums(slack=2), sums()), RESTORED) == {"sum": 3}


def test_new_aggregators_and_criteria_have_no_result_before() -> None:
    """The job would fail with a KeyError, or never ask the criterion."""
    after = SuperstepRules(
        aggregators={"sum": SumAggregator(), "most": MaxAggregator()}, criteria={"most": AtLeast(RESTORED)}
    )
    found = restored(sums(), after)
    assert results_for(found, RESTORED) == {"sum": 3, "most": None}
    decide(found, "most")
    assert found.has_ended_with(RESTORED)


def test_aggregators_are_those_of_the_program() -> None:
    """The program would go on with an aggregator that it has removed, or with one of other arguments."""
    found = restored(
        SuperstepRules(aggregators={"sum": Times(1), "old": SumAggregator()}),
        SuperstepRules(aggregators={"sum": Times(10)}),
    )
    assert results_for(found, RESTORED) == {"sum": 3}
    decide(found, "sum")
    assert results_for(found, RESTORED + 1) == {"sum": 40}
