"""The decisions of the heads of a structured iteration, each by itself, when all senders have ended a superstep.

All heads get the same ends, so they decide the same: what was aggregated, which barriers wait at all heads, and which
superstep is the last one.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from typing import Any

from penstock.api.functions.aggregator import Aggregator
from penstock.common.errors import ProgramError
from penstock.common.functions.script_functions import dumps
from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.ids import ChannelId
from penstock.engine.runtime.network.buffer import EndOfSuperstep
from penstock.engine.runtime.network.edge import FeedbackRole
from penstock.engine.runtime.operators.superstep_head import SuperstepPlace, SuperstepRules
from penstock.engine.runtime.task.context import shortened
from penstock.engine.runtime.task.supersteps import Aggregators, aggregate_result, packed


class Decisions:
    """The decisions of one head. `roles`: the purpose of each channel that feedback comes from."""

    def __init__(self, rules: SuperstepRules, name: str, roles: Mapping[ChannelId, FeedbackRole | None]) -> None:
        self.decided = -1
        """The last superstep that all senders have ended."""
        self.clocks = dict.fromkeys(roles, 0)
        """The superstep in which each sender is."""
        self.agreed = 0
        """The newest checkpoint whose barrier has waited at all heads."""
        self._first = 0
        """The superstep with which the run begins. Until all have ended it, inputs from outside may hold some back."""
        self._rules = rules
        self._name = name
        self._roles = roles
        self._ends: dict[int, dict[ChannelId, EndOfSuperstep]] = {}
        """The ends of supersteps that are not decided, by channel."""
        self._is_open = False
        """Whether more input may come from outside."""
        self._last: int | None = None
        self._idle = self._unchanged = 0
        """For how many supersteps nothing was fed back, and nothing was in the stream for termination."""
        self._aggregators: dict[int, Aggregators] = {-1: {name: (one, None) for name, one in rules.aggregators.items()}}
        """The aggregators with the results of the last supersteps."""

    def ended(self, channel: ChannelId, end: EndOfSuperstep) -> None:
        """Note that a sender has ended a superstep."""
        assert end.number == self.clocks[channel], (
            f"{channel} ends superstep {end.number}, in superstep {self.clocks[channel]}"
        )
        self.clocks[channel] += 1
        self._ends.setdefault(end.number, {})[channel] = end

    @property
    def missing(self) -> int:
        """How many senders have not ended the superstep behind the last decided one."""
        return len(self._roles) - len(self._ends.get(self.decided + 1, ()))

    @property
    def is_complete(self) -> bool:
        """Whether all senders have ended the superstep behind the last decided one."""
        return not self.missing

    @property
    def in_first(self) -> bool:
        """Whether the first superstep of the run is not decided: inputs from outside may not have ended."""
        return self.decided < self._first

    @property
    def latest(self) -> int:
        """The last superstep that a head may begin which knows no more than this one."""
        latest = self.decided + self._rules.slack
        return latest if self._last_one is None else min(latest, self._last_one)

    @property
    def _last_one(self) -> int | None:
        most = self._rules.supersteps_max
        return min((one for one in (self._last, None if most is None else most - 1) if one is not None), default=None)

    def may_follow(self, number: int) -> bool:
        """Return whether a superstep, or the end of the iteration, may follow superstep `number`."""
        if number == self._last_one:
            return self.decided >= number
        return self.decided >= max(self._first, number - self._rules.slack)

    def has_ended_with(self, number: int) -> bool:
        """Return whether superstep `number` was the last one."""
        return self._last_one is not None and number >= self._last_one

    @property
    def waits(self) -> bool:
        """Whether the next superstep waits for input: nothing was fed back, and more may come."""
        return self._is_open and self._idle > 0

    def decide(self) -> None:
        """Decide what follows from the superstep behind the last decided one, which is complete."""
        self.decided = number = self.decided + 1
        ends = self._ends.pop(number)
        channels = sorted(ends)
        counted: dict[FeedbackRole | None, int] = {}
        for channel in channels:
            role = self._roles[channel]
            counted[role] = counted.get(role, 0) + ends[channel].records
        self._aggregate(number, [ends[channel] for channel in channels])
        self.agreed = max(self.agreed, min(end.checkpoint for end in ends.values()))
        is_idle = not counted.get(FeedbackRole.WORKSET) and not counted.get(FeedbackRole.COUNT)
        self._idle = self._idle + 1 if is_idle else 0
        self._unchanged = self._unchanged + 1 if counted.get(FeedbackRole.TERMINATION) == 0 else 0
        self._is_open = any(end.is_open for end in ends.values())
        slack = self._rules.slack
        # What a sender feeds back may wait for `slack` supersteps, so that many must be quiet.
        if self._last is None and (
            (max(self._idle, self._unchanged) > slack and not self._is_open)
            or any(self._is_converged(name, number) for name in self._rules.criteria)
        ):
            self._last = number + slack

    def _is_converged(self, name: str, number: int) -> bool:
        value = self._aggregators[number][name][1]
        try:
            return bool(self._rules.criteria[name].is_converged(number, value))
        except RAISED as error:
            raise ProgramError(
                f"the criterion of aggregator '{name}' in '{self._name}' failed for superstep {number} and the "
                f"value {shortened(value)}: {type(error).__name__}: {error}"
            ) from error

    def _aggregate(self, number: int, ends: list[EndOfSuperstep]) -> None:
        before = self._aggregators[number - 1]
        results: dict[str, Aggregator[Any]] = {}
        for name, (one, _) in before.items():
            results[name] = copy.deepcopy(one)
            results[name].reset()
        # In the order of channels, which is the same for all heads: sums of floats depend on it.
        for end in ends:
            for name, value in (pickle.loads(end.aggregates) if end.aggregates else {}).items():
                aggregate_result(name, results[name], value)
        self._aggregators[number] = {name: (one, results[name].get_aggregate()) for name, (one, _) in before.items()}
        # A head that begins a superstep asks for an older result than the last one: it is the same for all heads.
        self._aggregators.pop(number - self._rules.slack - 1, None)

    def aggregates_for(self, number: int) -> bytes:
        """Return the aggregators for superstep `number`: the newest results that all heads have when it begins."""
        return packed(self._aggregators[max(0, number - 1 - self._rules.slack) if number else -1])

    def place(self, number: int) -> SuperstepPlace:
        """Return where the iteration stands before superstep `number`. All before it are decided."""
        assert self.decided == number - 1, f"superstep {number} follows, but {self.decided} is the last decided one"
        last = self._last_one if self.has_ended_with(self.decided) else self._last
        results = {
            superstep: {name: value for name, (_, value) in of_superstep.items()}
            for superstep, of_superstep in self._aggregators.items()
        }
        return SuperstepPlace(number, last, (self._idle, self._unchanged), dumps(results))

    def restore(self, place: SuperstepPlace) -> None:
        """Continue before superstep `place.number`, with the aggregators of the program, which may be others now."""
        self._first, self.decided = place.number, place.number - 1
        self.clocks = dict.fromkeys(self.clocks, place.number)
        self._last = place.last
        self._idle, self._unchanged = place.quiet
        results: dict[int, dict[str, Any]] = pickle.loads(place.aggregates)
        # With more slack than before functions would read results that are older than the oldest one.
        oldest, newest = results[min(results)], place.number - 1
        known = {one: results.get(one, oldest) for one in range(newest - self._rules.slack, place.number)}
        self._aggregators = {
            superstep: {name: (one, values.get(name)) for name, one in self._rules.aggregators.items()}
            for superstep, values in known.items()
        }
