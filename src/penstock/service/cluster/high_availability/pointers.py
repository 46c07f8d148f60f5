"""Where the newest state of each of a cluster's jobs is written down, so that only the leader can change it.

A pointer is a short text: the name of a file. What it names is written before, under a name that nobody else uses, so a
pointer is the moment at which a change counts. It is changed under the condition that the process still leads, by the
register itself and in one step: to ask first and to write then would not do, since a process may be stopped for a
minute between the two.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from penstock.common.errors import PenstockError


class NotLeadingError(PenstockError):
    """Another process leads the cluster, or may: what was to be written does not count."""


class Pointers(ABC):
    """Of the leader of one term. Any thread may call. All methods raise OSError if the register does not answer."""

    @abstractmethod
    def all(self) -> dict[str, str]:
        """Each pointer, by the id of its submission."""

    @abstractmethod
    def put(self, id: str, pointer: str) -> None:
        """Add a pointer, or replace it. Raises NotLeadingError."""

    @abstractmethod
    def remove(self, id: str) -> None:
        """Remove a pointer, if it is there. Raises NotLeadingError."""
