"""Patterns as JSON: read with limits, by the calls of the Pattern API, which refuse what they refuse in a program.

    {"steps": [
        {"name": "small", "where": {"op": "<", "args": [{"field": "amount"}, {"value": 5}]}, "times": [2, null]},
        {"name": "large", "contiguity": "next", "where": {...}, "within_previous_ms": 1000}
     ],
     "within_ms": 60000,
     "skip": {"kind": "skip_to_first", "step": "large", "throw_exception_on_miss": true}}

A step may have the keys of `STEP_KEYS`; only `name`, or `group` with further steps, must be there. Conditions are
expressions (`json_form.py`), never code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from penstock.cep import json_form
from penstock.cep.after_match import NO_SKIP, PAST_LAST, TO_FIRST, TO_LAST, TO_NEXT, AfterMatchSkipStrategy
from penstock.cep.conditions import ALWAYS, Condition, expression_of, text_of
from penstock.cep.errors import MalformedPatternError
from penstock.cep.pattern import Pattern
from penstock.cep.steps import Contiguity, Step, WithinType

STEPS_MAX = 50
STATES_MAX = 1_000
"""Number of repetitions that are built, over all steps and groups."""
GROUPS_MAX = 3
"""Groups in groups."""

PATTERN_KEYS = ("steps", "within_ms", "skip")
STEP_KEYS = (
    *("name", "group", "contiguity", "where", "times", "gap_ms", "inner", "greedy", "optional", "until"),
    *("within_ms", "within_previous_ms"),
)
_CONTIGUITIES = {
    "next": Contiguity.STRICT,
    "followed_by": Contiguity.RELAXED,
    "followed_by_any": Contiguity.RELAXED_ANY,
    "not_next": Contiguity.NOT_NEXT,
    "not_followed_by": Contiguity.NOT_FOLLOWED,
}
_CALLS = {contiguity: name for name, contiguity in _CONTIGUITIES.items()}
_INNER = {"consecutive": Contiguity.STRICT, "allow_combinations": Contiguity.RELAXED_ANY}


def pattern_to_json(pattern: Pattern[Any, Any]) -> str:
    """Return a pattern as JSON text. Raises MalformedPatternError if a condition is a function or a subtype."""
    if not isinstance(pattern, Pattern):
        raise MalformedPatternError(f"expected a pattern, got {type(pattern).__name__} {pattern!r:.100}")
    tree: dict[str, Any] = {"steps": _written_steps(pattern.steps())}
    skip = pattern.get_after_match_skip_strategy()
    if skip.skips:
        tree["skip"] = {"kind": skip.kind}
        if skip.step_name is not None:
            tree["skip"]["step"] = skip.step_name
        if skip.throws_on_miss:
            tree["skip"]["throw_exception_on_miss"] = True
    return json.dumps(tree, allow_nan=False)


def pattern_from_json(text: str | bytes) -> Pattern[Any, Any]:
    """Return the pattern in a JSON text. Raises MalformedPatternError, with the position, if there is none."""
    return read_pattern(json_form.tree_of(text, "the pattern"), "$")


def read_pattern(tree: Any, where: str) -> Pattern[Any, Any]:
    """Return the pattern that a tree of dicts and lists means, which is at `where` of a text."""
    _check_keys(tree, PATTERN_KEYS, where)
    steps = tree.get("steps")
    _check_size(steps, f"{where}.steps")
    pattern = _read_steps(steps, f"{where}.steps", _read_skip(tree.get("skip"), f"{where}.skip"))
    if tree.get("within_ms") is not None:
        _at(f"{where}.within_ms", _read_within, pattern, tree["within_ms"])
    _at(where, pattern.check)
    return pattern


def _written_steps(steps: Sequence[Step]) -> list[dict[str, Any]]:
    written = []
    for position, step in enumerate(steps):
        tree: dict[str, Any] = {"group": _written_steps(step.group)} if step.group else {"name": step.name}
        if position:
            tree["contiguity"] = _CALLS[step.contiguity]
        if step.condition is not ALWAYS:
            tree["where"] = _written_condition(step.condition, step)
        # Behind a greedy step, optional() is refused and times(0, n) is not.
        from_0 = step.optional and step.times is not None and step.times.least == 1 and step.times.most is not None
        if step.times is not None:
            tree["times"] = [0 if from_0 else step.times.least, step.times.most]
            if step.times.gap_ms is not None:
                tree["gap_ms"] = step.times.gap_ms
        if step.times is not None and step.inner is not Contiguity.RELAXED:
            tree["inner"] = next(name for name, inner in _INNER.items() if inner is step.inner)
        tree |= {"greedy": True} if step.greedy else {}
        tree |= {"optional": True} if step.optional and not from_0 else {}
        if step.until is not None:
            tree["until"] = _written_condition(step.until, step)
        tree |= {"within_ms": step.within_ms} if step.within_ms is not None else {}
        tree |= {"within_previous_ms": step.gap_ms} if step.gap_ms is not None else {}
        written.append(tree)
    return written


def _written_condition(condition: Condition, step: Step) -> dict[str, Any]:
    expression = expression_of(condition)
    if expression is None:
        raise MalformedPatternError(
            f"step '{step.name}': the condition {text_of(condition)} is code, which JSON cannot hold: write it as an "
            "expression, field('amount') > 500"
        )
    return json_form.written(expression)


def _read_steps(trees: Any, where: str, skip: AfterMatchSkipStrategy | None) -> Pattern[Any, Any]:
    pattern: Pattern[Any, Any] | None = None
    for position, tree in enumerate(trees):
        here = f"{where}[{position}]"
        what = _read_steps(tree["group"], f"{here}.group", None) if "group" in tree else tree.get("name")
        contiguity = tree.get("contiguity", "followed_by" if position else None)
        if pattern is None:
            if contiguity is not None:
                raise MalformedPatternError(f"{here}.contiguity: only later steps have one, got {contiguity!r:.100}")
            pattern = _at(here, Pattern.begin, what, skip)
        elif not isinstance(contiguity, str) or contiguity not in _CONTIGUITIES:
            raise MalformedPatternError(
                f"{here}.contiguity: expected one of {', '.join(_CONTIGUITIES)}, got {contiguity!r:.100}"
            )
        else:
            pattern = _at(here, getattr(pattern, contiguity), what)
        _at(here, partial(_read_details, pattern, tree, here))
    assert pattern is not None
    return pattern


def _read_details(pattern: Pattern[Any, Any], tree: dict[str, Any], here: str) -> None:
    if "where" in tree:
        pattern.where(json_form.read(tree["where"], f"{here}.where"))
    if (times := tree.get("times")) is not None:
        least, most = times
        gap = None if tree.get("gap_ms") is None else _milliseconds(tree["gap_ms"])
        if most is None:
            pattern.times_or_more(least, gap)
        else:
            pattern.times(least, most, gap)
    if (inner := tree.get("inner")) is not None:
        if not isinstance(inner, str) or inner not in _INNER:
            raise MalformedPatternError(f"inner: expected one of {', '.join(_INNER)}, got {inner!r:.100}")
        getattr(pattern, inner)()
    # Flink refuses optional() before greedy(), and greedy steps before optional ones.
    for name in ("greedy", "optional"):
        if not isinstance(tree.get(name, False), bool):
            raise MalformedPatternError(f"{name}: expected true or false, got {tree[name]!r:.100}")
        if tree.get(name):
            getattr(pattern, name)()
    if "until" in tree:
        pattern.until(json_form.read(tree["until"], f"{here}.until"))
    if tree.get("within_ms") is not None:
        pattern.within(_milliseconds(tree["within_ms"]))
    if tree.get("within_previous_ms") is not None:
        pattern.within(_milliseconds(tree["within_previous_ms"]), WithinType.PREVIOUS_AND_CURRENT)


def _read_within(pattern: Pattern[Any, Any], length: Any) -> None:
    pattern.within(_milliseconds(length))


def _read_skip(tree: Any, where: str) -> AfterMatchSkipStrategy | None:
    if tree is None:
        return None
    _check_keys(tree, ("kind", "step", "throw_exception_on_miss"), where)
    kind, step = tree.get("kind"), tree.get("step")
    plain = {
        NO_SKIP: AfterMatchSkipStrategy.no_skip,
        TO_NEXT: AfterMatchSkipStrategy.skip_to_next,
        PAST_LAST: AfterMatchSkipStrategy.skip_past_last_event,
    }
    to_step = {TO_FIRST: AfterMatchSkipStrategy.skip_to_first, TO_LAST: AfterMatchSkipStrategy.skip_to_last}
    if not isinstance(kind, str) or kind not in {**plain, **to_step}:
        raise MalformedPatternError(f"{where}.kind: expected one of {', '.join([*plain, *to_step])}, got {kind!r:.100}")
    strategy: AfterMatchSkipStrategy
    strategy = _at(where, plain[kind]) if kind in plain else _at(where, to_step[kind], step)
    throws = tree.get("throw_exception_on_miss", False)
    if not isinstance(throws, bool):
        raise MalformedPatternError(f"{where}.throw_exception_on_miss: expected true or false, got {throws!r:.100}")
    if throws:
        strategy = _at(where, strategy.throw_exception_on_miss)
    return strategy


def _check_size(steps: Any, where: str, depth: int = 0, factor: int = 1) -> int:
    """Refuse what is too large before anything is built; return the number of repetitions."""
    if depth > GROUPS_MAX:
        raise MalformedPatternError(f"{where}: groups are nested at most {GROUPS_MAX} deep")
    if not isinstance(steps, list) or not 1 <= len(steps) <= STEPS_MAX:
        shown = f"{len(steps)} steps" if isinstance(steps, list) else f"{steps!r:.100}"
        raise MalformedPatternError(f"{where}: expected a list of 1 to {STEPS_MAX} steps, got {shown}")
    total = 0
    for position, step in enumerate(steps):
        here = f"{where}[{position}]"
        _check_keys(step, STEP_KEYS, here)
        if ("name" in step) is ("group" in step):
            raise MalformedPatternError(f"{here}: a step has a name, or is a group of steps, got {step!r:.100}")
        times = step.get("times")
        count = 1
        if times is not None:
            if (
                not isinstance(times, list)
                or len(times) != 2
                or not all(_is_number(one) for one in (times[0], times[1] or 0))
            ):
                raise MalformedPatternError(
                    f"{here}.times: expected [least, most], of which the second may be null, got {times!r:.100}"
                )
            count = max(times[0], times[1] or 0, 1)
        if factor * count > STATES_MAX:
            raise MalformedPatternError(f"{here}.times: a pattern has at most {STATES_MAX} repetitions")
        if "group" in step:
            total += _check_size(step["group"], f"{here}.group", depth + 1, factor * count)
        else:
            total += count * factor
        if total > STATES_MAX:
            raise MalformedPatternError(f"{where}: a pattern has at most {STATES_MAX} repetitions")
    return total


def _check_keys(tree: Any, known: Sequence[str], where: str) -> None:
    if not isinstance(tree, dict):
        raise MalformedPatternError(f"{where}: expected an object, got {tree!r:.100}")
    for key in tree:
        if key not in known:
            raise MalformedPatternError(f"{where}: expected keys among {', '.join(known)}, got {key!r:.100}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _milliseconds(value: Any) -> int:
    if not _is_number(value) or not 0 < value < 1 << 53:
        raise MalformedPatternError(f"expected a time in milliseconds, got {value!r:.100}")
    return int(value)


def _at(where: str, call: Callable[..., Any], *arguments: Any) -> Any:
    """Call a method of the Pattern API, and add the position to its error."""
    try:
        return call(*arguments)
    except MalformedPatternError as error:
        text = str(error)
        raise MalformedPatternError(text if text.startswith(where) else f"{where}: {text}") from None
