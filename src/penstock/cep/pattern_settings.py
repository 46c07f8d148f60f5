"""Settings of a stream of patterns: time, late events, bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.api.output_tag import OutputTag
from penstock.api.state.descriptors import ValueStateDescriptor
from penstock.api.timers import TimeDomain
from penstock.cep.operators.bounds import DISCARD_OLDEST, Bound
from penstock.common.functions.arity import accepts_arguments
from penstock.datastream.arguments import check_output_tag
from penstock.datastream.next_call import Unfinished
from penstock.engine.plan.call_capture import captured_call

if TYPE_CHECKING:
    from typing import Self

T = TypeVar("T")


class PatternSettings(Unfinished, Generic[T]):
    """Base of streams of patterns. In event time."""

    def __init__(self, comparator: Any) -> None:
        self._comparator = _comparison(comparator)
        self._domain = TimeDomain.EVENT_TIME
        self._late_tag: OutputTag[Any] | None = None
        self._bound: Bound | None = None
        self._queryable_name: str | None = None

    def in_processing_time(self) -> Self:
        """Stamp events with the clock when they arrive, and process them at once."""
        self._domain = TimeDomain.PROCESSING_TIME
        return self

    def in_event_time(self) -> Self:
        """Process events in order of their timestamps, up to the watermark. The default."""
        self._domain = TimeDomain.EVENT_TIME
        return self

    def side_output_late_data(self, late_data_output_tag: OutputTag[T]) -> Self:
        """Send late events, at or behind the watermark, to a side output instead of dropping them.

        All events then pass the exchange: which of them are late shows only behind it. Raises TypeError if it is not an
        OutputTag.
        """
        check_output_tag(late_data_output_tag)
        self._late_tag = late_data_output_tag
        return self

    def limit_partial_matches(self, per_key: int, policy: str = DISCARD_OLDEST) -> Self:
        """Bound the partial matches of a key. This is not in Flink.

        An event that a loop takes costs up to `per_key`: patterns with a bound follow all partial matches side by side.

        Args:
            per_key: the most partial matches of a key, of one pattern.
            policy: "discard_oldest" discards those that began first, and counts them; "fail" fails the job.

        Raises:
            MalformedPatternError: for another value.
        """
        self._bound = Bound(per_key, policy)
        return self

    def set_queryable(self, queryable_state_name: str) -> Self:
        """Make the partial matches of a key queryable state, under a name that is unique in the job.

        The value of a key is a list of dicts, in order of the first event: `events`, those of each step as in a match;
        `waits_for`, the steps that may take the next event; `began`, the timestamp of the first event (ms); `ends`,
        when its time is over (ms), or None. With rules, a key has such a list for the id of each rule. They are
        written twice into snapshots. This is not in Flink.

        Raises TypeError or ValueError for a name that is not a text, or empty.
        """
        ValueStateDescriptor("partial matches").set_queryable(queryable_state_name)
        self._queryable_name = queryable_state_name
        return self


def _comparison(comparator: Any) -> Callable[[Any, Any], int] | None:
    """Return the comparator as a function of two events."""
    if comparator is None:
        return None
    compare = getattr(comparator, "compare", comparator)
    if isinstance(comparator, type) or not callable(compare) or not accepts_arguments(compare, 2):
        raise TypeError(f"expected a function of two events, or an EventComparator, got {comparator!r:.100}")
    return captured_call(compare)
