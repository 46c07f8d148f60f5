"""Election in Kubernetes: a Lease says who leads, and a ConfigMap has the pointers, which only the leader can change.

    Lease       penstock-CLUSTER    the leader, as `kubectl get leases` shows it; in an annotation, its address
    ConfigMap   penstock-CLUSTER    whose pointers count, and the pointers: `kubernetes_pointers.py`

The Lease tells others when they may claim the leadership. Its times are for people: a standby watches its version
change, by a clock of its own. A claim first replaces the Lease as it was read, and then takes the map over. So the
process that has taken the map over had the Lease, and a deposed leader notices at its next renewal. Term: the Lease's
transitions + 1.

Source: Kubernetes docs, "Leases"; client-go's leaderelection; Flink docs, "Kubernetes HA Services".
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from penstock.common.values.decoding import DECODING_ERRORS, from_json
from penstock.service.cluster.high_availability.kubernetes_api import (
    CONFIG_MAP,
    LEASE,
    ConflictError,
    MissingError,
    Object,
    Objects,
)
from penstock.service.cluster.high_availability.kubernetes_pointers import ConfigMapPointers
from penstock.service.cluster.high_availability.lease_watch import LeaseObservation, LeaseWatch
from penstock.service.cluster.high_availability.pointers import NotLeadingError, Pointers
from penstock.service.cluster.high_availability.register import LeaderAddress, Register
from penstock.service.cluster.high_availability.steady_clock import steady_ms

ADDRESS = "penstock/leader"
"""The annotation of the Lease with a leader's address."""


class LeaseTimes(NamedTuple):
    """Times in milliseconds. `duration`: how long a Lease must not change until another process claims it.

    `deadline`: how long a leader that can't renew the Lease still leads; at most the duration. `retry`: the time
    between renewals, and between reads.
    """

    duration: int
    deadline: int
    retry: int


class _PublishedAddress(msgspec.Struct, frozen=True):
    """The address that a leader writes into the annotation."""

    leader: LeaderAddress
    renewals: int
    """Makes renewals differ: Kubernetes gives a replacement that changes nothing no new version."""


