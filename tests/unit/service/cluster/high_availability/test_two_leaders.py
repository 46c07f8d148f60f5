"""That there are never two leaders whose writes both count, whenever a process is stopped, and for however long.

Processes share a register in memory. Each may be stopped before and after any step on it, while the others go on: that
is a call of the others from within the step, so a run is one thread, and the same for a seed.
"""

from __future__ import annotations

import itertools
import random
from typing import NamedTuple

import msgspec
import pytest

from penstock.service.cluster.high_availability.events import (
    Claim,
    Claimed,
    ClaimLost,
    Confirm,
    Confirmed,
    Deposed,
    Effect,
    Event,
    Extend,
    Lead,
    Looked,
    StepDown,
    TimePassed,
)
from penstock.service.cluster.high_availability.journal import Entry, Journal
from penstock.service.cluster.high_availability.leadership import Leadership, Standing
from penstock.service.cluster.high_availability.lease_watch import LeaseObservation, LeaseWatch
from penstock.service.cluster.high_availability.pointers import NotLeadingError

LEASE_MS = 1_000
PROCESSES = 3
LASTS_MS = 60_000


class Lived(NamedTuple):
    """When a process has taken itself for the leader."""

    process: int
    begin_ms: int
    end_ms: int


class Entries:
    """The files of the journal, as one process sees them: it may be stopped around each step."""

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process

    def numbers(self) -> list[int]:
        self._world.may_stop(self._process)
        return sorted(self._world.files)

    def read(self, number: int) -> bytes:
        self._world.may_stop(self._process)
        if number not in self._world.files:
            raise FileNotFoundError
        return self._world.files[number]

    def create(self, number: int, data: bytes) -> bool:
        self._world.may_stop(self._process)
        created = self._world.create(number, data)
        self._world.may_stop(self._process)
        return created

    def remove(self, number: int) -> None:
        self._world.may_stop(self._process)
        self._world.files.pop(number, None)


class Process:
    """One that wants to lead. It is started again when it has ended."""

    def __init__(self, world: World, number: int) -> None:
        self.world, self.number = world, number
        self._start()

    def _start(self) -> None:
        self.leadership = Leadership(LEASE_MS)
        self.journal = Journal(Entries(self.world, self))
        self.watch = LeaseWatch(LEASE_MS)
        self.asked: list[Effect] = []
        self.writes = 0

    def step(self) -> None:
        """Do one thing."""
        world, leads = self.world, self.leadership.standing is Standing.LEADING
        if leads and world.chance.random() < 0.4:
            self._write()
        elif self.asked:
            self._handle(self._answer(self.asked.pop(0)))
        else:
            self._handle(TimePassed(world.now_ms))
        if self.leadership.standing is Standing.ENDED:
            self._start()

    def _write(self) -> None:
        self.writes += 1
        pointer = f"state-{self.leadership.term}-{self.writes}"
        try:
            self.journal.write({**self.journal.jobs, "job": pointer})
        except NotLeadingError as error:
            self._handle(Deposed(self.world.now_ms, str(error)))
        else:
            self.world.acknowledged.append(pointer)

    def _answer(self, effect: Effect) -> Event:
        world, asked_ms = self.world, self.world.now_ms
        if isinstance(effect, Claim):
            if not self.journal.claim(effect.term):
                return ClaimLost(world.now_ms)
            self._renew(effect.term)
            return Claimed(world.now_ms, effect.term, world.asked(asked_ms))
        if isinstance(effect, Confirm):
            try:
                self.journal.check()
            except NotLeadingError as error:
                return Deposed(world.now_ms, str(error))
            self._renew(self.leadership.term)
            return Confirmed(world.now_ms, world.asked(asked_ms))
        term = self.journal.read().term
        observation = LeaseObservation(term, world.leases.get(term, b""))
        world.may_stop(self)
        return Looked(world.now_ms, self.watch.vacant(observation, asked_ms, world.now_ms))

    def _renew(self, term: int) -> None:
        self.world.may_stop(self)
        self.world.leases[term] = b"%d" % self.world.now_ms
        self.world.may_stop(self)

    def _handle(self, event: Event) -> None:
        for effect in self.leadership.handle(event):
            if isinstance(effect, (Lead, Extend)):
                self.world.lived.append(Lived(self.number, self.world.now_ms, effect.until_ms))
            elif not isinstance(effect, StepDown):
                self.asked.append(effect)


