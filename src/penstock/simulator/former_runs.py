"""Runs of a job whose driver was stopped and taken for dead, and that go on later."""

from __future__ import annotations

from random import Random

from penstock.simulator.master_host import DriverLostError, MasterHost


class FormerRuns:
    """Of the present job."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._drivers: list[MasterHost] = []

    @property
    def waits(self) -> bool:
        """Whether one may go on."""
        return bool(self._drivers)

    def add(self, driver: MasterHost) -> None:
        """Another run takes the job over from this one."""
        driver.is_former = True
        self._drivers.append(driver)

    def clear(self) -> None:
        """Another job begins."""
        self._drivers.clear()

    def one_goes_on(self) -> None:
        """One of them does what it was about to do."""
        former = self._random.choice(self._drivers)
        try:
            goes_on = former.former_does_next()
        except DriverLostError:
            goes_on = False
        if not goes_on:
            self._drivers.remove(former)
