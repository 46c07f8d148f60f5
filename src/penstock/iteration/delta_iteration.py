"""`iterate_delta`: iterations with a solution set, of which a superstep changes only what its workset touches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from penstock.api.functions.aggregator import Aggregator, ConvergenceCriterion
from penstock.api.output_tag import OutputTag
from penstock.api.state.descriptors import ListStateDescriptor, ValueStateDescriptor
from penstock.common.constants import MAX_TIMESTAMP
from penstock.datastream.data_stream import DataStream
from penstock.datastream.functions import KeyedCoProcessFunction
from penstock.iteration.superstep_stream import SuperstepStream, iterate

E = TypeVar("E")
W = TypeVar("W")
Key = Callable[[Any], Any]
_SOLUTION: OutputTag[Any] = OutputTag("(iteration) solution set")


def iterate_delta(
    initial_solution: DataStream[E],
    initial_workset: DataStream[W],
    supersteps_max: int | None = None,
    *,
    key: Callable[[E], Any],
    aggregators: Mapping[str, Aggregator[Any]] | None = None,
    criteria: Mapping[str, ConvergenceCriterion[Any]] | None = None,
    name: str = "Delta iteration",
) -> DeltaIteration[E, W]:
    """Begin a delta iteration: a solution set with one entry per `key`, and a workset.

    It ends when a superstep feeds nothing back, and otherwise like `iterate`. Both streams must be bounded. Source:
    Flink's DataSet.iterateDelta.
    """
    workset = iterate(initial_workset, supersteps_max, aggregators=aggregators, criteria=criteria, name=name)
    return DeltaIteration(initial_solution, workset, key)


class DeltaIteration(Generic[E, W]):
    """A delta iteration that is not closed yet: use `workset` and `solution_set` in its step, then `close_with`."""

    def __init__(self, initial_solution: DataStream[E], workset: SuperstepStream[W], key: Callable[[E], Any]) -> None:
        self.workset = workset
        """The workset, superstep by superstep."""
        self.solution_set: SolutionSet[E] = SolutionSet(initial_solution, key)
        """The solution set, which messages change."""

    def close_with(self, delta: DataStream[E], workset: DataStream[W]) -> DataStream[E]:
        """Feed `workset` back. Return the solution set as it is at the end, an entry for each key.

        `delta`: the changes that `solution_set.co_group` has returned, which has applied them. Raises ValueError for
        another stream.
        """
        if self.solution_set.changes is None or delta is not self.solution_set.changes:
            raise ValueError("the delta must be the stream that solution_set.co_group has returned")
        self.workset.close_with(workset)
        return delta.get_side_output(_SOLUTION)


class SolutionSet(Generic[E]):
    """The solution set of a delta iteration: keyed state, changed in place."""

    def __init__(self, initial: DataStream[E], key: Callable[[E], Any]) -> None:
        self._initial = initial
        self._key = key
        self.changes: DataStream[E] | None = None
        """The changed entries; None before `co_group` is called."""

    def co_group(
        self,
        messages: DataStream[W],
        function: Callable[[Any, E | None, list[W]], E | None],
        *,
        key: Callable[[W], Any],
    ) -> DataStream[E]:
        """Group messages of each superstep with the entry of their `key`. Return the changed entries.

        At the end of a superstep `function(key, entry, messages)` is called for each key that has messages, in no
        particular order; `entry` is None for a new key. It returns the new entry, or None to change nothing.
        Raises ValueError if it was called before: union the messages instead.
        """
        if self.changes is not None:
            raise ValueError("a solution set is grouped with one stream of messages: union them")
        entries = self._initial.key_by(self._key)
        self.changes = entries.connect(messages.key_by(key)).process(_Entries(function)).name("Solution set")
        return self.changes


class _Entries(KeyedCoProcessFunction[Any, Any, Any, Any]):
    """Holds the entry of each key, and the messages to it in this superstep."""

    def __init__(self, function: Callable[[Any, Any, list[Any]], Any]) -> None:
        self._function = function

    def open(self, runtime_context: Any) -> None:
        self._entry = runtime_context.get_state(ValueStateDescriptor("entry"))
        self._messages = runtime_context.get_list_state(ListStateDescriptor("messages"))

    def process_element1(self, value: Any, ctx: Any) -> None:
        self._change(value, ctx)

    def process_element2(self, value: Any, ctx: Any) -> None:
        self._messages.add(value)
        ctx.timer_service().register_event_time_timer(ctx.timestamp())

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        if timestamp == MAX_TIMESTAMP:
            yield _SOLUTION, self._entry.value()
            return
        messages = list(self._messages.get())
        self._messages.clear()
        changed = self._function(ctx.get_current_key(), self._entry.value(), messages)
        if changed is not None:
            self._change(changed, ctx)
            yield changed

    def _change(self, entry: Any, ctx: Any) -> None:
        self._entry.update(entry)
        # It fires when the iteration has ended: then each entry leaves.
        ctx.timer_service().register_event_time_timer(MAX_TIMESTAMP)
