"""Run the split enumerators of one attempt, which assign splits to readers.

They are users' code and run on the JobMaster's thread; slow calls run on another thread by `call_async`. Their state is
captured when a checkpoint is triggered; since assignments and triggers are sent in order, a split is either in a
reader's snapshot or still in its enumerator's. Source: Flink, FLIP-27.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from penstock.api.source import Source, SplitEnumerator
from penstock.common.errors import PenstockError, SourceError, UserFunctionError, class_names
from penstock.common.errors.user_traceback import user_traceback
from penstock.common.functions.user_calls import RAISED, pass_on_ctrl_c
from penstock.common.time import returned_time_ms
from penstock.engine.plan.job_graph import JobVertex
from penstock.engine.runtime.task.events import AssignSplits, ControlEvent, NoMoreSplits, Opaque

SendToTask = Callable[[int, int, ControlEvent], None]
MakeCall = Callable[[int, Callable[[], Any]], None]
"""Make a call on another thread. Its outcome arrives with its number."""
Handler = Callable[[Any, Exception | None], None]


class SplitEnumerators:
    """The enumerators of `sources`. `not_closed` gets the error of an enumerator that fails to close."""

    def __init__(
        self,
        sources: Sequence[JobVertex],
        send: SendToTask,
        make_call: MakeCall,
        now_ms: int,
        not_closed: Callable[[BaseException], None] = lambda error: None,
    ) -> None:
        self.now_ms = now_ms
        """Processing time, set by the JobMaster."""
        self._sources = sources
        self._names = {vertex.id: vertex.nodes[0].name for vertex in sources}
        self._send = send
        self._discover_at_ms: dict[int, int] = {}
        self._make_call = make_call
        self._not_closed = not_closed
        self._calls = itertools.count(1)
        self._handlers: dict[int, tuple[int, Handler]] = {}
        """Vertex and handler of pending calls, by their number."""
        self._first_calls: set[int] = set()
        """Pending calls that `start` made."""
        self._enumerators: dict[int, SplitEnumerator] = {}

    def start(self, states: dict[int, Any]) -> None:
        """Create and start the enumerators. `states`: their restored state, by vertex.

        Raises SourceError if a source has nothing to read.
        """
        for vertex in self._sources:
            source: Source[Any] = vertex.source
            context = _EnumeratorContext(self, vertex.id, vertex.parallelism, self._send)
            if vertex.id in states:
                with self._errors_named(vertex.id, "restore_enumerator"):
                    self._enumerators[vertex.id] = source.restore_enumerator(context, states[vertex.id])
            else:
                with self._errors_named(vertex.id, "create_enumerator"):
                    self._enumerators[vertex.id] = source.create_enumerator(context)
        for id, enumerator in self._enumerators.items():
            with self._errors_named(id, "start"):
                enumerator.start()
        self._first_calls = set(self._handlers)
        self._started()

    @property
    def is_starting(self) -> bool:
        """Whether a call that an enumerator made in its `start` is pending."""
        return bool(self._first_calls)

    def _started(self) -> None:
        if not self._first_calls:
            for vertex in self._enumerators:
                self._discover(vertex)

    def call_async(self, vertex: int, call: Callable[[], Any], handler: Handler) -> None:
        """Make a call of an enumerator on another thread."""
        number = next(self._calls)
        self._handlers[number] = vertex, handler
        self._make_call(number, call)

    def call_ended(self, number: int, value: Any, error: Exception | None) -> None:
        """Pass the outcome of a call to its handler."""
        # The handler first: tasks are deployed after it has processed the result.
        vertex, handler = self._handlers.pop(number)
        with self._errors_named(vertex, f"the handler {getattr(handler, '__qualname__', handler)} of call_async"):
            handler(value, error)
        if number in self._first_calls:
            self._first_calls.remove(number)
            self._started()

    def split_requested(self, vertex: int, subtask: int) -> None:
        """Pass a reader's request for a split to its enumerator."""
        with self._errors_named(vertex, "handle_split_request"):
            self._enumerators[vertex].handle_split_request(subtask)

    def states(self) -> dict[int, Any]:
        """Return the enumerators' states for a checkpoint, by vertex."""
        states = {}
        for vertex, enumerator in self._enumerators.items():
            with self._errors_named(vertex, "snapshot_state"):
                states[vertex] = enumerator.snapshot_state()
        return states

    def discover_due(self) -> None:
        """Call `discover` of the enumerators for which it is due."""
        for vertex in [vertex for vertex, at_ms in self._discover_at_ms.items() if at_ms <= self.now_ms]:
            self._discover(vertex)

    def wake_at_ms(self) -> int | None:
        """Return when the next `discover` is due, or None."""
        return min(self._discover_at_ms.values(), default=None)

    def close(self) -> None:
        """Close each enumerator once. Report errors, which do not keep the job from ending or restarting."""
        while self._enumerators:
            # Removed before the call, so that an enumerator that fails to close is not closed again.
            _, enumerator = self._enumerators.popitem()
            try:
                enumerator.close()
            except RAISED as error:
                pass_on_ctrl_c(error)
                self._not_closed(error)

    def _discover(self, vertex: int) -> None:
        with self._errors_named(vertex, "discover"):
            enumerator = self._enumerators[vertex]
            at_ms = returned_time_ms(enumerator.discover(), f"{type(enumerator).__name__}.discover")
        if at_ms is None:
            self._discover_at_ms.pop(vertex, None)
        else:
            self._discover_at_ms[vertex] = at_ms

    @contextlib.contextmanager
    def _errors_named(self, vertex: int, method: str) -> Iterator[None]:
        """Add the source, the method and the user's traceback to errors of users' code."""
        try:
            yield
        except SourceError as error:
            raise SourceError(f"source '{self._names[vertex]}': {error}") from error
        except PenstockError:
            raise
        except RAISED as error:
            pass_on_ctrl_c(error)
            raise UserFunctionError(
                f"split enumerator of source '{self._names[vertex]}', in {method}\n{user_traceback(error)}",
                class_names(error),
            ) from error


class _EnumeratorContext:
    """The EnumeratorContext of one enumerator."""

    def __init__(self, enumerators: SplitEnumerators, vertex: int, parallelism: int, send: SendToTask) -> None:
        self._enumerators = enumerators
        self._vertex = vertex
        self._parallelism = parallelism
        self._send = send

    @property
    def parallelism(self) -> int:
        return self._parallelism

    def now_ms(self) -> int:
        return self._enumerators.now_ms

    def assign_split(self, split: Any, subtask: int) -> None:
        # Pickle here, so that an error is the enumerator's: the thread that sends the message does not know its origin.
        self._send(self._vertex, subtask, AssignSplits(Opaque.pickled([split])))

    def signal_no_more_splits(self, subtask: int) -> None:
        self._send(self._vertex, subtask, NoMoreSplits())

    def call_async(self, call: Callable[[], Any], handler: Handler) -> None:
        self._enumerators.call_async(self._vertex, call, handler)
