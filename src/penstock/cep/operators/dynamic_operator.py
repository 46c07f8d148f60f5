"""The operator of patterns that come as rules, while it runs.

Its second input has rules, the same in every subtask. Their newest versions are broadcast state. A rule applies to
events that are processed after it has come; in event time, these are events that wait for the watermark, too. Partial
matches of a rule continue under its next version, where steps and repetitions have the names that they had. A condition
that fails on an event does not hold: no rule from outside ends the job.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.api.output_tag import OutputTag
from penstock.api.state.descriptors import MapStateDescriptor
from penstock.api.timers import TimeDomain
from penstock.cep.automata import automaton_of
from penstock.cep.errors import MalformedPatternError
from penstock.cep.operators.bounds import Bound
from penstock.cep.operators.cep_operator import MATCHES_TABLE, CepOperator
from penstock.cep.operators.checked_bits import known_bits
from penstock.cep.operators.event_buffer import Event
from penstock.cep.operators.key_matching import KeyMatching
from penstock.cep.operators.match_calls import MatchCalls, PatternVersion
from penstock.cep.operators.rule_index import FailingRules, Holders, RuleIndex
from penstock.cep.pattern import Pattern
from penstock.cep.rules import RejectedRule, Rule, read_rule
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.operators.two_inputs import OperatorInput
from penstock.engine.runtime.time.watermarks import CombinedWatermark

if TYPE_CHECKING:
    from penstock.cep.automaton import Automaton
    from penstock.cep.condition_index import Failures
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext

_log = logging.getLogger(__name__)
_RULES = MapStateDescriptor("cep.rules")
"""id -> version, and the JSON text that brought it. A removed rule stays, so that an old version does not return."""
_ANY: Pattern[Any, Any] = Pattern.begin("any")


class RuleInput(OperatorInput):
    """The input of rules, whose event time does not count: a stream of rules mostly lacks watermarks."""

    __slots__ = ()

    def watermark(self, timestamp: int) -> bool:
        return True

    def status(self, active: bool) -> bool:
        return True


class DynamicCepOperator(CepOperator):
    """Finds the matches of all rules. `rejected_tag`: the side output of rules that change nothing, if any."""

    def __init__(
        self,
        name: str,
        key_selector: Callable[[Any], Any],
        calls: MatchCalls,
        *,
        domain: TimeDomain,
        comparator: Callable[[Any, Any], int] | None = None,
        late_tag: OutputTag[Any] | None = None,
        bound: Bound | None = None,
        queryable_name: str | None = None,
        rejected_tag: OutputTag[Any] | None = None,
    ) -> None:
        super().__init__(
            name,
            key_selector,
            automaton_of(_ANY),
            calls,
            domain=domain,
            comparator=comparator,
            late_tag=late_tag,
            bound=bound,
            queryable_name=queryable_name,
        )
        self.rejected_tag = rejected_tag
        self.rejected = 0
        self.failed_conditions = 0
        self._known_to_fail: set[PatternVersion | None] = set()

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        assert self.metrics is not None
        self.metrics.gauge("numRules", lambda: len(self.rules))
        self.metrics.gauge("numRejectedRules", lambda: self.rejected)
        self.metrics.gauge("numFailedConditions", lambda: self.failed_conditions)
        event_time = CombinedWatermark(range(1))
        events = OperatorInput(self, 0, self.process, event_time)
        self._inputs = events, RuleInput(self, 1, self.process_rules, event_time)
        self.rules: dict[str, KeyMatching] = {}
        self._index: RuleIndex | None = None
        """Which rules an event concerns; None if rules have changed since."""
        self._holders: Holders | None = None if self.matches_table.is_larger_than_memory else {}

    def use_tables(self) -> None:
        self.matches_table = self.backend.layered(MATCHES_TABLE, namespaced=True)

    def inputs(self) -> Sequence[OperatorInput]:
        return self._inputs

    def open_patterns(self, is_restored: bool) -> None:
        self._versions = self.context.operator_states.get_broadcast_state(_RULES)
        if self._holders is not None and is_restored:
            for key, id in list(self.matches_table.keys()):
                self._holders.setdefault(key, set()).add(id)
        # The program may have had no name for its partial matches before.
        self._writes_again = is_restored and self.queryable is not None and self.queryable.is_empty()
        for _, text in list(self._versions.values()):
            self._use(read_rule(text), is_restored)
        self._writes_again = False

    # ---- rules

    def process_rules(self, chunk: Rows) -> bool:
        """Process a chunk of rules."""
        rejected = []
        for text in chunk.values:
            try:
                rule = read_rule(text)
                known = self._versions.get(rule.id)
                if known is not None and known[0] >= rule.version:
                    raise MalformedPatternError(
                        f"$.version: rule '{rule.id}' has version {known[0]} already, got {rule.version}"
                    )
                self._use(rule, is_restored=False)
            except MalformedPatternError as error:
                rejected.append(RejectedRule(text, str(error)))
                continue
            self._versions.put(rule.id, (rule.version, text))
        # Each subtask has all rules: one of them reports.
        if not rejected or self.context.info.subtask:
            return True
        self.rejected += len(rejected)
        if self.rejected_tag is not None:
            return self.output.emit_side(self.rejected_tag, Rows(rejected))
        for one in rejected:
            _log.warning("%s: a rule was rejected: %s", self.name, one.error)
        return True

    def _use(self, rule: Rule, is_restored: bool) -> None:
        """Add, replace or remove the pattern of a rule."""
        automaton: Automaton[Any] | None = None
        if rule.pattern is not None:
            automaton = automaton_of(rule.pattern, is_bounded=self.bound is not None)
        former = self.rules.pop(rule.id, None)
        self._index = None
        if former is not None:
            former.states.store()
        if automaton is None:
            if former is not None:
                self.figures.partial_matches -= former.states.remove_all()
            return
        may_hold = is_restored or former is not None
        version = PatternVersion(rule.id, rule.version)
        bits = partial(known_bits, automaton, failed=partial(self._condition_failed, version))
        states = self.new_states(automaton, bits, is_restored=may_hold, namespace=rule.id, holders=self._holders)
        if self._writes_again or (former is not None and former.automaton.limits_ms != automaton.limits_ms):
            states.set_timers_again()
        self.rules[rule.id] = KeyMatching(self, automaton, states, version)

    # ---- events

    def bits_of(self, values: Sequence[Any]) -> list[int]:
        """Return 0 for each event: rules may change before it is processed."""
        return [0] * len(values)

    def dropped(self, bits: set[int]) -> set[int]:
        return set()

    def processed(self, events: list[Event]) -> Iterator[None]:
        if self._index is None:
            automata = {id: matching.automaton for id, matching in self.rules.items()}
            self._index = RuleIndex(automata, self.calls.timed_out is not None, self._holders is not None)
        rules = dict(self.rules)
        for id, needed in self._index.events_of(events, self._holders or {}, self._conditions_failed):
            yield from rules[id].processed(needed)

    def _conditions_failed(self, event: Any, rules: FailingRules, failures: Failures) -> None:
        if rules.are_reported:
            self.failed_conditions += len(rules.ids)
            return
        for id in rules.ids:
            self._condition_failed(self.rules[id].version, event, failures[0][1])
        rules.are_reported = True

    def _condition_failed(self, version: PatternVersion | None, event: Any, error: BaseException) -> None:
        """Count an event on which a condition fails: a rule from outside must not end the job."""
        self.failed_conditions += 1
        if version not in self._known_to_fail:
            self._known_to_fail.add(version)
            _log.warning(
                "%s: a condition of rule '%s', version %s, fails on %r, which does not meet it: %s: %s. "
                "numFailedConditions counts such events; further ones of this version are not logged.",
                self.name,
                *(version or (None, None)),
                event,
                type(error).__name__,
                error,
            )

    def forget_key(self) -> bool:
        if self._holders is not None:
            self._holders.clear()
        return super().forget_key()

    def matchings(self) -> Sequence[KeyMatching]:
        return list(self.rules.values())

    def matching_of(self, namespace: Any) -> KeyMatching | None:
        return self.rules.get(namespace)
