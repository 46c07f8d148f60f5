"""Moments of a job's life, recognised from outside: by its files, its processes, and what its user asks for."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.chaos.driven_job import DrivenJob
from tests.chaos.plan import Fault, Moment
from tests.chaos.processes import send
from tests.chaos.program import NAME

_SOON_S = 20


class Moments:
    """Of one job."""

    def __init__(self, job: DrivenJob) -> None:
        self._job = job
        self.asked: subprocess.Popen[str] | None = None
        """The command by which a savepoint was asked for, or a stop."""
        self.before: set[Path] = set()
        """The savepoints that there were then."""

    def await_(self, fault: Fault) -> bool:
        """Wait for the moment of a fault. False: it did not come, because the job has ended for example."""
        random = Random(fault.chance)
        wait: dict[Moment, Callable[[], bool]] = {
            Moment.ANY: lambda: self._sleep(random.uniform(0, 2)),
            Moment.UPLOAD: lambda: self._new(self._job.state_files),
            Moment.PRE_COMMIT: lambda: self._new(self._job.prepared),
            Moment.MANIFEST: lambda: self._new(self._job.record),
            Moment.COMMIT: self._commits,
            Moment.RESTORE: lambda: self._restores(random),
            Moment.SAVEPOINT: lambda: self._asks("savepoint", random),
            Moment.STOP: lambda: self._asks("stop", random),
            Moment.RESCALING: self._rescales,
            Moment.LAST: lambda: self._last(random),
        }
        return wait[fault.moment]()

    def _sleep(self, seconds: float) -> bool:
        time.sleep(seconds)
        return self._job.driver.poll() is None

    def _new(self, paths: Callable[[], set[Path]]) -> bool:
        before = paths()
        return self._job.happens(lambda: paths() - before, _SOON_S)

    def _commits(self) -> bool:
        before = self._job.files_committed
        return self._job.happens(lambda: self._job.files_committed > before, _SOON_S)

    def _restores(self, random: Random) -> bool:
        """A worker is killed first; the next ones restore."""
        before = self._job.processes.workers()
        if not before:
            return False
        send(random.choice(before), signal.SIGKILL)
        return self._job.happens(lambda: set(self._job.processes.workers()) - set(before), _SOON_S)

    def _asks(self, what: str, random: Random) -> bool:
        self.before = before = set(self._job.savepoints.glob("*"))
        self.asked = self._job.ask([what, NAME, str(self._job.savepoints)])

        def under_way() -> bool:
            new = set(self._job.savepoints.glob("*")) - before
            # In its middle, or when its manifest is there and the rest follows.
            return any(early or (path / "_metadata").exists() for path in new)

        early = random.random() < 0.4
        return self._job.happens(lambda: under_way() or self.asked is None or self.asked.poll() is not None, _SOON_S)

    def _rescales(self) -> bool:
        self._job.parallelism = 3 - self._job.parallelism
        return self._commits()

    def _last(self, random: Random) -> bool:
        """The last checkpoint, or one of the few before it."""
        self._job.hurry()
        return self._sleep(random.uniform(0, 2)) and self._new(self._job.state_files)
