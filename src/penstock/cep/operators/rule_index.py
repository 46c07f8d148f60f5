"""Which rules an event concerns, for many rules: one look at the event instead of one for each rule.

Conditions that several rules have are looked at once, and those that differ in constants together
(`condition_index.py`). A rule of which an event meets no condition mostly does not need the event. Where it does, since
contiguity is strict or time completes its matches, it needs it for keys that have partial matches: `holders` has them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.cep import json_form
from penstock.cep.condition_index import ConditionIndex, Failures, numbers_in
from penstock.cep.operators.event_buffer import Event

if TYPE_CHECKING:
    from penstock.cep.automaton import Automaton
    from penstock.cep.expressions import Expression

RuleBits: TypeAlias = tuple[tuple[int, int], ...]
"""Numbers of rules, each with the bits of an event."""
Holders: TypeAlias = dict[Any, set[str]]
"""The ids of the rules that may have partial matches of a key."""

KNOWN_MAX = 4_096
"""Sets of conditions whose rules are kept."""


class FailingRules:
    """Rules of which a condition fails on an event. `are_reported`: the caller's."""

    __slots__ = ("are_reported", "ids")

    def __init__(self, ids: Sequence[str]) -> None:
        self.ids = ids
        self.are_reported = False


class RuleIndex:
    """The rules of an operator.

    `automata`: by id. `timeouts`: whether they have a receiver. `has_holders`: whether the keys of partial matches are
    known; otherwise rules get all events that may matter to them.
    """

    def __init__(self, automata: Mapping[str, Automaton[Any]], timeouts: bool, has_holders: bool) -> None:
        self._ids = list(automata)
        self._automata = list(automata.values())
        self._timeouts = timeouts
        numbers: dict[str, int] = {}
        conditions: list[Expression] = []
        self._users: list[list[tuple[int, int]]] = []
        """For each condition, the rules that have it, and its bit there."""
        for rule, automaton in enumerate(self._automata):
            for position, predicate in enumerate(automaton.predicates):
                assert predicate is not None, "conditions of rules are expressions"
                number = numbers.setdefault(json.dumps(json_form.written(predicate)), len(numbers))
                if number == len(conditions):
                    conditions.append(predicate)
                    self._users.append([])
                self._users[number].append((rule, 1 << position))
        self._conditions = ConditionIndex(conditions)
        self._found: dict[int, RuleBits] = {}
        self._failing: dict[int, FailingRules] = {}
        needs_all = [number for number, one in enumerate(self._automata) if not one.may_drop(0, timeouts)]
        begins = {number for number in needs_all if self._automata[number].moves.begins(0)}
        self._always = [number for number in needs_all if number in begins or not has_holders]
        self._waiting = {self._ids[number]: number for number in needs_all if number not in self._always}
        self._waiting_numbers = set(self._waiting.values())

    def events_of(
        self, events: Sequence[Event], holders: Holders, failed: Callable[[Any, FailingRules, Failures], None]
    ) -> list[tuple[str, list[Event]]]:
        """Return the rules that need some of the events, in order, each with these events and their bits for it.

        `failed` gets an event, the rules of which a condition fails on it, and the errors.
        """
        met, found = self._conditions.met, self._found
        needed: dict[int, list[Event]] = {}
        begun: dict[Any, set[int]] = {}
        for timestamp, key, value, _ in events:
            conditions, failures = met(value)
            if failures:
                failed(value, self._rules_of(failures), failures)
            bits_by_rule = found.get(conditions)
            if bits_by_rule is None:
                bits_by_rule = self._known(conditions)
            if self._waiting:
                bits_by_rule = self._with_gaps(key, bits_by_rule, holders, begun)
            for rule, bits in bits_by_rule:
                if rule in needed:
                    needed[rule].append((timestamp, key, value, bits))
                else:
                    needed[rule] = [(timestamp, key, value, bits)]
        return [(self._ids[rule], needed[rule]) for rule in sorted(needed)]

    def _known(self, conditions: int) -> RuleBits:
        """Return the rules that need an event which meets these conditions, and the event's bits for each."""
        bits_by_rule = dict.fromkeys(self._always, 0)
        for number in numbers_in(conditions):
            for rule, bit in self._users[number]:
                bits_by_rule[rule] = bits_by_rule.get(rule, 0) | bit
        found = tuple(
            (rule, bits)
            for rule, bits in bits_by_rule.items()
            if not self._automata[rule].may_drop(bits, self._timeouts)
        )
        if len(self._found) >= KNOWN_MAX:
            self._found.clear()
        self._found[conditions] = found
        return found

    def _with_gaps(self, key: Any, bits_by_rule: RuleBits, holders: Holders, begun: dict[Any, set[int]]) -> RuleBits:
        """Return the rules that need an event, with those that need it only because the key has partial matches.

        `begun`: rules of which the key may have them since an event before, which was not processed yet.
        """
        here = begun.setdefault(key, set())
        rules = here | {self._waiting[id] for id in holders.get(key, ()) if id in self._waiting}
        given = {rule for rule, _ in bits_by_rule}
        here |= given & self._waiting_numbers
        return (*bits_by_rule, *((rule, 0) for rule in rules - given))

    def _rules_of(self, failures: Failures) -> FailingRules:
        conditions = 0
        for failed, _ in failures:
            conditions |= failed
        rules = self._failing.get(conditions)
        if rules is None:
            numbers = {rule for number in numbers_in(conditions) for rule, _ in self._users[number]}
            if len(self._failing) >= KNOWN_MAX:
                self._failing.clear()
            rules = self._failing[conditions] = FailingRules([self._ids[rule] for rule in sorted(numbers)])
        return rules
