"""The base of all operators: chunks in, chunks out, and a cursor where work may exceed a step.

Values are never changed after they were emitted: an operator emits copies of a user's values (`copy_value`). So an
operator owns its input, unless the chain forks (`task/chain.py` copies there).

Pausing: a call that emits a chunk accepts the WHOLE chunk, and returns False when its caller should stop for now. An
operator with work left then stores its cursor, sets `paused` and returns False as well; the task calls `resume` in its
next step. An operator gets no input while it, or an operator after it in the chain, is paused. A paused operator that
can't continue before an asynchronous call has ended is also `waiting`, and the task sleeps until then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from penstock.api.output_tag import OutputTag, tags_exist
from penstock.common.values.copies import independent_copy
from penstock.engine.runtime.chunks import ChunkKind, Rows, Values

if TYPE_CHECKING:
    from penstock.api.sink import Sink
    from penstock.api.source import Source
    from penstock.common.columns.record_columns import RecordColumns
    from penstock.common.watermark_strategy import WatermarkStrategy
    from penstock.engine.runtime.operators.function import UserFunction
    from penstock.engine.runtime.operators.pickled import Pickled
    from penstock.engine.runtime.task.context import OperatorContext
    from penstock.engine.runtime.task.metrics import OperatorMetricGroup
    from penstock.engine.state.backends.backend import KeyedStateBackend
    from penstock.engine.state.operator_state import NamedList
    from penstock.engine.state.schema import TableSchema
    from penstock.engine.state.tables import Table


class Output(Protocol):
    """Receives the output of an operator, for the next operators of its chain and the edges that leave the vertex.

    Chunks have the kind that the operator gives.
    """

    def emit(self, chunk: Any) -> bool:
        """Emit a chunk. False: the caller should stop for now."""

    def emit_side(self, tag: OutputTag[Any], chunk: Any) -> bool:
        """Emit a chunk to a side output; it is dropped if the side output is not read."""

    def watermark(self, timestamp: int) -> bool:
        """Emit a watermark (ms)."""

    def status(self, active: bool) -> bool:
        """Emit whether this stream takes part in event time. False: the caller should stop for now."""


class Input(Protocol):
    """An input of an operator, for its feeder: channels of the task, or the operator before it in the chain."""

    @property
    def process(self) -> Callable[[Any], bool]:
        """The method that processes a chunk."""

    def watermark(self, timestamp: int) -> bool:
        """Process a watermark of this input (ms)."""

    def status(self, active: bool) -> bool:
        """Process the status of this input, which became idle or active."""

    def end_input(self) -> bool:
        """End this input: no more records follow."""


class FunctionPlace(NamedTuple):
    """A place of an operator for a user's function, which an update may replace while the job runs."""

    owner: Any
    attribute: str
    has_keyed_state: bool = False
    """Whether the function may request keyed state in `open`."""
    is_opened: bool = True
    """Whether the function is opened and closed here. If two places have methods of one object, only for one."""

    @property
    def function(self) -> UserFunction:
        """The current function."""
        function: UserFunction = getattr(self.owner, self.attribute)
        return function

    def replace(self, function: UserFunction) -> None:
        """Put another function in this place."""
        setattr(self.owner, self.attribute, function)


