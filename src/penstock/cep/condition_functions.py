"""Conditions as classes, where a lambda does not suffice: with parameters, or with resources that `open` obtains.

Source: Flink docs, "Event Processing (CEP)", Conditions; Flink's SimpleCondition, IterativeCondition and
RichIterativeCondition.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

from penstock.api.functions.function import Function

E = TypeVar("E")


class Context(Protocol):
    """Shows an iterative condition the partial match that may take the event."""

    def get_events_for_pattern(self, name: str) -> Sequence[Any]:
        """Return the events that the step `name` has taken so far, in order, without the event in question."""

    def timestamp(self) -> int:
        """Return the event's timestamp (milliseconds)."""

    def current_processing_time(self) -> int:
        """Return the processing time (milliseconds)."""


class SimpleCondition(ABC, Generic[E]):
    """A condition on the event alone. It is called once per event."""

    @abstractmethod
    def filter(self, value: E) -> bool:
        """Return whether the event meets the condition."""


class IterativeCondition(ABC, Generic[E]):
    """A condition on the event and on the partial match that may take it."""

    @abstractmethod
    def filter(self, value: E, ctx: Context) -> bool:
        """Return whether the event meets the condition. `ctx` shows what the match has taken so far."""


class RichIterativeCondition(IterativeCondition[E], Function):
    """An IterativeCondition with a life cycle: `open`, with a runtime context, and `close`.

    The runtime context has task information and metrics. As in Flink it has no state: the partial match, which the
    context of `filter` shows, is the state of a condition.
    """


def rich_part(function: Any) -> RichIterativeCondition[Any] | None:
    """Return the object with a life cycle whose method this is; None for another function."""
    owner = getattr(function, "__self__", None)
    return owner if isinstance(owner, RichIterativeCondition) else None
