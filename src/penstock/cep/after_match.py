"""What happens to other matches after a match: the five skip strategies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from penstock.cep.errors import MalformedPatternError, SkipTargetError

NO_SKIP = "no_skip"
TO_NEXT = "skip_to_next"
PAST_LAST = "skip_past_last_event"
TO_FIRST = "skip_to_first"
TO_LAST = "skip_to_last"


@dataclass(frozen=True)
class AfterMatchSkipStrategy:
    """Which partial and complete matches are discarded once a match is emitted.

    Matches are compared by their first event. With every strategy but `no_skip`, a complete match is emitted when no
    partial match is left that began before it: it might be discarded by one of them. In a pattern without `within`,
    it may wait forever. Source: Flink docs, "Event Processing (CEP)", After Match Skip Strategy.
    """

    kind: str
    step_name: str | None = None
    throws_on_miss: bool = False

    @staticmethod
    def no_skip() -> AfterMatchSkipStrategy:
        """Emit every match. The default."""
        return AfterMatchSkipStrategy(NO_SKIP)

    @staticmethod
    def skip_to_next() -> AfterMatchSkipStrategy:
        """Discard matches that begin with the same event as the match."""
        return AfterMatchSkipStrategy(TO_NEXT)

    @staticmethod
    def skip_past_last_event() -> AfterMatchSkipStrategy:
        """Discard matches that begin at or before the last event of the match."""
        return AfterMatchSkipStrategy(PAST_LAST)

    @staticmethod
    def skip_to_first(step_name: str) -> AfterMatchSkipStrategy:
        """Discard matches that begin before the first event of the step `step_name` in the match."""
        return AfterMatchSkipStrategy(TO_FIRST, _named(step_name))

    @staticmethod
    def skip_to_last(step_name: str) -> AfterMatchSkipStrategy:
        """Discard matches that begin before the last event of the step `step_name` in the match."""
        return AfterMatchSkipStrategy(TO_LAST, _named(step_name))

    def throw_exception_on_miss(self) -> AfterMatchSkipStrategy:
        """Fail the job, rather than skip nothing, if the match has no event of the step or begins with that event.

        Raises MalformedPatternError for a strategy other than `skip_to_first` and `skip_to_last`.
        """
        if self.step_name is None:
            raise MalformedPatternError(
                f"throw_exception_on_miss() applies to skip_to_first and skip_to_last, got {self.kind}"
            )
        return replace(self, throws_on_miss=True)

    @property
    def skips(self) -> bool:
        """Whether a match discards others."""
        return self.kind != NO_SKIP

    def last_discarded(self, taken: Iterable[tuple[str, int]]) -> int:
        """Return the number of the last event with which a discarded match begins; -1 if none is discarded.

        Args:
            taken: the match, in order: the step that took an event, and the event's number.

        Raises:
            SkipTargetError: the match lacks the event to skip to, and `throw_exception_on_miss` is set.
        """
        events = list(taken)
        first = events[0][1]
        if self.kind == TO_NEXT:
            return first
        if self.kind == PAST_LAST:
            return events[-1][1]
        numbers = [number for name, number in events if name == self.step_name]
        if not numbers:
            if self.throws_on_miss:
                raise SkipTargetError(
                    f"{self.kind}('{self.step_name}'): the match has no event of that step, only of "
                    f"{', '.join(dict.fromkeys(name for name, _ in events))}. Skip to a step that is not optional, "
                    "or leave out throw_exception_on_miss()"
                )
            return -1
        target = numbers[0] if self.kind == TO_FIRST else numbers[-1]
        if self.throws_on_miss and target == first:
            raise SkipTargetError(
                f"{self.kind}('{self.step_name}'): the match begins with that event, so nothing would be skipped. Skip "
                "to a later step, or leave out throw_exception_on_miss()"
            )
        return target - 1


def _named(step_name: object) -> str:
    if not isinstance(step_name, str) or not step_name:
        raise MalformedPatternError(f"expected the name of a step to skip to, got {step_name!r}")
    return step_name
