"""The solution set of a delta iteration: keyed state, which messages are grouped with."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from penstock.api.functions.function import Function
from penstock.api.output_tag import OutputTag
from penstock.api.runtime_context import RuntimeContext
from penstock.api.state.descriptors import ValueStateDescriptor
from penstock.common.constants import MAX_TIMESTAMP
from penstock.datastream.arguments import as_function, as_two_functions
from penstock.datastream.connected_streams import two_input_stream
from penstock.datastream.data_stream import DataStream
from penstock.datastream.functions import KeyedCoProcessFunction
from penstock.datastream.keyed_stream import KeyedStream
from penstock.datastream.next_call import Unfinished
from penstock.engine.runtime.operators.solution_set import SolutionSetOperator
from penstock.engine.runtime.task.context import shortened
from penstock.iteration.arguments import check_stream

E = TypeVar("E")
W = TypeVar("W")
SOLUTION: OutputTag[Any] = OutputTag("(iteration) solution set")


class SolutionSetFunction(Function):
    """A function of `SolutionSet.co_group` with a runtime context: for aggregators, metrics, the superstep number."""

    @abstractmethod
    def co_group(self, key: Any, entry: Any, messages: list[Any]) -> Any:
        """Return the new entry of `key` from its entry (None: there is none) and the messages of the superstep.

        None changes nothing.
        """


class SolutionSet(Unfinished, Generic[E]):
    """The solution set of a delta iteration. Created by `iterate_delta`."""

    next_call = "co_group(messages, function, key=...)"

    def __init__(
        self, initial: DataStream[E], key: Callable[[E], Any], deferred_delta: DataStream[E] | None = None
    ) -> None:
        self._initial = initial
        self._key = key
        self._deferred_delta = deferred_delta
        self.changes: DataStream[E] | None = None
        """The changed entries; None before `co_group` is called."""
        self._grouped: list[DataStream[Any]] = []
        """What `co_group` has returned. It has to be in the supersteps, even if it is not fed back."""

    def co_group(
        self,
        messages: DataStream[W],
        function: Callable[[Any, E | None, list[W]], E | None] | SolutionSetFunction,
        *,
        key: Callable[[W], Any],
    ) -> DataStream[E]:
        """Group messages of each superstep with the entry of their `key`. Return the changed entries.

        At the end of a superstep `function(key, entry, messages)` is called for each key that has messages, in no
        particular order; `entry` is None for a new key. It returns the new entry, or None to change nothing; to
        change `entry` in place has no certain effect. In a deferred iteration (`iterate_delta`) it changes nothing:
        what it returns, of any type, is only emitted. Raises ValueError if it was called before and the iteration is
        not deferred, and TypeError for another kind of function. The job fails if the new entry has another key.
        """
        as_function(function, "co_group", SolutionSetFunction)
        check_stream("co_group", messages)
        if self._deferred_delta is not None:
            entries = self._initial.union(self._deferred_delta).key_by(self._key)
            read = _answered(entries, messages.key_by(key), _ReadEntries(function))
            self._grouped.append(read)
            return read
        if self.changes is not None:
            raise ValueError(
                "a solution set is grouped with one stream of messages: union them, or begin the iteration with "
                "iterate_delta(deferred=True)"
            )
        entries = self._initial.key_by(self._key)
        self.changes = _answered(entries, messages.key_by(key), _Entries(function, entries.key_selector))
        self._grouped.append(self.changes)
        return self.changes


def last_entries(initial: DataStream[E], deltas: DataStream[E], key: Callable[[E], Any]) -> DataStream[E]:
    """Return the newest entry of each key: of the last superstep in `deltas` that has one, or else an initial one."""
    return initial.key_by(key).connect(deltas.key_by(key)).process(_LastEntries()).name("Solution set at the end")


def _answered(
    entries: KeyedStream[Any, Any], messages: KeyedStream[Any, Any], function: _ReadEntries
) -> DataStream[Any]:
    name, methods = "Solution set", ("process_element1", "process_element2")
    first, second = as_two_functions(function, methods, KeyedCoProcessFunction)
    selectors = entries.key_selector, messages.key_selector
    operator = SolutionSetOperator(name, *selectors, function=first, second=second)
    return two_input_stream(name=name, stream1=entries, stream2=messages, operator=operator, output_type=None)


class _ReadEntries(KeyedCoProcessFunction[Any, Any, Any, Any]):
    """Holds the entry of each key. Returns what the function returns for the messages of a superstep."""

    def __init__(self, function: Callable[[Any, Any, list[Any]], Any] | SolutionSetFunction) -> None:
        self._function = function

    def open(self, runtime_context: RuntimeContext) -> None:
        self._entry = runtime_context.get_state(ValueStateDescriptor("entry"))
        function = self._function
        if isinstance(function, SolutionSetFunction):
            function.open(runtime_context)
            self._call: Callable[[Any, Any, list[Any]], Any] = function.co_group
        else:
            self._call = function

    def close(self) -> None:
        if isinstance(self._function, SolutionSetFunction):
            self._function.close()

    def process_element1(self, value: Any, ctx: Any) -> None:
        self._entry.update(value)

    def process_element2(self, value: Any, ctx: Any) -> None:
        raise AssertionError("the operator groups messages")

    def co_group(self, key: Any, messages: list[Any], ctx: Any) -> Any:
        """Answer the messages of a superstep to a key, which is the current one."""
        return self._call(key, self._entry.value(), messages)


class _Entries(_ReadEntries):
    """Makes what the function returns the new entry. Emits all entries when the iteration has ended."""

    def __init__(
        self, function: Callable[[Any, Any, list[Any]], Any] | SolutionSetFunction, key_of: Callable[[Any], Any]
    ) -> None:
        super().__init__(function)
        self._key_of = key_of

    def process_element1(self, value: Any, ctx: Any) -> None:
        self._entry.update(value)
        ctx.timer_service().register_event_time_timer(MAX_TIMESTAMP)

    def co_group(self, key: Any, messages: list[Any], ctx: Any) -> Any:
        before = self._entry.value()
        changed = self._call(key, before, messages)
        if changed is not None:
            if (found := self._key_of(changed)) != key:
                raise ValueError(
                    f"the function of co_group returned {shortened(changed)} for the key {shortened(key)}, but by the "
                    f"key of iterate_delta that is an entry of {shortened(found)}: return the new entry of the key, "
                    "or None, and feed messages to other keys back in the workset"
                )
            self._entry.update(changed)
            if before is None:
                # It fires when the iteration has ended: then the entry leaves.
                ctx.timer_service().register_event_time_timer(MAX_TIMESTAMP)
        return changed

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        yield SOLUTION, self._entry.value()


class _LastEntries(KeyedCoProcessFunction[Any, Any, Any, Any]):
    """It is behind the iteration, so records of several supersteps may arrive in any order."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._last = runtime_context.get_state(ValueStateDescriptor("last"))

    def process_element1(self, value: Any, ctx: Any) -> None:
        self._offer(-1, value, ctx)

    def process_element2(self, value: Any, ctx: Any) -> None:
        # The last delta leaves as the iteration's result, without a timestamp.
        superstep = ctx.timestamp()
        self._offer(MAX_TIMESTAMP if superstep is None else superstep, value, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        last = self._last.value()
        assert last is not None, "the timer of a key without an entry"
        yield last[1]

    def _offer(self, superstep: int, entry: Any, ctx: Any) -> None:
        last = self._last.value()
        if last is None or last[0] <= superstep:
            self._last.update((superstep, entry))
        ctx.timer_service().register_event_time_timer(MAX_TIMESTAMP)
