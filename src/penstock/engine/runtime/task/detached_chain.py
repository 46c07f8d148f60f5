"""A chain of operators outside of a job: they process batches that another system has, and call the user's functions.

There is no task: no state, no time, no side outputs, and the functions have no life cycle. Errors name operators and
subtasks as those of a task do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from penstock.api.output_tag import OutputTag
from penstock.common.typeinfo import TypeInformation
from penstock.engine.runtime.chunks import Chunk
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.execution_mode import BATCH
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.task.budget import Budget
from penstock.engine.runtime.task.context import OperatorContext, SubtaskInfo, TaskContext
from penstock.engine.runtime.task.metrics import OperatorCounters
from penstock.engine.runtime.task.wiring import TypeBoundary, typed_output
from penstock.engine.state.key_groups import KeyGroups

_MAX_PARALLELISM = 128


class DetachedOperator(NamedTuple):
    """An operator of the program. `name` and `uid`: as the program has set them, for errors."""

    operator: Operator
    name: str
    uid: str = ""
    output_type: TypeInformation | None = None
    """The declared type to which its results are converted; None for columns, which have theirs."""


class Place(NamedTuple):
    """Where a chain runs."""

    subtask: int
    parallelism: int
    now_ms: Callable[[], int]
    clock_ns: Callable[[], int]


class DetachedChain:
    """Operators in a row, from batches of columns to batches of columns. Set up once, used once."""

    def __init__(self, operators: Sequence[DetachedOperator], place: Place) -> None:
        self._results: list[Columns] = []
        self._operators = [one.operator for one in operators]
        receive: Callable[[Any], bool] = self._add
        for one in reversed(operators):
            context = _context(one, place)
            converting = TypeBoundary(context, one.operator, one.output_type).converting(None, receive)
            one.operator.setup(context, typed_output(_Link(converting), context, one.output_type, ()))
            receive = _processing(one.operator)
        self._receive = receive

    def results(self, chunks: Iterable[Columns]) -> Iterator[Columns]:
        """Yield what becomes of the chunks. Raises UserFunctionError for an error of a function."""
        opened: list[Operator] = []
        try:
            for operator in reversed(self._operators):
                operator.open()
                opened.append(operator)
            for chunk in chunks:
                self._receive(chunk)
                yield from self._take()
            for operator in self._operators:
                operator.finish()
                yield from self._take()
        finally:
            for operator in opened:
                operator.close()

    def _add(self, chunk: Columns) -> bool:
        self._results.append(chunk)
        return True

    def _take(self) -> list[Columns]:
        results, self._results[:] = list(self._results), []
        return results


class _Link:
    """Passes chunks to the next operator. Nothing else leaves a detached operator."""

    def __init__(self, receive: Callable[[Any], bool]) -> None:
        self._receive = receive

    def emit(self, chunk: Chunk) -> bool:
        return self._receive(chunk) if len(chunk) else True

    def emit_side(self, tag: OutputTag[Any], chunk: Chunk) -> bool:
        return True

    def watermark(self, timestamp: int) -> bool:
        return True

    def status(self, active: bool) -> bool:
        return True


def _processing(operator: Operator) -> Callable[[Any], bool]:
    # The method is looked up for each chunk: an operator may choose another one as it opens.
    return lambda chunk: operator.process(chunk)


def _context(one: DetachedOperator, place: Place) -> OperatorContext:
    info = SubtaskInfo(
        job_id="",
        vertex_id=0,
        task_name=one.name,
        subtask=place.subtask,
        parallelism=place.parallelism,
        max_parallelism=_MAX_PARALLELISM,
        mode=BATCH,
    )
    task = TaskContext(info, place.now_ms, Budget(place.clock_ns), KeyGroups(_MAX_PARALLELISM))
    return OperatorContext(task, one.name, uid=one.uid, counters=OperatorCounters(one.name))
