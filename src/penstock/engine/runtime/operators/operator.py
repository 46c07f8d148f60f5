"""What every operator is: chunks in, chunks out, and a cursor where work may be more than a step can do.

Chunks are parallel lists, `values` and `timestamps` (None: the stream has none). They are shared, never changed in
place: a fork passes the same lists to all branches.

Values are never changed after they were emitted: an operator that emits a user's value emits its `own` copy. So an
operator owns what it is given, unless the chain forks (`task/chain.py` copies there).

Pausing: a call that emits something takes ALL of it, and returns False when its caller should stop for now. An
operator that has work left then stores its cursor, sets `paused` and returns False too; the task calls `resume` in its
next step. Nothing new is given to an operator while it, or one after it in the chain, is paused. An operator that can't
go on before a call has ended is `waiting` besides, and the task sleeps until then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from penstock.api.output_tag import OutputTag, tags_exist
from penstock.common.values.copies import own_copy

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.function import UserFunction
    from penstock.engine.runtime.operators.pickled import Pickled
    from penstock.engine.runtime.task.context import OperatorContext
    from penstock.engine.runtime.task.metrics import OperatorMetricGroup
    from penstock.engine.state.backends.backend import KeyedStateBackend
    from penstock.engine.state.operator_state import NamedList
    from penstock.engine.state.schema import TableSchema
    from penstock.engine.state.tables import Table


Values = list[Any]
Timestamps = list[int] | None


class Output(Protocol):
    """Where an operator emits: the next operators of its chain, and the edges that leave the vertex."""

    def emit(self, values: Values, timestamps: Timestamps) -> bool:
        """Emit a chunk. False: stop for now."""

    def emit_side(self, tag: OutputTag[Any], values: Values, timestamps: Timestamps) -> bool:
        """Emit a chunk to a side output; it is dropped if the side output is not read."""

    def watermark(self, timestamp: int) -> bool:
        """Emit a watermark (ms)."""

    def status(self, active: bool) -> bool:
        """Emit whether this stream takes part in event time. False: stop for now."""


class Input(Protocol):
    """One input of an operator, for what feeds it: channels of the task, or the operator before it in the chain."""

    @property
    def process(self) -> Callable[[Values, Timestamps], bool]:
        """Takes a chunk."""

    def watermark(self, timestamp: int) -> bool:
        """Event time on this input reached `timestamp` (ms)."""

    def status(self, active: bool) -> bool:
        """This input became idle or active."""

    def end_input(self) -> bool:
        """No more records come on this input."""


class FunctionPlace(NamedTuple):
    """Where an operator holds a function of the user's that another may take the place of while the job runs."""

    owner: Any
    attribute: str
    has_keyed_state: bool = False
    """Whether the function may ask for keyed state in `open`."""
    is_opened: bool = True
    """Whether its life cycle is that of the place: of two methods of one object, one."""

    @property
    def function(self) -> UserFunction:
        """The one that is there now."""
        function: UserFunction = getattr(self.owner, self.attribute)
        return function

    def put(self, function: UserFunction) -> None:
        """Put another one there."""
        setattr(self.owner, self.attribute, function)


