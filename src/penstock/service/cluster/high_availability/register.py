"""Where it is written who leads a cluster: the interface of ZooKeeper, of Kubernetes, and of a shared folder."""

from __future__ import annotations

from abc import ABC, abstractmethod

import msgspec

from penstock.service.cluster.high_availability.pointers import Pointers


class LeaderAddress(msgspec.Struct, frozen=True):
    """What a leader says of itself. `url`: of its REST, without a slash at its end; empty: it does not serve yet."""

    term: int
    host: str
    """The name of its machine."""
    pid: int
    url: str = ""


class Register(ABC):
    """As one process uses it: to stand for election, or only to find who leads.

    The calls answer what `leadership.py` asks, and hold no rule of their own. They may take as long as the lease, and
    come from one thread. All raise OSError if nothing answers; what was asked may have happened then.
    """

    lease_ms: int
    """How long a leader may be silent."""
    retry_ms: int | None = None
    """How often it is asked; None: as often as the lease's time wants."""

    @abstractmethod
    def look(self) -> int | None:
        """Stand for election, if that is not done yet. Returns the next term if nobody leads."""

    @abstractmethod
    def claim(self, term: int) -> bool:
        """Become the leader of that term, which `look` has returned. False: another process was quicker."""

    @abstractmethod
    def confirm(self, url: str) -> None:
        """Renew the lead, and say where this process serves. Raises NotLeadingError."""

    @abstractmethod
    def pointers(self) -> Pointers:
        """Of the cluster's jobs, for the term that was claimed."""

    @abstractmethod
    def leader(self) -> LeaderAddress | None:
        """Who leads, or has led last; None: nobody. Needs not stand for election."""

    @abstractmethod
    def close(self) -> None:
        """Leave: who stands by need not wait. Raises nothing."""
