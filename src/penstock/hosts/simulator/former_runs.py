"""Runs of a job whose driver was stopped and taken for dead, and that go on later."""

from __future__ import annotations

from random import Random

from penstock.common.errors import FencedError
from penstock.engine.jobmaster.events import HostFailed, Reported
from penstock.engine.rpc.messages import FromSlot, decode_to_job_master
from penstock.hosts.simulator.master_host import DriverLostError, MasterHost

_JUMPS_MAX = 100


class FormerRuns:
    """Of the present job."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._drivers: list[MasterHost] = []
        self._jumps: dict[MasterHost, int] = {}
        """How often only time has passed for a run that knows that it was taken over."""

    @property
    def waits(self) -> bool:
        """Whether one may go on."""
        return bool(self._drivers)

    def add(self, driver: MasterHost, reports: list[bytes]) -> None:
        """Another run takes the job over from this one. `reports`: what its slots had sent, which it still receives.

        It eventually learns from its lease that it was taken over, unless it has found out before.
        """
        driver.becomes_former()
        for report in reports:
            message = decode_to_job_master(report)
            assert isinstance(message, FromSlot)
            driver.events.append(Reported(message))
        lost = HostFailed(FencedError("another run has taken the job over"))
        driver.events.insert(self._random.randint(0, len(driver.events)), lost)
        self._drivers.append(driver)

    def end(self) -> None:
        """The job has ended, or another one begins. Those that know of their successors by now must end, too."""
        for former in list(self._drivers):
            while former in self._drivers and former.master.storage.is_fenced:
                self._goes_on(former)
        self._drivers.clear()

    def one_goes_on(self) -> None:
        """One of them does what it was about to do; when there is nothing, time passes until it has ended."""
        self._goes_on(self._random.choice(self._drivers))

    def _goes_on(self, former: MasterHost) -> None:
        try:
            ends = not former.former_does_next() and not self._waits_for_its_end(former)
        except DriverLostError:
            ends = True
        if ends:
            self._drivers.remove(former)

    def _waits_for_its_end(self, former: MasterHost) -> bool:
        """Let time pass. False: it has ended. Its tasks are gone, so nothing else can happen."""
        if former.finish is not None:
            return False
        jumps = self._jumps[former] = self._jumps.get(former, 0) + 1
        assert jumps < _JUMPS_MAX and former.time_passes(), "a run that was taken over does not end"
        return True
