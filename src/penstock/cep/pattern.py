"""The Pattern API: what to look for in a stream, step by step, in Flink's words.

A pattern is a chain of steps. Methods that add a step return a new pattern, all others change the last step and return
the same pattern. What Flink refuses is refused at the call. Source: Flink docs, "Event Processing (CEP)", The Pattern
API; Flink's `Pattern`.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar, cast, overload

from penstock.cep import drawing
from penstock.cep.after_match import AfterMatchSkipStrategy
from penstock.cep.conditions import ALWAYS, Both, Condition, Either, IterativeLike, SimpleLike, Subtype, condition_of
from penstock.cep.errors import MalformedPatternError
from penstock.cep.steps import Contiguity, Step, Times, WithinType, all_steps, copied_step, longest_gap_ms, window_ms
from penstock.common.time import TimeLength, to_milliseconds

T = TypeVar("T")
F = TypeVar("F")
S = TypeVar("S")


class Pattern(Generic[T, F]):
    """A pattern over events of type T, whose last step takes events of type F. Start with `Pattern.begin`."""

    def __init__(self, step: Step, previous: Pattern[T, Any] | None, skip: AfterMatchSkipStrategy) -> None:
        self._step = step
        self._previous = previous
        self._skip = skip
        names = [found.name for found in all_steps(self.steps())]
        for name in names:
            if names.count(name) > 1:
                raise MalformedPatternError(f"the pattern has two steps '{name}': give each step its own name")

    # ---- steps

    @overload
    @staticmethod
    def begin(name: str, skip_strategy: AfterMatchSkipStrategy | None = None) -> Pattern[Any, Any]: ...

    @overload
    @staticmethod
    def begin(name: Pattern[T, F], skip_strategy: AfterMatchSkipStrategy | None = None) -> GroupPattern[T, F]: ...

    @staticmethod
    def begin(name: str | Pattern[T, F], skip_strategy: AfterMatchSkipStrategy | None = None) -> Pattern[Any, Any]:
        """Start a pattern with the step `name`, or with a pattern as a group.

        Args:
            name: of the step, unique in the pattern; or a pattern, which becomes a group.
            skip_strategy: what happens to other matches after a match, for the whole pattern. Default: `no_skip`.

        Raises:
            MalformedPatternError: for an empty name, or a group that ends with `not_followed_by`.
        """
        skip = AfterMatchSkipStrategy.no_skip() if skip_strategy is None else skip_strategy
        if not isinstance(skip, AfterMatchSkipStrategy):
            raise MalformedPatternError(f"begin() takes an AfterMatchSkipStrategy, got {skip!r:.100}")
        return _appended(name, None, Contiguity.STRICT, skip)

    @overload
    def next(self, name: str) -> Pattern[T, T]: ...

    @overload
    def next(self, name: Pattern[T, S]) -> GroupPattern[T, S]: ...

    def next(self, name: str | Pattern[T, Any]) -> Pattern[T, Any]:
        """Add a step that must take the very next event of the key: strict contiguity."""
        return _appended(name, self, Contiguity.STRICT, self._skip)

    @overload
    def followed_by(self, name: str) -> Pattern[T, T]: ...

    @overload
    def followed_by(self, name: Pattern[T, S]) -> GroupPattern[T, S]: ...

    def followed_by(self, name: str | Pattern[T, Any]) -> Pattern[T, Any]:
        """Add a step that takes the first event that fits: relaxed contiguity."""
        return _appended(name, self, Contiguity.RELAXED, self._skip)

    @overload
    def followed_by_any(self, name: str) -> Pattern[T, T]: ...

    @overload
    def followed_by_any(self, name: Pattern[T, S]) -> GroupPattern[T, S]: ...

    def followed_by_any(self, name: str | Pattern[T, Any]) -> Pattern[T, Any]:
        """Add a step that takes each event that fits, each in a match of its own."""
        return _appended(name, self, Contiguity.RELAXED_ANY, self._skip)

    def not_next(self, name: str) -> Pattern[T, T]:
        """Require that the very next event does not fit. At the end of a pattern, a match needs that event to come.

        Raises MalformedPatternError behind an optional step.
        """
        return _appended(name, self._before_not(name), Contiguity.NOT_NEXT, self._skip)

    def not_followed_by(self, name: str) -> Pattern[T, T]:
        """Require that no event that fits comes before the next step takes its event.

        At the end of a pattern, which then needs `within`, a match is complete when its time ends. Raises
        MalformedPatternError behind an optional step.
        """
        return _appended(name, self._before_not(name), Contiguity.NOT_FOLLOWED, self._skip)

    # ---- conditions

    @overload
    def where(self, condition: SimpleLike[F]) -> Pattern[T, F]: ...

    @overload
    def where(self, condition: IterativeLike[F]) -> Pattern[T, F]: ...

    def where(self, condition: SimpleLike[F] | IterativeLike[F]) -> Pattern[T, F]:
        """Require `condition` of the step's events, in addition to what is there already.

        Args:
            condition: a function of the event; a function of the event and a `Context`, for conditions that depend on
                what the match has taken before; or an expression, `field("amount") > 500`.

        Raises:
            MalformedPatternError: for anything else, and on a group.
        """
        given = condition_of(condition, "where()")
        present = self._own_condition("where()")
        self._step.condition = given if present is ALWAYS else Both(present, given)
        return self

    @overload
    def or_(self, condition: SimpleLike[F]) -> Pattern[T, F]: ...

    @overload
    def or_(self, condition: IterativeLike[F]) -> Pattern[T, F]: ...

    def or_(self, condition: SimpleLike[F] | IterativeLike[F]) -> Pattern[T, F]:
        """Accept events that meet `condition`, too. Conditions combine from left to right, as in `where`."""
        given = condition_of(condition, "or_()")
        present = self._own_condition("or_()")
        self._step.condition = given if present is ALWAYS else Either(present, given)
        return self

    def subtype(self, cls: type[S]) -> Pattern[T, S]:
        """Require that the step's events are instances of `cls`."""
        present = self._own_condition("subtype()")
        if not isinstance(cls, type):
            raise MalformedPatternError(f"subtype() takes a class, got {cls!r:.100}")
        given = Subtype(cls)
        self._step.condition = given if present is ALWAYS else Both(present, given)
        return cast("Pattern[T, S]", self)

    @overload
    def until(self, condition: SimpleLike[F]) -> Pattern[T, F]: ...

    @overload
    def until(self, condition: IterativeLike[F]) -> Pattern[T, F]: ...

    def until(self, condition: SimpleLike[F] | IterativeLike[F]) -> Pattern[T, F]:
        """End the loop with the first event that meets `condition`; the next step may take that event.

        Raises MalformedPatternError unless the step is a loop (`one_or_more`, `times_or_more`), and at a second call.
        """
        given = condition_of(condition, "until()")
        if self._step.until is not None:
            raise self._refused("until() was called already: combine the conditions in one")
        if not self._step.loops:
            raise self._refused("until() needs a loop: call one_or_more() or times_or_more() before")
        self._step.until = given
        return self

    # ---- quantifiers

    def times(self, least: int, most: int | None = None, gap: TimeLength | None = None) -> Pattern[T, F]:
        """Take `least` events, or between `least` and `most` events.

        Args:
            least: 0 makes the step optional, then at least one event if any.
            most: default: `least`.
            gap: the time between two repetitions must be shorter. Default: any.

        Raises:
            MalformedPatternError: for counts that are not whole numbers, are negative or contradict each other; on a
                not-step; and at a second quantifier.
        """
        top = least if most is None else most
        if not _is_count(least, 0) or not _is_count(top, 1) or top < least:
            given = repr(least) if most is None else f"{least!r}, {most!r}"
            raise self._refused(f"times() takes a positive number, or two in ascending order; got {given}")
        pattern = self._repeated(Times(max(least, 1), top, _gap(gap)))
        self._step.optional = self._step.optional or least == 0
        return pattern

    def times_or_more(self, least: int, gap: TimeLength | None = None) -> Pattern[T, F]:
        """Take `least` events or more. Each number of them makes a match of its own, unless `greedy`.

        Args:
            least: at least 1.
            gap: the time between two repetitions must be shorter. Default: any.

        Raises:
            MalformedPatternError: for a count below 1; on a not-step; and at a second quantifier.
        """
        if not _is_count(least, 1):
            raise self._refused(f"times_or_more() takes a positive number, got {least!r}")
        return self._repeated(Times(least, None, _gap(gap)))

    def one_or_more(self, gap: TimeLength | None = None) -> Pattern[T, F]:
        """Take one or more events: `times_or_more(1)`."""
        return self.times_or_more(1, gap)

    def optional(self) -> Pattern[T, F]:
        """Allow that the step takes no event.

        Raises MalformedPatternError on a not-step, directly behind a greedy step, and at a second call.
        """
        if self._previous is not None and self._previous._step.greedy:
            raise self._refused(f"optional() cannot follow the greedy step '{self._previous._step.name}'")
        if self._step.optional:
            raise self._refused("optional() was called already")
        if self._step.contiguity.is_not:
            raise self._refused("optional() does not apply to a step that must not take an event")
        self._step.optional = True
        return self

    def greedy(self) -> Pattern[T, F]:
        """Keep repeating as long as events fit: what the step would take does not go to the next one.

        Has no effect on the last step. Raises MalformedPatternError without a quantifier, with `allow_combinations`,
        on a group and on a not-step.
        """
        if self._step.group:
            raise self._refused("greedy() does not apply to a group")
        self._check_repeats("greedy()")
        if self._step.inner is Contiguity.RELAXED_ANY:
            raise self._refused("greedy() and allow_combinations() exclude each other")
        self._step.greedy = True
        return self

    def consecutive(self) -> Pattern[T, F]:
        """Require strict contiguity between repetitions; the default is relaxed.

        Raises MalformedPatternError without a quantifier, with `allow_combinations`, and at a second call.
        """
        return self._with_inner(Contiguity.STRICT, "consecutive()")

    def allow_combinations(self) -> Pattern[T, F]:
        """Let repetitions leave out events that fit: each choice is a match of its own.

        Raises MalformedPatternError without a quantifier, with `consecutive` or `greedy`, and at a second call.
        """
        if self._step.greedy:
            raise self._refused("greedy() and allow_combinations() exclude each other")
        return self._with_inner(Contiguity.RELAXED_ANY, "allow_combinations()")

    def within(self, length: TimeLength, within_type: WithinType = WithinType.FIRST_AND_LAST) -> Pattern[T, F]:
        """Limit the time of a match. A partial match that takes longer times out.

        Args:
            length: the time must be shorter than this. With FIRST_AND_LAST, the shortest of all steps' lengths counts.
            within_type: FIRST_AND_LAST: between first and last event of the match. PREVIOUS_AND_CURRENT: between each
                event that this step takes, or the first event of this group, and the event taken before.

        Raises:
            MalformedPatternError: for a length of less than a millisecond, and for a PREVIOUS_AND_CURRENT length above
                the one between first and last event.
        """
        length_ms = to_milliseconds(length)
        if length_ms < 1:
            raise self._refused(f"within() takes at least a millisecond, got {length!r}")
        if not isinstance(within_type, WithinType):
            raise self._refused(f"within() takes a WithinType as its second argument, got {within_type!r:.100}")
        if within_type is WithinType.PREVIOUS_AND_CURRENT:
            self._step.gap_ms = length_ms
        else:
            self._step.within_ms = length_ms
        whole = window_ms(self.steps())
        longest = longest_gap_ms(self.steps())
        if whole is not None and longest > whole:
            raise self._refused(
                f"the time between previous and current event, {longest} ms, exceeds the one between first and last "
                f"event, {whole} ms"
            )
        return self

    # ---- the whole

    def steps(self) -> list[Step]:
        """Return the steps, in order."""
        steps: list[Step] = []
        pattern: Pattern[T, Any] | None = self
        while pattern is not None:
            steps.append(pattern._step)
            pattern = pattern._previous
        return steps[::-1]

    def get_after_match_skip_strategy(self) -> AfterMatchSkipStrategy:
        """Return the strategy that `begin` was given."""
        return self._skip

    def copied(self) -> Pattern[T, F]:
        """Return a pattern with copies of the steps: later changes of this one do not reach it."""
        previous = None if self._previous is None else self._previous.copied()
        return type(self)(copied_step(self._step), previous, self._skip)

    def check(self) -> None:
        """Refuse what only the whole pattern shows. Called when a pattern is applied to a stream.

        Raises MalformedPatternError if the pattern ends with `not_followed_by` and has no `within`, or if its skip
        strategy names no step that takes events.
        """
        steps = self.steps()
        last = steps[-1]
        if last.contiguity is Contiguity.NOT_FOLLOWED and last.gap_ms is None and window_ms(steps) is None:
            raise self._refused("not_followed_by() at the end of a pattern needs within(): when does its time end?")
        names = [step.name for step in all_steps(steps) if not step.contiguity.is_not]
        if self._skip.step_name is not None and self._skip.step_name not in names:
            raise MalformedPatternError(
                f"{self._skip.kind}('{self._skip.step_name}'): no step of that name takes events; there are "
                f"{', '.join(names)}"
            )

    def draw(self, form: str = "text") -> str:
        """Return a picture of the pattern.

        Args:
            form: "text" for lines of characters, "mermaid" for the source of a Mermaid flow chart.

        Raises:
            MalformedPatternError: for another form.
        """
        if form == "text":
            return drawing.as_text(self.steps(), self._skip)
        if form == "mermaid":
            return drawing.as_mermaid(self.steps())
        raise MalformedPatternError(f"draw() takes 'text' or 'mermaid', got {form!r}")

    def __repr__(self) -> str:
        return f"Pattern({drawing.in_short(self.steps())})"

    def _own_condition(self, call: str) -> Condition:
        if self._step.group:
            raise self._refused(f"{call} does not apply to a group: set it on its steps")
        return self._step.condition

    def _before_not(self, name: str) -> Pattern[T, F]:
        if self._step.optional:
            raise self._refused(
                f"the not-step '{name}' cannot follow an optional step: use two patterns, with the step and without it"
            )
        return self

    def _repeated(self, times: Times) -> Pattern[T, F]:
        if self._step.contiguity.is_not:
            raise self._refused("a step that must not take an event takes no quantifier")
        if self._step.times is not None:
            raise self._refused("the step has a quantifier already")
        self._step.times = times
        return self

    def _with_inner(self, contiguity: Contiguity, call: str) -> Pattern[T, F]:
        self._check_repeats(call)
        if self._step.inner is contiguity:
            raise self._refused(f"{call} was called already")
        if self._step.inner is not Contiguity.RELAXED:
            raise self._refused("consecutive() and allow_combinations() exclude each other")
        self._step.inner = contiguity
        return self

    def _check_repeats(self, call: str) -> None:
        if self._step.times is None:
            raise self._refused(
                f"{call} needs a step that repeats: call times(), times_or_more() or one_or_more() before"
            )

    def _refused(self, reason: str) -> MalformedPatternError:
        return MalformedPatternError(f"{_called(self._step)}: {reason}")