class World:
    """Of one seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now_ms = 0
        self.files: dict[int, bytes] = {}
        self.leases: dict[int, bytes] = {}
        self.created: list[Entry] = []
        self.acknowledged: list[str] = []
        self.lived: list[Lived] = []
        self.processes = [Process(self, number) for number in range(PROCESSES)]
        self._stopped: list[Process] = []

    def create(self, number: int, data: bytes) -> bool:
        """Exclusively."""
        if number in self.files:
            return False
        self.files[number] = data
        self.created.append(msgspec.json.decode(data, type=Entry))
        return True

    def asked(self, asked_ms: int) -> int:
        """What a host says of when it has asked."""
        return asked_ms

    def may_stop(self, process: Process) -> None:
        """The others go on for a while."""
        if self.chance.random() > 0.03 or len(self._stopped) == PROCESSES - 1:
            return
        until_ms = self.now_ms + int(self.chance.choice([5, 50, 0.7 * LEASE_MS, 1.5 * LEASE_MS, 4 * LEASE_MS]))
        self._stopped.append(process)
        while self.now_ms < until_ms:
            self.turn()
        self._stopped.remove(process)

    def turn(self) -> None:
        """Of one of those that are not stopped."""
        self.now_ms += self.chance.randrange(1, 30)
        self.chance.choice([process for process in self.processes if process not in self._stopped]).step()

    def run(self) -> None:
        """All of them, and what must hold."""
        while self.now_ms < LASTS_MS:
            self.turn()
        newest = max(self.files)
        counted = [entry for entry in self.created if entry.number in self.files or not entry.is_claim]
        # In the order in which they were written: nothing of a former leader is behind something of a later one.
        for before, after in itertools.pairwise(counted):
            assert before.number < after.number, f"{after} was written behind {before}"
            assert before.term <= after.term, f"{after} counts, behind {before}"
        written = [entry.jobs["job"] for entry in counted if not entry.is_claim]
        assert set(self.acknowledged) <= set(written), "what was acknowledged does not count"
        last = msgspec.json.decode(self.files[newest], type=Entry)
        assert last.jobs.get("job") == written[-1], "what was acknowledged is lost"
        leads = sorted(self.lived, key=lambda lived: lived.begin_ms)
        for one, other in itertools.combinations(leads[-200:], 2):
            apart = one.process == other.process or one.end_ms <= other.begin_ms
            assert apart, f"two lead at once: {one} and {other}"
        assert len({entry.term for entry in counted}) > 3, "leaders change"


@pytest.mark.parametrize("seed", range(40))
def test_no_two_leaders_write(seed: int) -> None:
    """Two processes would run the same jobs, and each commit its output."""
    World(seed).run()


def found(kind: type[World]) -> bool:
    for seed in range(40):
        try:
            kind(seed).run()
        except AssertionError:
            return True
    return False


class Overwriting(World):
    """Creating is not exclusive."""

    def create(self, number: int, data: bytes) -> bool:
        self.files.pop(number, None)
        return super().create(number, data)


class CountingFromTheAnswer(World):
    """A lease is counted from the moment of the answer."""

    def asked(self, asked_ms: int) -> int:
        return self.now_ms


@pytest.mark.parametrize("kind", [Overwriting, CountingFromTheAnswer])
def test_a_fault_is_found(kind: type[World]) -> None:
    """The test above would say nothing."""
    assert found(kind)
