"""The superstep that runs, in a task of a structured iteration: its number, its aggregators, the barrier that waits.

In an iteration event time is the number of the superstep: records have it as their timestamp, and watermark n says that
superstep n has ended. So windows of a length of 1, timers, and operators with several inputs work in supersteps as they
do in time. Between tasks a watermark travels as EndOfSuperstep, with what the heads need to decide
(`superstep_feedback.py`). docs/internals/decisions/0049-supersteps.md has the reasons.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence
from typing import Any, Protocol

from penstock.api.functions.aggregator import Aggregator
from penstock.common.errors import ProgramError
from penstock.common.functions.script_functions import dumps
from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.network.buffer import BeginOfSuperstep, Element, EndOfSuperstep
from penstock.engine.runtime.network.edge import EdgeInfo

Aggregators = dict[str, tuple[Aggregator[Any], Any]]
"""Aggregators by name, each with its result of the superstep before."""
NO_AGGREGATORS = b""


def packed(aggregators: Aggregators) -> bytes:
    """Return aggregators as a BeginOfSuperstep carries them."""
    return dumps(aggregators) if aggregators else NO_AGGREGATORS


def aggregate_result(name: str, aggregator: Aggregator[Any], value: Any) -> None:
    """Add the result of another copy of an aggregator. Raises ProgramError if the user's class fails."""
    try:
        aggregator.aggregate(value)
    except RAISED as error:
        raise ProgramError(
            f"the aggregator '{name}' failed when the results of two subtasks were combined, by aggregate() with a "
            f"{type(value).__name__} that get_aggregate() has returned: {type(error).__name__}: {error}"
        ) from error


class Edge(Protocol):
    """An edge that leaves the task."""

    info: EdgeInfo

    def element(self, element: Element) -> None:
        """Add an element to every channel."""


class Supersteps:
    """The superstep that runs in one task.

    If supersteps may run ahead, senders are in different ones. The task is in the oldest that has not ended for it.
    """

    def __init__(self) -> None:
        self.number = -1
        """The superstep that runs, or has run last; -1: none yet."""
        self.has_ended = False
        """Whether the iteration has ended: nothing is fed back any more."""
        self._is_over = True
        """Whether no superstep runs: the last one has ended for this task."""
        self._passed = -1
        """The last superstep whose end has left the task."""
        self._begun: dict[int, bytes] = {}
        """The aggregators that the begin of a superstep carried, for those that have begun before this task."""
        self._aggregators: Aggregators | None = None
        self._partial: dict[str, Aggregator[Any]] = {}
        self._received: dict[int, list[bytes]] = {}
        self._checkpoint: dict[int, int] = {}
        self._open: set[int] = set()

    def begins(self, begin: BeginOfSuperstep, edges: Sequence[Edge]) -> None:
        """Note the begin of a superstep, and tell the next tasks on `edges`, once, before its records."""
        if begin.number <= self.number or begin.number in self._begun:
            return
        self._begun[begin.number] = begin.aggregates
        if self._is_over:
            self._enter(begin.number)
        for edge in edges:
            if edge.info.in_supersteps and (begin.wakes or not edge.info.feedback):
                edge.element(begin)

    def _enter(self, number: int) -> None:
        self._begun = {later: begun for later, begun in self._begun.items() if later >= number}
        self._received = {later: values for later, values in self._received.items() if later >= number}
        self._checkpoint = {later: one for later, one in self._checkpoint.items() if later >= number}
        self._open = {later for later in self._open if later >= number}
        self.number, self._is_over = number, False
        self._aggregators, self._partial = None, {}

    def sender_ended(self, end: EndOfSuperstep) -> None:
        """Note that a sender has ended a superstep."""
        number = end.number
        if end.aggregates:
            self._received.setdefault(number, []).append(end.aggregates)
        if end.is_open:
            self._open.add(number)
        self._checkpoint[number] = min(self._checkpoint.get(number, end.checkpoint), end.checkpoint)

    def passes(self, number: int) -> None:
        """Note that the end of a superstep leaves the task."""
        self._passed = number

    def leave(self) -> None:
        """Enter the next superstep if the end of this one has left the task, and all of its operators."""
        if self._is_over or self._passed < self.number:
            return
        self._is_over = True
        if self.number + 1 in self._begun:
            self._enter(self.number + 1)

    def aggregates(self) -> bytes:
        """Return what this task, and those before it, have aggregated in the superstep, pickled."""
        received = self._received.pop(self.number, [])
        if not self._partial and len(received) <= 1:
            self._received[self.number] = received
            return received[0] if received else b""
        for one in received:
            for name, value in pickle.loads(one).items():
                aggregate_result(name, self.aggregator(name), value)
        return dumps({name: one.get_aggregate() for name, one in self._partial.items()})

    @property
    def holds_aggregates(self) -> bool:
        """Whether something was aggregated in the superstep that runs."""
        return not self._is_over and bool(self._partial or self._received)

    @property
    def checkpoint(self) -> int:
        """The newest checkpoint whose barrier waits at all heads before this task."""
        return self._checkpoint.get(self.number, 0)

    @property
    def is_open(self) -> bool:
        """Whether more input may come to a head before this task."""
        return self.number in self._open

    def aggregator(self, name: str) -> Aggregator[Any]:
        """Return this task's copy of an aggregator for the current superstep. Raises ProgramError if there is none."""
        if name not in self._partial:
            one = copy.deepcopy(self._known(name)[0])
            one.reset()
            self._partial[name] = one
        return self._partial[name]

    def previous_aggregate(self, name: str) -> Any:
        """Return the result of an aggregator in the superstep before; None in the first one."""
        return self._known(name)[1]

    def _known(self, name: str) -> tuple[Aggregator[Any], Any]:
        if self._aggregators is None:
            begun = self._begun.get(self.number)
            self._aggregators = pickle.loads(begun) if begun else {}
        if self.number < 0:
            raise ProgramError(
                f"there is no aggregator '{name}' before the first superstep: ask for it when a record is processed or "
                "a superstep ends, not in open(), because each superstep has a new one"
            )
        if name not in self._aggregators:
            known = ", ".join(map(repr, self._aggregators)) or "none"
            raise ProgramError(f"the iteration has no aggregator '{name}'; those that it was given: {known}")
        return self._aggregators[name]