class Operator:
    """Base of all operators. The API builds them on the driver; each subtask has a copy, pickled unopened."""

    takes: ClassVar[ChunkKind] = ChunkKind.ROWS
    gives: ClassVar[ChunkKind] = ChunkKind.ROWS
    """The kinds of the chunks that it accepts and emits. The plan inserts conversions where they differ."""
    paused = False
    waiting = False
    """Paused until an event or a time: to resume it earlier has no effect."""
    context: OperatorContext
    output: Output
    holds_functions = False
    """Whether calls of its functions may be in progress while a barrier passes: then they can't be replaced."""
    gives_parts = False
    """Whether it gives parts of results, which are not of the declared type of the stream."""
    keeps_values = False
    """Whether it keeps values beyond the call: a sink, a window."""
    metrics: OperatorMetricGroup | None = None
    """The metrics of a connector; a user's function has metrics of its own."""
    source: Source[Any] | None = None
    """The external system that it reads."""
    sink: Sink[Any] | None = None
    """The external system that it writes to."""
    sink_id: int | None = None
    """The number under which its results leave the task: committables of a sink, or values for the driver."""
    is_sink = False
    """Whether values leave the job here: they are converted to their declared type before."""
    is_before_edge = False
    """Whether it stands for the edge behind it: it is in the chain of its input, and gets values as an edge does."""
    takes_rows_as_well = False
    """Whether an operator on columns also takes rows, where an edge has these."""
    is_keyed = False
    """Whether it has keyed state."""
    strategy: WatermarkStrategy | None = None
    """The strategy of event time that begins here."""
    captured: Pickled | None = None
    """The operator as pickled by the call that created it, for workers. None: as it is on submission."""
    set_on_submission: tuple[str, ...] = ("name",)
    """Attributes that the program may set after that call."""
    copy_value: Callable[[Any], Any] = staticmethod(independent_copy)
    """Copies a value before it is emitted, if a function could still change it. With `pipeline.object-reuse` it returns
    the value itself, unless the value leaves the chain. Loops over a user's function call it for each result before
    they call the function again, except for types that need no copy."""

    def __init__(self, name: str) -> None:
        self.name = name

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Set up the operator in its subtask, once, before all other calls."""
        self.context = context
        self.output = output

    def open(self) -> None:
        """Open the user's functions. Called once before the first record."""

    columns_received: RecordColumns | None = None
    """The columns that it takes."""
    columns_given: RecordColumns | None = None
    """The columns of its output. Side outputs have rows."""
    converts_to: RecordColumns | None = None
    """The columns to which it only converts its records."""

    def local_and_global(self) -> tuple[Operator, Operator] | None:
        """Return operators on columns that aggregate before and behind the exchange in place of this one, if any."""
        return None

    def columns_received_by(self, index: int) -> RecordColumns | None:
        """Return the columns that input `index` takes."""
        return self.columns_received

    def columns_read(self, index: int = 0) -> tuple[str, ...] | None:
        """Return the columns that it reads of those that input `index` receives; None: all."""
        return None

    def event_time_field(self, received: str | None) -> str | None:
        """Return the column that it gives whose values are the timestamps, if any; `received`: that which it gets."""
        return None

    def on_rows(self) -> Operator | None:
        """Return the operator that does the same on rows, for an operator on columns that has one."""
        return None

    def given_columns(self, tag: OutputTag[Any] | None) -> RecordColumns | None:
        """Return the columns of its output, or of a side output; None if it gives rows there."""
        return self.columns_given if tag is None else None

    def inputs(self) -> Sequence[Input]:
        """Return the inputs, after `setup`. An operator with one input is that input itself."""
        return (self,)

    def function_places(self) -> Sequence[FunctionPlace]:
        """Return the places of the user's functions that it calls for records."""
        return ()

    def functions_replaced(self) -> None:
        """Recompute all attributes that depend on the functions, which were replaced and are open."""

    def process(self, chunk: Any) -> bool:
        """Process a chunk of the kind that this operator accepts."""
        raise NotImplementedError

    def watermark(self, timestamp: int) -> bool:
        """Advance event time, over all inputs, to `timestamp` (ms), then emit the watermark."""
        self.context.counters.watermark = timestamp
        return self.output.watermark(timestamp)

    def status(self, active: bool) -> bool:
        """Emit a status: the stream became idle, with all of its inputs, or active."""
        return self.output.status(active)

    def end_input(self, index: int = 0) -> bool:
        """End input `index`: no more records follow. After the last input, `finish` is called."""
        return True

    def awaits_end_of(self, index: int) -> bool:
        """Return whether its results come only when input `index` has ended."""
        return False

    def wake_at_ms(self) -> int | None:
        """Return the next processing time (ms) at which to call `processing_time`, or None."""
        return None

    def processing_time(self, now_ms: int) -> bool:
        """Fire the timers that are due at `now_ms`."""
        return True

    @property
    def in_flight(self) -> bool:
        """Whether it holds records that it will emit without further input, when asynchronous calls have ended."""
        return False

    @property
    def holds_superstep(self) -> bool:
        """Whether it holds records of the superstep that runs, which a snapshot would not contain."""
        return False

    def finish(self) -> bool:
        """Emit buffered results: all inputs have ended."""
        return True

    def prepare_snapshot(self, checkpoint_id: int, savepoint: bool) -> list[Any]:
        """Prepare for a snapshot: state is frozen next. A sink returns its committables."""
        return []

    def return_committables(self, committables: list[Any]) -> None:
        """Take back committables of a snapshot that was never acknowledged."""
        raise AssertionError(f"{self.name} prepares no committables")

    def keyed_tables(self) -> dict[str, Table]:
        """Return the tables of keyed state, by name."""
        return {}

    def queryable_states(self) -> dict[str, str]:
        """Return the names of queryable states, and the table of each."""
        return {}

    def keyed_schemas(self) -> dict[str, TableSchema]:
        """Return kinds and types of the tables that users' functions have declared."""
        return {}

    def restored_table(self, name: str, schema: str) -> Table | None:
        """Return the table into which to restore keyed state of that name, before `open`; None if there is none."""
        return None

    def keyed_backend(self) -> KeyedStateBackend | None:
        """Return the backend of keyed state; None if the operator has no keyed state."""
        return None

    def lists(self) -> list[NamedList]:
        """Return operator state: lists by name, and how their items are redistributed on restore."""
        return self.context.operator_states.lists()

    def restore_lists(self, lists: list[NamedList]) -> None:
        """Restore operator state, before `open`. Called whenever the operator is restored, even without lists."""
        self.context.operator_states.restore(lists)

    def checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notify functions that checkpoint `checkpoint_id` is complete."""
        for function in self.context.functions:
            function.checkpoint_complete(self.context, checkpoint_id)

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notify functions that checkpoint `checkpoint_id` was aborted."""
        for function in self.context.functions:
            function.checkpoint_aborted(self.context, checkpoint_id)

    def compact(self) -> bool:
        """Compact a few entries of frozen layers. False: there is nothing left to compact."""
        return False

    def combiner(self) -> Operator | None:
        """Batched mode: return an operator that combines records before they are sent to this one, if possible."""
        return None

    def resume(self) -> bool:
        """Continue the work that was left when the operator paused."""
        raise AssertionError(f"{self.name} was resumed but never pauses")

    def job_ended(self) -> None:
        """Send committables that belong to no checkpoint. Called once before `close`, if the job ends normally."""

    def close(self) -> None:
        """Close the user's functions. Called once at the end, also after a failure or a cancellation."""

    def dispose(self) -> None:
        """Release state. Called once when all operators of the chain are closed."""


