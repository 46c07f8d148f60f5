"""`with_broadcast_set`: functions that see all records of another stream in a superstep."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from penstock.datastream.arguments import check_parameters
from penstock.datastream.data_stream import DataStream
from penstock.datastream.functions import CoProcessFunction
from penstock.iteration.arguments import check_stream, is_in_supersteps
from penstock.iteration.listener import IterationListener

T = TypeVar("T")
B = TypeVar("B")
R = TypeVar("R")


def with_broadcast_set(
    stream: DataStream[T], broadcast_set: DataStream[B], function: Callable[[list[T], list[B]], Iterable[R]]
) -> DataStream[R]:
    """Call `function` at the end of each superstep, in each subtask, and emit what it returns.

    It gets the records of `stream` that the subtask has in this superstep, and all records of `broadcast_set` in this
    superstep. Both lists may be empty. The records of a subtask wait in its memory until the superstep ends. Raises
    TypeError for another kind of function, ValueError if neither stream comes from an iteration. Source: Flink,
    DataSet.withBroadcastSet and mapPartition.
    """
    check_stream("with_broadcast_set", stream)
    check_stream("with_broadcast_set", broadcast_set)
    if not callable(function):
        raise TypeError(f"expected a function of two lists for with_broadcast_set, got {function!r}")
    check_parameters(function, _as_called, "the function")
    if not (is_in_supersteps(stream) or is_in_supersteps(broadcast_set)):
        raise ValueError(
            "with_broadcast_set needs a stream of a structured iteration, because it calls the function at the end of "
            "supersteps; elsewhere use the broadcast state pattern: stream.connect(other.broadcast(descriptor))"
        )
    connected = stream.connect(broadcast_set.broadcast())
    return connected.process(_WithBroadcastSet(function)).name("With broadcast set")


def _as_called(self: Any, records: list[Any], broadcast_set: list[Any]) -> Iterable[Any] | None:
    """Stand for the functions that `with_broadcast_set` accepts."""


class _WithBroadcastSet(CoProcessFunction[Any, Any, Any], IterationListener):
    """Gathers the records of a superstep. It is empty where snapshots are taken, between two supersteps."""

    def __init__(self, function: Callable[[list[Any], list[Any]], Iterable[Any]]) -> None:
        self._function = function
        self._records = _BySuperstep()
        self._broadcast = _BySuperstep()

    def process_element1(self, value: Any, ctx: Any) -> None:
        self._records.add(ctx.timestamp(), value)

    def process_element2(self, value: Any, ctx: Any) -> None:
        self._broadcast.add(ctx.timestamp(), value)

    def on_epoch_watermark_incremented(self, epoch_watermark: int, context: Any) -> Iterable[Any]:
        return self._function(self._records.take(epoch_watermark), self._broadcast.take(epoch_watermark))


class _BySuperstep:
    """Records by superstep: with slack, those of a later one may come before this one has ended."""

    def __init__(self) -> None:
        self._waiting: defaultdict[int, list[Any]] = defaultdict(list)

    def add(self, superstep: int | None, record: Any) -> None:
        """Add a record. None: a timer in processing time has emitted it."""
        self._waiting[superstep or 0].append(record)

    def take(self, superstep: int) -> list[Any]:
        """Remove and return the records up to a superstep."""
        ended = sorted(number for number in self._waiting if number <= superstep)
        return [record for number in ended for record in self._waiting.pop(number)]
