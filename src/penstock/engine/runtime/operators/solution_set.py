"""The solution set of a delta iteration: messages of a superstep are grouped by key, and meet the entry of their key.

Messages are not in state: where snapshots are taken, between two supersteps, none waits. A chunk of messages costs no
call per message, and a key has no timer for each superstep.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.api.timers import TimeDomain
from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.chunks import Rows, Timestamps, Values
from penstock.engine.runtime.operators.two_inputs import KeyedCoProcessOperator
from penstock.engine.state.keys import encode_key

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext

_PLAIN = frozenset((int, str))
"""The types of most keys, which are their own place."""
_CALLS_PER_CLOCK_READING = 8


class Messages:
    """The messages of a superstep, by key."""

    def __init__(self) -> None:
        self._groups: defaultdict[Any, Values] = defaultdict(list)
        self._keys: dict[bytes, Any] = {}
        """encoded key -> key, of those that are not plain."""

    def add(self, keys: list[Any], values: Values) -> None:
        """Add messages; `keys` has the key of each."""
        groups = self._groups
        if not _PLAIN.issuperset(map(type, keys)):
            keys = [key if type(key) in _PLAIN else self._place_of(key) for key in keys]
        for group, value in zip(map(groups.__getitem__, keys), values, strict=True):
            group.append(value)

    def _place_of(self, key: Any) -> Any:
        """Return where messages to a key wait: equal keys have one place, such as 1, True and 1.0."""
        if isinstance(key, str):
            return str.__str__(key)
        encoded = encode_key(key)
        if encoded.startswith(b"I"):
            return int(key)
        self._keys.setdefault(encoded, key)
        return encoded

    def __iter__(self) -> Iterator[tuple[Any, Values]]:
        """Yield each key with its messages."""
        for place, messages in self._groups.items():
            yield self._keys[place] if type(place) is bytes else place, messages


class SolutionSetOperator(KeyedCoProcessOperator):
    """Calls `co_group(key, messages, ctx)` of the function's object for each key with messages, when a superstep ends.

    The first input has entries, the second one messages.
    """

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._waiting: defaultdict[int, Messages] = defaultdict(Messages)
        """By superstep: with slack, messages of a later one may come before."""
        self._due: Iterator[tuple[int, Any, Values]] | None = None

    @property
    def holds_superstep(self) -> bool:
        return bool(self._waiting)

    def process_second(self, chunk: Rows) -> bool:
        keys, times = self.keys_of(chunk.values, self.second_key_selector), chunk.timestamps
        assert times is not None, "a message without a superstep"
        first = times[0]
        if times.count(first) == len(times):
            self._waiting[first].add(keys, chunk.values)
        else:
            for superstep, key, value in zip(times, keys, chunk.values, strict=True):
                self._waiting[superstep].add([key], [value])
        return True

    def _gather_fired(self, domain: TimeDomain, until: int, *, outputs: Values, times: Timestamps, limit: int) -> bool:
        if domain is TimeDomain.EVENT_TIME and times is not None and self._answer(until, outputs, times, limit):
            return True
        return super()._gather_fired(domain, until, outputs=outputs, times=times, limit=limit)

    def _answer(self, until: int, outputs: Values, times: list[int], limit: int) -> bool:
        """Answer the messages of supersteps up to `until`. True: a chunk is full, and there may be more."""
        if self._due is None:
            self._due = self._take(until)
        co_group, may_continue = self.function.users_object.co_group, self.context.budget.may_continue
        backend, copy, ctx = self.backend, self.copy_value, self._ctx
        for calls, (superstep, key, messages) in enumerate(self._due, start=1):
            backend.key = key
            try:
                result = co_group(key, messages, ctx)
            except RAISED as error:
                raise self.context.user_error(error, self.timer_method, key=key, timestamp=superstep) from error
            if result is not None:
                outputs.append(copy(result))
                times.append(superstep)
            if len(outputs) >= limit or (calls % _CALLS_PER_CLOCK_READING == 0 and not may_continue()):
                return True
        self._due = None
        return False

    def _take(self, until: int) -> Iterator[tuple[int, Any, Values]]:
        for superstep in sorted(number for number in self._waiting if number <= until):
            for key, messages in self._waiting.pop(superstep):
                yield superstep, key, messages
