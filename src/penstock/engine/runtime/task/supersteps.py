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
from penstock.engine.runtime.network.buffer import BeginOfSuperstep, Element, EndOfSuperstep
from penstock.engine.runtime.network.edge import EdgeInfo

Aggregators = dict[str, tuple[Aggregator[Any], Any]]
"""Aggregators by name, each with its result of the superstep before."""
NO_AGGREGATORS = b""


def packed(aggregators: Aggregators) -> bytes:
    """Return aggregators as a BeginOfSuperstep carries them."""
    return dumps(aggregators) if aggregators else NO_AGGREGATORS


class Edge(Protocol):
    """An edge that leaves the task."""

    info: EdgeInfo

    def element(self, element: Element) -> None:
        """Add an element to every channel."""


class Supersteps:
    """The superstep that runs in one task."""

    def __init__(self) -> None:
        self.number = -1
        """The superstep whose records the task has got last; -1: none yet."""
        self.begun = NO_AGGREGATORS
        """The aggregators, as the begin of the superstep carried them."""
        self.has_ended = False
        """Whether the iteration has ended: nothing is fed back any more."""
        self._aggregators: Aggregators | None = None
        self._partial: dict[str, Aggregator[Any]] = {}
        self._received: list[bytes] = []
        self._checkpoint: int | None = None

    def begins(self, begin: BeginOfSuperstep, edges: Sequence[Edge]) -> None:
        """Note the begin of a superstep, and tell the next tasks on `edges`, once, before its records."""
        if begin.number <= self.number:
            return
        self.number, self.begun, self._aggregators = begin.number, begin.aggregates, None
        self._partial, self._received, self._checkpoint = {}, [], None
        for edge in edges:
            if edge.info.in_supersteps and not edge.info.feedback:
                edge.element(begin)

    def ended_before(self, end: EndOfSuperstep) -> None:
        """Note that a sender has ended the superstep."""
        if end.aggregates:
            self._received.append(end.aggregates)
        checkpoint = self._checkpoint
        self._checkpoint = end.checkpoint if checkpoint is None else min(checkpoint, end.checkpoint)

    def aggregates(self) -> bytes:
        """Return what this task, and those before it, have aggregated in the superstep, pickled."""
        if not self._partial and len(self._received) <= 1:
            return self._received[0] if self._received else b""
        for received in self._received:
            for name, value in pickle.loads(received).items():
                self.aggregator(name).aggregate(value)
        self._received = []
        return dumps({name: one.get_aggregate() for name, one in self._partial.items()})

    @property
    def checkpoint(self) -> int:
        """The newest checkpoint whose barrier waits at all heads before this task."""
        return self._checkpoint or 0

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
            self._aggregators = pickle.loads(self.begun) if self.begun else {}
        if self.number < 0:
            raise ProgramError(
                f"there is no aggregator '{name}' before the first superstep: ask for it when a record is processed or "
                "a superstep ends, not in open(), because each superstep has a new one"
            )
        if name not in self._aggregators:
            known = ", ".join(map(repr, self._aggregators)) or "none"
            raise ProgramError(f"the iteration has no aggregator '{name}'; those that it was given: {known}")
        return self._aggregators[name]
