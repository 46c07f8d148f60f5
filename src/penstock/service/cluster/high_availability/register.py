"""The register of a cluster's leader: the interface of ZooKeeper, Kubernetes, and a shared folder."""

from __future__ import annotations

from abc import ABC, abstractmethod

import msgspec

from penstock.service.cluster.high_availability.pointers import Pointers


class LeaderAddress(msgspec.Struct, frozen=True):
    """The address and id that a leader publishes. `url`: of REST, without a trailing slash; empty: not serving yet."""

    term: int
    host: str
    """The name of the leader's machine."""
    pid: int
    url: str = ""


class Register(ABC):
    """The register as one process uses it: to stand for election, or only to find the leader.

    The methods carry out the effects of `leadership.py`, and have no rules of their own. They may take as long as the
    lease, and are called from one thread. All raise OSError without an answer; the request may have taken effect then.
    """

    lease_ms: int
    """How long a leader may be silent."""
    retry_ms: int | None = None
    """How often the register is read; None: as often as the lease requires."""

    @abstractmethod
    def look(self) -> int | None:
        """Stand for election, if not done yet. Return the next term if there is no leader."""

    @abstractmethod
    def claim(self, term: int) -> bool:
        """Become the leader of that term, which `look` returned; return False if another process was faster."""

    @abstractmethod
    def confirm(self, url: str) -> None:
        """Renew the leadership, and publish this process's address. Raises NotLeadingError."""

    @abstractmethod
    def pointers(self) -> Pointers:
        """Return the pointers to the cluster's jobs, for the claimed term."""

    @abstractmethod
    def leader(self) -> LeaderAddress | None:
        """Return the current or last leader, or None. Does not require to stand for election."""

    @abstractmethod
    def close(self) -> None:
        """Leave the election, so that standbys need not wait. Raises nothing."""
