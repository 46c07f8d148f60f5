"""How long a process may act for the leader of a cluster: the leader itself, and the processes of its jobs.

A suspended dispatcher sends its jobs nothing. They might keep running while another process leads and starts the same
jobs. Nothing that they write would count, but they use slots, and print. So they end with the lease of the leader that
started them.
"""

from __future__ import annotations

import os
import secrets
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from penstock.common.errors import FencedError
from penstock.service.cluster.high_availability.steady_clock import steady_ms
from penstock.service.dispatcher.atomic_files import write_atomically
from penstock.service.dispatcher.events import Leads

_LOOK_S = 0.2
_GRACE_S = 1.0
"""How long an extension may take until it is read, for example by a process that was suspended itself."""


class LeadershipLease:
    """The lease of the leading process, as the register has last confirmed it.

    `lease_ms`: for how long each confirmation counts; 0: no other process can lead.
    """

    def __init__(self, lease_ms: int = 0) -> None:
        self.until_ms = 0
        """The end of the lease, by `steady_ms`; 0: it never ends."""
        self.on_extension: Callable[[int, int], object] = lambda until_ms, asked_ms: None
        """Called with the new `until_ms`, and the time at which the request to the register was sent."""
        self._lease_ms = lease_ms

    def extend(self, until_ms: int) -> None:
        """Extend the lease: the register has confirmed it."""
        self.until_ms = until_ms
        self.on_extension(until_ms, until_ms - self._lease_ms)


class ForwardedLease:
    """The leader's lease in the process of a job, which the dispatcher forwards.

    `until_ms`: its end, unless it is extended; 0: it never ends, since no other process can lead.
    """

    def __init__(self, until_ms: int) -> None:
        self._until_ms = until_ms
        self._can_expire = until_ms > 0
        self._confirmed_ms = 0
        self._changed = threading.Condition()
        if self._can_expire:
            threading.Thread(target=self._watch, name="penstock-lease", daemon=True).start()

    def extend(self, leads: Leads) -> None:
        """Extend the lease: the dispatcher has forwarded a later end."""
        with self._changed:
            self._until_ms = max(self._until_ms, leads.until_ms)
            self._confirmed_ms = max(self._confirmed_ms, leads.asked_ms)
            self._changed.notify_all()

    def confirm(self) -> None:
        """Wait for a proof that the dispatcher leads after this call. Raises FencedError if none arrives in time."""
        if not self._can_expire:
            return
        begun_ms = steady_ms()
        self._wait_for(lambda: self._confirmed_ms > begun_ms, self._left_s() + _GRACE_S)

    def write(self, file: Path, content: bytes) -> None:
        """Write a file for later leaders. Raises FencedError if another process leads by now, OSError."""
        # Under a unique name: a new leader may be writing the same file.
        unfinished = file.with_name(f".{file.name}-{secrets.token_hex(4)}")
        write_atomically(file, content, unfinished, self._check)

    def _check(self) -> None:
        """Wait briefly for an extension if the lease has expired. While it lasts, no other process leads."""
        if self._can_expire:
            self._wait_for(lambda: self._left_s() > 0, _GRACE_S)

    def _wait_for(self, is_so: Callable[[], bool], seconds: float) -> None:
        with self._changed:
            if not self._changed.wait_for(is_so, seconds):
                raise FencedError("the dispatcher of this job no longer leads the cluster")

    def _left_s(self) -> float:
        return max(0.0, (self._until_ms - steady_ms()) / 1000)

    def _watch(self) -> None:
        while True:
            time.sleep(_LOOK_S)
            if self._left_s() <= 0:
                time.sleep(_GRACE_S)
                if self._left_s() <= 0:
                    break
        print(
            "this process ends: its dispatcher no longer leads the cluster, or was suspended. The leader restarts the "
            "job from its newest checkpoint",
            file=sys.stderr, flush=True,
        )  # fmt: skip
        os._exit(1)
