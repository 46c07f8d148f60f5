"""Conditions of patterns, in their forms, and how they combine.

* `lambda e: ...` is simple: its answer depends on the event alone. It is called once per event.
* An expression, `field("amount") > 500`, is simple, too, and is data: see `expressions`.
* `lambda e, ctx: ...` is iterative: its answer also depends on the partial match, which `ctx` shows. It is called at
  most once per event and partial match, and only if the simple conditions it is combined with do not decide.
* An object of a class in `condition_functions` is one or the other; a RichIterativeCondition has a life cycle.

A pattern's step has one condition: a tree of And and Or over these. The largest parts of a tree without an iterative
condition are its *predicates*: each becomes a bit per event.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from penstock.cep.condition_functions import Context, IterativeCondition, SimpleCondition
from penstock.cep.errors import MalformedPatternError
from penstock.cep.evaluation import compiled
from penstock.cep.expressions import Expression
from penstock.common.functions.arity import accepts_arguments
from penstock.common.functions.result_kinds import check_result_kind

E = TypeVar("E")


SimpleLike: TypeAlias = Callable[[E], bool] | SimpleCondition[E] | Expression
"""A condition on the event alone."""
IterativeLike: TypeAlias = Callable[[E, Context], bool] | IterativeCondition[E]
"""A condition on the event and the partial match that may take it."""


class Condition:
    """A condition on an event, and perhaps on a partial match."""

    simple = True
    """Whether it depends on the event alone."""


@dataclass(frozen=True, eq=False)
class Always(Condition):
    """Holds for each event: the condition of a step without conditions."""


@dataclass(frozen=True, eq=False)
class Simple(Condition):
    """A function of the event."""

    function: Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class Subtype(Condition):
    """The event is an instance of a class."""

    cls: type


@dataclass(frozen=True, eq=False)
class OfFields(Condition):
    """An expression on the event's fields; holds if its value is True."""

    expression: Expression


@dataclass(frozen=True, eq=False)
class Iterative(Condition):
    """A function of the event and the partial match."""

    function: Callable[[Any, Context], Any]
    simple = False


@dataclass(frozen=True, eq=False)
class Both(Condition):
    """Both conditions hold. The second one is evaluated if the first one holds."""

    first: Condition
    second: Condition

    @property
    def simple(self) -> bool:  # type: ignore[override]
        """Whether both depend on the event alone."""
        return self.first.simple and self.second.simple


@dataclass(frozen=True, eq=False)
class Either(Condition):
    """The first condition holds, or the second one. The second one is evaluated if the first one does not hold."""

    first: Condition
    second: Condition

    @property
    def simple(self) -> bool:  # type: ignore[override]
        """Whether both depend on the event alone."""
        return self.first.simple and self.second.simple


ALWAYS = Always()


def condition_of(given: Any, call: str) -> Condition:
    """Return the condition that a user gave to the method `call`. Raises MalformedPatternError for anything else."""
    if isinstance(given, Expression):
        return OfFields(given)
    if isinstance(given, SimpleCondition):
        return Simple(_with_result(given.filter, call))
    if isinstance(given, IterativeCondition):
        return Iterative(_with_result(given.filter, call))
    if callable(given) and not isinstance(given, type):
        _with_result(given, call)
        if accepts_arguments(given, 1):
            return Simple(given)
        if accepts_arguments(given, 2):
            return Iterative(given)
        raise MalformedPatternError(f"{call} takes a function of (event) or of (event, context), got {given!r}")
    raise MalformedPatternError(
        f"{call} takes a function of the event, a function of the event and the context, an object of a condition's "
        f"class, or an expression such as field('amount') > 500; got {given!r:.100}"
    )


def _with_result(function: Callable[..., Any], call: str) -> Callable[..., Any]:
    """Return the function. Raises MalformedPatternError if it returns a generator, a coroutine and the like."""
    try:
        check_result_kind(function, f"the condition of {call}")
    except TypeError as error:
        # Its result would be true for each event.
        raise MalformedPatternError(str(error)) from None
    return function


def evaluator(condition: Condition) -> Callable[[Any], Any]:
    """Return a simple condition as one function of the event, whose result is true or false in Python's sense."""
    match condition:
        case Simple(function):
            return function
        case Subtype(cls):
            return lambda event: isinstance(event, cls)
        case OfFields(expression):
            return compiled(expression)
        case Both(first, second):
            left, right = evaluator(first), evaluator(second)
            return lambda event: left(event) and right(event)
        case Either(first, second):
            left, right = evaluator(first), evaluator(second)
            return lambda event: left(event) or right(event)
    return lambda event: True


def expression_of(condition: Condition) -> Expression | None:
    """Return a simple condition as one expression, which can be evaluated on columns; None if a part is a function."""
    match condition:
        case OfFields(expression):
            return expression
        case Both(first, second) | Either(first, second):
            left, right = expression_of(first), expression_of(second)
            if left is None or right is None:
                return None
            return left & right if isinstance(condition, Both) else left | right
    return None


def text_of(condition: Condition) -> str:
    """Return the condition as it is shown in pictures of a pattern."""
    match condition:
        case OfFields(expression):
            return repr(expression)
        case Subtype(cls):
            return f"is {cls.__name__}"
        case Simple(function):
            return f"{_name(function)}(e)"
        case Iterative(function):
            return f"{_name(function)}(e, ctx)"
        case Both(first, second):
            return f"{text_of(first)} and {text_of(second)}"
        case Either(first, second):
            return f"({text_of(first)} or {text_of(second)})"
    return "any"


def _name(function: Callable[..., Any]) -> str:
    owner = getattr(function, "__self__", None)
    if isinstance(owner, SimpleCondition | IterativeCondition):
        return type(owner).__name__
    name = getattr(function, "__name__", type(function).__name__)
    return "λ" if name == "<lambda>" else str(name)
