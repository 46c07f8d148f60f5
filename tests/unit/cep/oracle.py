"""What the matches of a pattern are, by definition rather than by an automaton: all ways to choose events are tried.

For patterns without groups, greedy, until and skip strategies; not-steps forbid the letter 'n', which no step takes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from penstock.cep import Pattern, WithinType
from penstock.cep.automata import automaton_of
from penstock.cep.partial_matches import PartialMatches

Taken = tuple[tuple[int, int], ...]
"""Step and position of the event, in order."""


@dataclass
class OracleStep:
    letters: str
    contiguity: str
    least: int = 1
    most: int | None = 1
    repeats: bool = False
    inner: str = "relaxed"
    optional: bool = False
    gap: int | None = None
    repetition_gap: int | None = None
    forbidden: str | None = None
    """Of a not-step in front of this one: 'next' or 'followed'."""


@dataclass
class OraclePattern:
    steps: list[OracleStep]
    within: int | None = None
    ends_with_not: bool = False
    events: list[tuple[str, int]] = field(default_factory=list)

    def built(self) -> Pattern[Any, Any]:
        """The pattern, for the automaton."""
        pattern: Any = None
        for number, step in enumerate(self.steps):
            if step.forbidden is not None:
                pattern = getattr(pattern, f"not_{step.forbidden}" + ("_by" if step.forbidden == "followed" else ""))(
                    f"n{number}"
                ).where(lambda e: e[0] == "n")
            add = {"strict": "next", "relaxed": "followed_by", "any": "followed_by_any"}[step.contiguity]
            pattern = Pattern.begin(f"s{number}") if pattern is None else getattr(pattern, add)(f"s{number}")
            pattern.where(lambda e, letters=step.letters: e[0] in letters)
            if step.repeats and step.most is None:
                pattern.times_or_more(step.least, step.repetition_gap)
            elif step.repeats:
                pattern.times(step.least, step.most, step.repetition_gap)
            if step.repeats and step.inner != "relaxed":
                pattern.consecutive() if step.inner == "strict" else pattern.allow_combinations()
            if step.optional:
                pattern.optional()
            if step.gap is not None:
                pattern.within(step.gap, WithinType.PREVIOUS_AND_CURRENT)
        if self.ends_with_not:
            pattern = pattern.not_followed_by("n").where(lambda e: e[0] == "n")
        return pattern if self.within is None else pattern.within(self.within)

    def matches(self) -> list[list[str]]:
        """The labels of each match, in order of the events."""
        found = [taken for first in range(len(self.events)) for taken in self._from(first)]
        return sorted([self.events[position][0] for _, position in taken] for taken in found)

    def _from(self, first: int) -> Iterator[Taken]:
        for number, step in enumerate(self.steps):
            if self._fits(first, step.letters):
                yield from self._extended(((number, first),), 1)
            if not step.optional:
                return

    def _extended(self, taken: Taken, count: int) -> Iterator[Taken]:
        """All matches that begin so; the last step has taken `count` events."""
        number, last = taken[-1]
        step = self.steps[number]
        enough = count >= step.least
        rest = self.steps[number + 1 :]
        if enough and all(later.optional for later in rest) and self._end_holds(taken):
            yield taken
        following = rest[0] if rest else None
        if enough and following is not None and following.forbidden == "next" and self._fits(last + 1, "n"):
            return
        until = len(self.events)
        if (following is not None and following.forbidden == "followed") or (self.ends_with_not and not rest):
            until = next((at for at in range(last + 1, until) if self._fits(at, "n")), until)
        if step.most is None or count < step.most:
            gap = min((g for g in (step.gap, step.repetition_gap) if g is not None), default=None)
            for position in self._candidates(last, until, step.letters, step.inner, gap):
                if self._in_time(taken, position):
                    yield from self._extended((*taken, (number, position)), count + 1)
        if enough:
            for later in range(number + 1, len(self.steps)):
                other = self.steps[later]
                for position in self._candidates(last, until, other.letters, other.contiguity, other.gap):
                    if self._in_time(taken, position):
                        yield from self._extended((*taken, (later, position)), 1)
                if not other.optional:
                    return

    def _candidates(self, last: int, until: int, letters: str, contiguity: str, gap: int | None) -> Iterator[int]:
        for position in range(last + 1, until):
            if self._fits(position, letters):
                if gap is None or self.events[position][1] - self.events[last][1] < gap:
                    yield position
                if contiguity == "relaxed":
                    return
            if contiguity == "strict":
                return

    def _fits(self, position: int, letters: str) -> bool:
        return position < len(self.events) and self.events[position][0][0] in letters

    def _in_time(self, taken: Taken, position: int) -> bool:
        return self.within is None or self.events[position][1] - self.events[taken[0][1]][1] < self.within

    def _end_holds(self, taken: Taken) -> bool:
        if not self.ends_with_not:
            return True
        later = range(taken[-1][1] + 1, len(self.events))
        return not any(self._fits(position, "n") and self._in_time(taken, position) for position in later)


def check_random_patterns(seed: int) -> None:
    """Check that the automata of some patterns find what the definition says."""
    chance = random.Random(seed)
    for number in range(50):
        pattern = random_pattern(chance) if number % 5 else plain_pattern(chance)
        automaton = automaton_of(pattern.built())
        partial = PartialMatches()
        found = []
        for label, time in pattern.events:
            found += automaton.advance_time(partial, time)[0]
            found += automaton.process(partial, label, time, automaton.bits(label))
        found += automaton.advance_time(partial, 1_000)[0]
        shown = sorted(
            sorted((e for part in match.values() for e in part), key=lambda e: int(e[1:])) for match in found
        )

        assert shown == pattern.matches(), (seed, pattern)


def plain_pattern(chance: random.Random) -> OraclePattern:
    """Two or three steps that no event fits twice, and twelve events: most of them begin or complete matches."""
    contiguities = ["strict", *chance.choices(["relaxed", "any"], k=chance.randint(1, 2))]
    pattern = OraclePattern([OracleStep(letter, one) for letter, one in zip("abc", contiguities, strict=False)])
    pattern.within = chance.choice([None, 5, 9])
    letters = "abx" if len(pattern.steps) == 2 else "abcx"
    pattern.events = [(f"{chance.choice(letters)}{number}", number + number // 4) for number in range(12)]
    return pattern


def random_pattern(chance: random.Random) -> OraclePattern:
    """A pattern of one to four steps, and four to ten events."""
    steps = [_random_step(chance, number) for number in range(chance.randint(1, 4))]
    for before, step in pairwise(steps):
        if not before.optional and not step.optional and chance.random() < 0.2:
            step.forbidden = chance.choice(["next", "followed"])
    pattern = OraclePattern(steps)
    if chance.random() < 0.4:
        pattern.within = chance.randint(6, 12)
        pattern.ends_with_not = not steps[-1].repeats and not steps[-1].optional and chance.random() < 0.3
    time = 0
    for number in range(chance.randint(4, 10)):
        time += chance.choice([0, 1, 1, 1, 2, 4])
        pattern.events.append((f"{chance.choice('aabbccnx')}{number}", time))
    return pattern


def _random_step(chance: random.Random, number: int) -> OracleStep:
    letters = chance.choice(["a", "b", "c", "ab", "bc", "abc"])
    step = OracleStep(letters, chance.choice(["strict", "relaxed", "relaxed", "any"]) if number else "strict")
    if chance.random() < 0.45:
        step.repeats = True
        step.least = chance.randint(1, 3)
        step.most = chance.choice([None, step.least, step.least + 1, step.least + 2])
        step.inner = chance.choice(["relaxed", "relaxed", "strict", "any"])
        step.repetition_gap = chance.choice([None, None, 2, 3])
    step.optional = chance.random() < 0.2
    step.gap = chance.choice([None, None, None, 2, 4]) if number else None
    return step