class GroupPattern(Pattern[T, F]):
    """A pattern whose last step is a group: a pattern that is optional or repeated as a whole.

    It refuses `where`, `or_`, `subtype` and `greedy`, which apply to single steps.
    """


def _appended(
    name: str | Pattern[T, Any], previous: Pattern[T, Any] | None, contiguity: Contiguity, skip: AfterMatchSkipStrategy
) -> Pattern[T, Any]:
    if isinstance(name, Pattern):
        group = name.steps()
        if group[-1].contiguity is Contiguity.NOT_FOLLOWED:
            raise MalformedPatternError(
                f"a group cannot end with not_followed_by('{group[-1].name}'): put that step behind the group"
            )
        return GroupPattern(Step("", contiguity, group=group), previous, skip)
    given: object = name
    if not isinstance(given, str) or not name:
        raise MalformedPatternError(f"expected the name of a step, or a pattern as a group, got {name!r:.100}")
    return Pattern(Step(name, contiguity), previous, skip)


def _called(step: Step) -> str:
    return (
        f"group ({', '.join(inner.name for inner in all_steps(step.group))})" if step.group else f"step '{step.name}'"
    )


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _gap(gap: TimeLength | None) -> int | None:
    if gap is None:
        return None
    gap_ms = to_milliseconds(gap)
    if gap_ms < 1:
        raise MalformedPatternError(f"the time between repetitions must be at least a millisecond, got {gap!r}")
    return gap_ms
