"""Calls of a user's functions with matches and timeouts, and what they emit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from penstock.api.output_tag import OutputTag
from penstock.common.functions.user_calls import RAISED
from penstock.common.values.copies import independent_copy
from penstock.engine.runtime.operators.emitted import emitted, flattened
from penstock.engine.runtime.operators.operator import FunctionPlace

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.function import UserFunction
    from penstock.engine.runtime.task.context import OperatorContext

Match: TypeAlias = dict[str, list[Any]]


class PatternVersion(NamedTuple):
    """A pattern that came as a rule."""

    id: str
    number: int


class PatternContext:
    """The context of `process_match` and `process_timed_out_match`."""

    __slots__ = ("_now_ms", "_timestamp", "_version", "sides")

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._timestamp = 0
        self._version: PatternVersion | None = None
        self.sides: list[tuple[OutputTag[Any], Any]] = []

    def timestamp(self) -> int:
        """Return the time of the match (ms): of the event that completed it, or at which its time ended."""
        return self._timestamp

    def current_processing_time(self) -> int:
        """Return the processing time (ms)."""
        return self._now_ms()

    def output(self, output_tag: OutputTag[Any], value: Any) -> None:
        """Emit a value to a side output."""
        if not isinstance(output_tag, OutputTag):
            raise TypeError(f"output() takes an OutputTag and a value, got {output_tag!r:.100}")
        self.sides.append((output_tag, value))

    def pattern_id(self) -> str | None:
        """Return the id of the rule whose pattern the match is of; None if the pattern is part of the program."""
        return None if self._version is None else self._version.id

    def pattern_version(self) -> int | None:
        """Return the version of that rule."""
        return None if self._version is None else self._version.number

    def of(self, timestamp: int, version: PatternVersion | None) -> PatternContext:
        """Set time and pattern of the next match."""
        self._timestamp = timestamp
        self._version = version
        return self


Form: TypeAlias = Callable[[Callable[..., Any], Match, PatternContext], Iterable[Any]]
"""How a function is called with a match, and which of what it returns are results."""


def process(call: Callable[..., Any], match: Match, ctx: PatternContext) -> Iterable[Any]:
    """Call a function with match and context, and return its results."""
    return emitted(call(match, ctx))  # type: ignore[no-any-return]


def select(call: Callable[..., Any], match: Match, ctx: PatternContext) -> Iterable[Any]:
    """Call a function with a match, and return its one result."""
    return (call(match),)


def flat_select(call: Callable[..., Any], match: Match, ctx: PatternContext) -> Iterable[Any]:
    """Call a function with a match, and return its results."""
    return flattened(call(match))  # type: ignore[no-any-return]


@dataclass(frozen=True)
class ToSideOutput:
    """Calls a function with a partial match and the time at which it ended, and sends its results to a side output."""

    tag: OutputTag[Any]
    flat: bool

    def __call__(self, call: Callable[..., Any], match: Match, ctx: PatternContext) -> Iterable[Any]:
        result = call(match, ctx.timestamp())
        return [(self.tag, one) for one in (flattened(result) if self.flat else (result,))]


class MatchCalls:
    """The functions of a pattern's operator, each with its form. `timed_out` is None if nothing receives timeouts."""

    copy_event: Callable[[Any], Any] | None = staticmethod(independent_copy)
    """Copies the events of a match: they stay in state, and may be part of other matches. None: functions do not change
    them."""

    def __init__(
        self, function: UserFunction, form: Form, timed_out: UserFunction | None = None, timed_out_form: Form = process
    ) -> None:
        self.function = function
        self.form = form
        self.timed_out = timed_out
        self.timed_out_form = timed_out_form

    def open(self, context: OperatorContext) -> None:
        """Open the functions. An object with both methods is opened once."""
        self._user_error = context.user_error
        self._ctx = PatternContext(context.now_ms)
        for function in self._functions():
            function.open(context)

    def close(self, context: OperatorContext) -> None:
        """Close the functions."""
        for function in self._functions():
            function.close(context)

    def places(self) -> list[FunctionPlace]:
        """Return the places of the functions."""
        places = [FunctionPlace(self, "function")]
        if self.timed_out is not None:
            places.append(FunctionPlace(self, "timed_out", is_opened=len(self._functions()) > 1))
        return places

    def results_of_matches(
        self,
        matches: Sequence[Match],
        timestamp: int,
        *,
        key: Any,
        version: PatternVersion | None,
        copy: Callable[[Any], Any],
    ) -> list[Any]:
        """Return the results for matches of one key and time, each copied; those for side outputs as pairs."""
        ctx = self._ctx.of(timestamp, version)
        return self._results(self.function, self.form, matches, ctx=ctx, key=key, copy=copy)

    def results_of_timeout(
        self, match: Match, timestamp: int, *, key: Any, version: PatternVersion | None, copy: Callable[[Any], Any]
    ) -> list[Any]:
        """Return the results for a timeout, each copied, as pairs of an OutputTag and a value."""
        function = self.timed_out
        assert function is not None
        ctx = self._ctx.of(timestamp, version)
        results = self._results(function, self.timed_out_form, (match,), ctx=ctx, key=key, copy=copy)
        for result in results:
            if not (type(result) is tuple and len(result) == 2 and isinstance(result[0], OutputTag)):
                wrong = TypeError(
                    f"a partial match has no results in the main output, got {result!r:.100}: send it to a side "
                    "output, `yield tag, value`"
                )
                raise self._user_error(wrong, function.method, match, key=key, timestamp=timestamp) from wrong
        return results

    def _results(
        self,
        function: UserFunction,
        form: Form,
        matches: Iterable[Match],
        *,
        ctx: PatternContext,
        key: Any,
        copy: Callable[[Any], Any],
    ) -> list[Any]:
        """Call a function with each match, and return what it returns and sends to side outputs, copied."""
        call = function.call
        results: list[Any] = []
        for match in matches:
            try:
                results += map(copy, form(call, match, ctx))
            except RAISED as error:
                raise self._user_error(error, function.method, match, key=key, timestamp=ctx.timestamp()) from error
            if ctx.sides:
                results += map(copy, ctx.sides)
                ctx.sides = []
        return results

    def _functions(self) -> list[UserFunction]:
        timed_out = self.timed_out
        if timed_out is None or timed_out.instance is self.function.instance:
            return [self.function]
        return [self.function, timed_out]
