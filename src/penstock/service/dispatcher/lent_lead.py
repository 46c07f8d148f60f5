"""The lead of a dispatcher, as the process of a job has it: for as long as it was told, and not longer.

A dispatcher that is stopped tells its jobs nothing. They might go on while another process leads and starts the same
jobs. Nothing that they write would count, but they take slots, and print. So they end with the lead.
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
from penstock.service.dispatcher.events import Leads
from penstock.service.dispatcher.whole_files import write_whole

_LOOK_S = 0.2
_GRACE_S = 1.0
"""How long what was sent may take to be read: by a process that was stopped itself, and goes on, for example."""


class LentLead:
    """`until_ms`: when it ends, unless it is extended; 0: never, since nobody else can lead."""

    def __init__(self, until_ms: int) -> None:
        self._until_ms = until_ms
        self._is_lent = until_ms > 0
        self._confirmed_ms = 0
        self._changed = threading.Condition()
        if self._is_lent:
            threading.Thread(target=self._watch, name="penstock-lead", daemon=True).start()

    def extend(self, leads: Leads) -> None:
        """The dispatcher leads until later."""
        with self._changed:
            self._until_ms = max(self._until_ms, leads.until_ms)
            self._confirmed_ms = max(self._confirmed_ms, leads.asked_ms)
            self._changed.notify_all()

    def confirm(self) -> None:
        """Wait until the dispatcher is known to lead at a moment after this call. Raises FencedError: it does not."""
        if not self._is_lent:
            return
        begun_ms = steady_ms()
        self._wait_for(lambda: self._confirmed_ms > begun_ms, self._left_s() + _GRACE_S)

    def write(self, file: Path, content: bytes) -> None:
        """Write what whoever leads later goes on with. Raises FencedError if that is another one by now, OSError."""
        # By a name of its own: a process that leads by now may write the same file.
        unfinished = file.with_name(f".{file.name}-{secrets.token_hex(4)}")
        write_whole(file, content, unfinished, self._check)

    def _check(self) -> None:
        """Wait until the lead lasts, if it is over as far as was read. Nobody else has it as long as it lasts."""
        if self._is_lent:
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
            "this process ends: its dispatcher no longer leads the cluster, or was stopped. The leader starts the job "
            "again, from its newest checkpoint",
            file=sys.stderr, flush=True,
        )  # fmt: skip
        os._exit(1)
