"""Many conditions looked at together: the same as each of them alone, errors included."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pytest

from penstock.cep import Expression, field
from penstock.cep.condition_index import ConditionIndex, numbers_in
from penstock.cep.evaluation import compiled
from penstock.common.types import Row

CONSTANTS = [0, 1, 2, 1.0, 1.5, -3, 2**70, True, False, "", "a", "b"]
VALUES: list[Any] = [*CONSTANTS, None, float("nan"), float("inf"), -0.0, [1], Decimal(1), b"a", "c", 7]
LACKS = object()


def part(random: random.Random) -> Expression:
    """Return a part of a condition. Most have a form that tables know."""
    name, constant = field(random.choice("xyz")), random.choice(CONSTANTS)
    return random.choice(
        [
            lambda: name == constant,
            lambda: name < constant,
            lambda: name <= constant,
            lambda: name > constant,
            lambda: name >= constant,
            lambda: Expression("<", Expression("value", constant), name),
            lambda: name.is_in([*random.sample(CONSTANTS, 2), None]),
            lambda: name.is_in([]),
            lambda: name != constant,
            lambda: name.is_null(),
            lambda: name + 1 > constant,
            lambda: (name < constant) | (field("y") == 1),
            lambda: name.starts_with("a"),
            lambda: name,
            lambda: name == None,  # noqa: E711
        ]
    )()


def condition(random: random.Random) -> Expression:
    parts = [part(random) for _ in range(random.choice([1, 1, 2, 2, 3]))]
    whole = parts[0]
    for one in parts[1:]:
        whole = whole & one if random.random() < 0.8 else one & whole
    return whole


def event(random: random.Random) -> Any:
    values = {name: random.choice(VALUES) for name in "xyz" if random.random() < 0.85}
    return Row(**values) if random.random() < 0.1 else values


def alone(conditions: list[Expression], event: Any) -> tuple[set[int], set[int]]:
    """Evaluate each condition: those that are met, and those that fail."""
    met, failed = set(), set()
    for number, one in enumerate(conditions):
        try:
            if compiled(one)(event):
                met.add(number)
        except Exception:
            failed.add(number)
    return met, failed


def together(index: ConditionIndex, event: Any) -> tuple[set[int], set[int]]:
    met, failures = index.met(event)
    return set(numbers_in(met)), {number for failed, _ in failures for number in numbers_in(failed)}


@pytest.mark.parametrize("seed", range(40))
def test_conditions_are_met_together_as_alone(seed: int) -> None:
    """A rule would miss events, or take others, because of the rules beside it."""
    chance = random.Random(seed)
    conditions = [condition(chance) for _ in range(chance.choice([1, 3, 40]))]
    index = ConditionIndex(conditions)
    for _ in range(60):
        one = event(chance)
        assert together(index, one) == alone(conditions, one), (conditions, one)


def test_conditions_that_differ_in_constants_are_not_evaluated() -> None:
    """An event would cost as much as there are rules."""
    evaluated = []

    class Counted(ConditionIndex):
        def _evaluate_each(self, conditions: int, event: Any, failures: Any) -> int:
            evaluated.extend(numbers_in(conditions))
            return super()._evaluate_each(conditions, event, failures)

    conditions = [(field("kind") == "pay") & (field("amount") > number) for number in range(1_000)]
    conditions += [(field("card") == f"c{number}") & (field("amount") + 1 > 5) for number in range(1_000)]
    index = Counted(conditions)
    assert together(index, {"kind": "pay", "amount": 3, "card": "c7"})[0] == {0, 1, 2}
    assert together(index, {"kind": "pay", "amount": 5, "card": "c7"})[0] == {0, 1, 2, 3, 4, 1007}
    assert together(index, {"kind": "login", "card": "x"}) == (set(), set())
    assert evaluated == [1007, 1007]


def test_the_errors_of_conditions_are_given() -> None:
    """A user would not learn what is wrong with a rule."""
    index = ConditionIndex([field("x") > 1, field("y") > 1, (field("x") > 1) & (field("y") > 2)])
    _, failures = index.met({"x": "text"})
    assert {number: type(error) for failed, error in failures for number in numbers_in(failed)} == {
        0: TypeError,
        1: KeyError,
        2: TypeError,
    }


def test_a_stop_of_the_job_is_no_failure() -> None:
    """A canceled job would count failures of rules instead of ending."""

    class Stopped:
        @property
        def x(self) -> int:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ConditionIndex([field("x") == 1]).met(Stopped())