class KubernetesRegister(Register):
    """`objects`: the namespace's. `cluster`: its id."""

    def __init__(
        self,
        objects: Objects,
        namespace: str,
        cluster: str,
        times: LeaseTimes,
        now_ms: Callable[[], int] = steady_ms,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self.lease_ms, self.retry_ms = times.deadline, times.retry
        self._duration_ms = times.duration
        self._objects = objects
        self._now_ms = now_ms
        self._name = f"penstock-{cluster}"
        self._own = f"{socket.gethostname()}_{uuid.uuid4().hex}"
        labels = {"app.kubernetes.io/name": "penstock", "app.kubernetes.io/instance": cluster}
        self._empty = LEASE.empty(namespace, self._name, labels)
        self._seen: Object | None = None
        """The Lease as it was last read or written; None: it did not exist."""
        self._watch = LeaseWatch(times.duration)
        empty_map = CONFIG_MAP.empty(namespace, self._name, labels)
        self._pointers = ConfigMapPointers(
            objects=objects, empty=empty_map, patience_ms=times.deadline, now_ms=now_ms, pause=pause
        )
        self._term = 0
        self._url = ""
        self._renewals = 0

    def look(self) -> int | None:
        """Return the next term if there is no leader.

        It is also above that of the map, in case the Lease was removed.
        """
        began_ms = self._now_ms()
        self._seen = self._lease()
        if self._seen is not None:
            observation = self._observe(self._seen)
            vacant = self._watch.vacant(observation, began_ms, self._now_ms())
            return None if vacant is None else max(vacant, self._term_of_map() + 1)
        try:
            term = self._pointers.read()
        except MissingError:
            # Before the Lease: a Lease without a map means that the map was removed.
            with contextlib.suppress(ConflictError):
                self._pointers.create()
            term = self._term_of_map()
        # A leader whose Lease was removed may not have noticed yet.
        return self._watch.vacant(LeaseObservation(term, b""), began_ms, self._now_ms())

    def claim(self, term: int) -> bool:
        """Replace the Lease as it was read, then take the map over."""
        self._term, self._url = term, ""
        try:
            self._write_lease()
        except (ConflictError, MissingError):
            return False
        return self._pointers.take_over(term)

    def confirm(self, url: str) -> None:
        """Renew the Lease, if no other process has claimed it."""
        self._url = url
        try:
            self._renew()
        except (ConflictError, MissingError):
            # A renewal of this process may have counted although its answer was lost, or someone has added a label.
            self._seen = self._lease()
            self._renew()

    def pointers(self) -> Pointers:
        """The pointers in the map."""
        return self._pointers

    def leader(self) -> LeaderAddress | None:
        """Return the leader that the Lease names."""
        lease = self._lease()
        with contextlib.suppress(KeyError, *DECODING_ERRORS):
            text = ((lease or {})["metadata"].get("annotations") or {})[ADDRESS]
            return from_json(text, _PublishedAddress).leader
        return None

    def close(self) -> None:
        """Clear the holder of the Lease."""
        with contextlib.suppress(OSError):
            # Read again: the answer to the last renewal may have been lost.
            lease = self._lease() if self._term else None
            if lease is not None and self._is_own(lease):
                self._objects.replace(LEASE, {**lease, "spec": {**lease["spec"], "holderIdentity": ""}})

    def _lease(self) -> Object | None:
        with contextlib.suppress(MissingError):
            return self._objects.get(LEASE, self._name)
        return None

    def _observe(self, lease: Object) -> LeaseObservation:
        spec, version = lease.get("spec") or {}, str(lease["metadata"].get("resourceVersion"))
        # If the Lease is this process's, its claim has counted and the answer was lost. It does not lead, so the
        # cluster has no leader.
        is_over = not spec.get("holderIdentity") or self._is_own(lease)
        lasts_ms = 1_000 * int(spec.get("leaseDurationSeconds") or 0)
        return LeaseObservation(int(spec.get("leaseTransitions") or 0) + 1, version.encode(), is_over, lasts_ms)

    def _term_of_map(self) -> int:
        try:
            return self._pointers.read()
        except MissingError as error:
            raise OSError(
                f"the ConfigMap {self._name}, which has the pointers to the cluster's jobs, was removed: {error}. "
                "Restore it from a backup; or stop all processes of the cluster, remove its Lease as well, and start "
                "a new cluster without the jobs"
            ) from error

    def _is_own(self, lease: Object) -> bool:
        return bool((lease.get("spec") or {}).get("holderIdentity") == self._own)

    def _renew(self) -> None:
        if self._seen is None:
            raise NotLeadingError(f"the Lease {self._name} was removed")
        if not self._is_own(self._seen):
            # Its version is known, so nothing else would keep this process from claiming the Lease.
            raise NotLeadingError(f"the Lease {self._name} was claimed by another process")
        self._write_lease()

    def _write_lease(self) -> None:
        """Write the Lease with this process as holder. Raises ConflictError, MissingError, OSError."""
        self._renewals += 1
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        before = self._seen or self._empty
        former = before.get("spec") or {}
        spec = former | {
            "holderIdentity": self._own,
            "leaseDurationSeconds": math.ceil(self._duration_ms / 1_000),
            "leaseTransitions": self._term - 1,
            "acquireTime": former.get("acquireTime", now) if self._is_own(before) else now,
            "renewTime": now,
        }
        leader = LeaderAddress(self._term, socket.gethostname(), os.getpid(), self._url)
        annotation = msgspec.json.encode(_PublishedAddress(leader, self._renewals)).decode()
        metadata = before["metadata"]
        lease = {
            **before,
            "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), ADDRESS: annotation}},
            "spec": spec,
        }
        if self._seen is None:
            self._seen = self._objects.create(LEASE, lease)
        else:
            self._seen = self._objects.replace(LEASE, lease)