class Operator:
    """Built by the API on the driver and pickled unopened; each subtask works on a copy of its own."""

    paused = False
    waiting = False
    """Paused until something comes that it waits for, or a time: to resume it before does nothing."""
    context: OperatorContext
    output: Output
    holds_functions = False
    """Whether calls of its functions are under way while a barrier passes: they can't be replaced."""
    keeps_values = False
    """Whether it keeps what it is given beyond the call: a sink, a window."""
    metrics: OperatorMetricGroup | None = None
    """Those of a connector; a user's function has its own."""
    is_sink = False
    """Whether values leave the job here: those of a declared type become ones of it before."""
    captured: Pickled | None = None
    """The operator as it was in the call that made it, which is what workers get. None: as it is on submission."""
    set_on_submission: tuple[str, ...] = ("name",)
    """Attributes that the program may set after that call."""
    own: Callable[[Any], Any] = staticmethod(own_copy)
    """What a value becomes when it is emitted: a copy, if a function could still change it. With
    `pipeline.object-reuse`, and unless the value leaves the chain, the value itself. Loops over a user's function call
    it for each value before they call the function again, but for those whose types say that it is not needed."""

    def __init__(self, name: str) -> None:
        self.name = name

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Called once in the subtask, before anything else."""
        self.context = context
        self.output = output

    def open(self) -> None:
        """Called once before the first record: calls the user's `open`."""

    def inputs(self) -> Sequence[Input]:
        """Its inputs, after `setup`. An operator with one input is that input itself."""
        return (self,)

    def function_places(self) -> Sequence[FunctionPlace]:
        """Where it holds functions of the user's that are called for records."""
        return ()

    def functions_replaced(self) -> None:
        """Other functions are in their places, and are open: compute what follows from them."""

    def process(self, values: Values, timestamps: Timestamps) -> bool:
        """Take a chunk."""
        raise NotImplementedError

    def watermark(self, timestamp: int) -> bool:
        """Event time, over all inputs, reached `timestamp` (ms): act on it, then emit it."""
        self.context.counters.watermark = timestamp
        return self.output.watermark(timestamp)

    def status(self, active: bool) -> bool:
        """The stream became idle (all of its inputs are) or active: emit the status."""
        return self.output.status(active)

    def end_input(self, index: int = 0) -> bool:
        """No more records come on input `index`. After the last of them, `finish` follows."""
        return True

    def wake_at_ms(self) -> int | None:
        """The next processing time (ms) at which to call `processing_time`; None: none."""
        return None

    def processing_time(self, now_ms: int) -> bool:
        """Processing time reached `now_ms`: fire what is due."""
        return True

    @property
    def in_flight(self) -> bool:
        """Whether it holds records that it will emit without further input, once calls for them have ended."""
        return False

    def finish(self) -> bool:
        """No more records come on any input: emit what is still buffered."""
        return True

    def prepare_snapshot(self, checkpoint_id: int, savepoint: bool) -> list[Any]:
        """A barrier has arrived, and state is about to be frozen. Returns what a sink commits on completion."""
        return []

    def keyed_tables(self) -> dict[str, Table]:
        """Its keyed state, by name."""
        return {}

    def queryable_states(self) -> dict[str, str]:
        """By the names under which its states are queried from outside: the table of each."""
        return {}

    def keyed_schemas(self) -> dict[str, TableSchema]:
        """Kinds and types of those tables that users' functions have named."""
        return {}

    def restored_table(self, name: str, schema: str) -> Table | None:
        """The table into which keyed state of that name is restored, before `open`; None: there is none."""
        return None

    def keyed_backend(self) -> KeyedStateBackend | None:
        """The backend of its keyed state; None: it has none."""
        return None

    def lists(self) -> list[NamedList]:
        """Its operator state: lists by name, and how their items are redistributed on restore."""
        return self.context.operator_states.lists()

    def restore_lists(self, lists: list[NamedList]) -> None:
        """Restore operator state, before `open`. Called whenever the operator is restored, even without any list."""
        self.context.operator_states.restore(lists)

    def checkpoint_complete(self, checkpoint_id: int) -> None:
        """Checkpoint `checkpoint_id` is complete."""
        for function in self.context.functions:
            function.checkpoint_complete(self.context, checkpoint_id)

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Checkpoint `checkpoint_id` was aborted."""
        for function in self.context.functions:
            function.checkpoint_aborted(self.context, checkpoint_id)

    def compact(self) -> bool:
        """Compact a few entries of layers that snapshots have frozen. False: there is nothing left to compact."""
        return False

    def combiner(self) -> Operator | None:
        """Batched mode: an operator that combines records before they are sent to this one; None: it can't be done."""
        return None

    def resume(self) -> bool:
        """Continue with the work that was left when the operator paused."""
        raise AssertionError(f"{self.name} was resumed but never pauses")

    def job_ended(self) -> None:
        """Called once before `close`, if the job ends as it should: what belongs to no checkpoint leaves now."""

    def close(self) -> None:
        """Called once at the very end, also after a failure or a cancellation: calls the user's `close`."""

    def dispose(self) -> None:
        """Called once when all operators of the chain are closed: releases what holds state."""


def positions_taken(values: Sequence[Any], rest: Any) -> int:
    """Index of the element that `rest`, a list iterator over `values`, gave last: the one a function failed on."""
    left: int = rest.__length_hint__()
    return len(values) - left - 1


# Side outputs: a function emits `(tag, value)` beside its plain values; here they are separated.
#
# In PyFlink map, flat_map and the functions of connected streams are process functions, so all of these may do so.

_FIRST = itemgetter(0)


def emit_tagged(output: Output, values: Values, timestamps: Timestamps) -> bool:
    """Emit a chunk in which pairs of an OutputTag and a value go to that side output.

    While no OutputTag has been made in this process, none can be in the chunk, and values are not inspected.
    """
    if not (tags_exist() and _has_tagged(values)):
        return output.emit(values, timestamps)
    main: list[int] = []
    sides: dict[OutputTag[Any], list[int]] = {}
    for index, value in enumerate(values):
        if type(value) is tuple and len(value) == 2 and isinstance(value[0], OutputTag):
            sides.setdefault(value[0], []).append(index)
        else:
            main.append(index)
    go_on = True
    for tag, indices in sides.items():
        times = None if timestamps is None else [timestamps[i] for i in indices]
        go_on = output.emit_side(tag, [values[i][1] for i in indices], times) and go_on
    times = None if timestamps is None else [timestamps[i] for i in main]
    return output.emit([values[i] for i in main], times) and go_on


def _has_tagged(values: Values) -> bool:
    """Whether there may be pairs of an OutputTag and a value: one look at each type, without a loop in Python."""
    types = set(map(type, values))
    if tuple not in types:
        return False
    tuples = values if len(types) == 1 else [value for value in values if type(value) is tuple]
    try:
        return any(issubclass(first, OutputTag) for first in set(map(type, map(_FIRST, tuples))))
    except IndexError:
        return True