def last_position(values: Sequence[Any], rest: Any) -> int:
    """Return the index of the element that `rest`, a list iterator over `values`, gave last: the one that failed."""
    left: int = rest.__length_hint__()
    return len(values) - left - 1


_FIRST = itemgetter(0)


def emit_tagged(output: Output, chunk: Rows) -> bool:
    """Emit a chunk in which pairs of an OutputTag and a value go to that side output.

    In PyFlink map, flat_map and the functions of connected streams are process functions, so all of them may emit such
    pairs. Values are not inspected until the first OutputTag has been created in this process.
    """
    if not (tags_exist() and _has_tagged(chunk.values)):
        return output.emit(chunk)
    main, may_continue = _emit_sides(output, chunk)
    return output.emit(main) and may_continue


def without_tagged(output: Output, chunk: Rows) -> tuple[Rows, bool]:
    """Emit the pairs of an OutputTag and a value, see `emit_tagged`. Return the rest, and whether to continue."""
    return _emit_sides(output, chunk) if tags_exist() and _has_tagged(chunk.values) else (chunk, True)


def _emit_sides(output: Output, chunk: Rows) -> tuple[Rows, bool]:
    main: list[int] = []
    sides: dict[OutputTag[Any], list[int]] = {}
    for index, value in enumerate(chunk.values):
        if type(value) is tuple and len(value) == 2 and isinstance(value[0], OutputTag):
            sides.setdefault(value[0], []).append(index)
        else:
            main.append(index)
    may_continue = True
    for tag, indices in sides.items():
        pairs = chunk.selected(indices)
        may_continue = (
            output.emit_side(tag, Rows([value for _, value in pairs.values], pairs.timestamps)) and may_continue
        )
    return chunk.selected(main), may_continue


def _has_tagged(values: Values) -> bool:
    """Return whether there may be pairs of an OutputTag and a value: checks each type once, without a Python loop."""
    types = set(map(type, values))
    if tuple not in types:
        return False
    tuples = values if len(types) == 1 else [value for value in values if type(value) is tuple]
    try:
        return any(issubclass(first, OutputTag) for first in set(map(type, map(_FIRST, tuples))))
    except IndexError:
        return True
