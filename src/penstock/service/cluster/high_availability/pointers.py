"""Pointers to the newest state of each of a cluster's jobs, which only the leader can change.

A pointer is a short text: the name of a file. The file is written before, under a unique name, so changing the pointer
is the moment at which a change counts. The register changes a pointer in one step, on the condition that the process
still leads. Asking first and writing then would not do, since a process may be suspended for a minute between the two.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from penstock.common.errors import PenstockError


class NotLeadingError(PenstockError):
    """Another process leads the cluster, or may: the write does not count."""


class Pointers(ABC):
    """The pointers, as the leader of one term changes them. Any thread may call.

    All methods raise OSError without an answer.
    """

    @abstractmethod
    def all(self) -> dict[str, str]:
        """Return each pointer, by the id of its submission."""

    @abstractmethod
    def put(self, id: str, pointer: str) -> None:
        """Add or replace a pointer. Raises NotLeadingError."""

    @abstractmethod
    def remove(self, id: str) -> None:
        """Remove a pointer, if it exists. Raises NotLeadingError."""
