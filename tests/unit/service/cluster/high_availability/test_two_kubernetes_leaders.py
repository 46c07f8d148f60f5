"""That two pods never both lead, and nothing counts that a former leader writes, whenever a process is stopped.

As in `test_two_leaders.py`: each process may be stopped around each request to the API server, while the others go on,
and an answer may be lost. Here the processes are the registers themselves, on an API server in memory.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from typing import NamedTuple

import pytest
from tests.unit.service.cluster.high_availability.kubernetes_objects import NAMESPACE, Store, StoredObjects

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
    Failed,
    Lead,
    Looked,
    StepDown,
    TimePassed,
)
from penstock.service.cluster.high_availability.kubernetes_api import ApiError, Object
from penstock.service.cluster.high_availability.kubernetes_register import KubernetesRegister, LeaseTimes
from penstock.service.cluster.high_availability.leadership import Leadership, Standing
from penstock.service.cluster.high_availability.pointers import NotLeadingError

TIMES = LeaseTimes(duration=1_000, deadline=700, retry=100)
PROCESSES = 3
LASTS_MS = 60_000
KEPT = 5


class Written(NamedTuple):
    """A version of the map."""

    term: int
    jobs: dict[str, str]


class History(Store):
    """It keeps each version of the map."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[Written] = []

    def handle(self, method: str, plural: str, name: str | None, found: Object | None) -> tuple[int, Object]:
        status, answer = super().handle(method, plural, name, found)
        if method != "GET" and plural == "configmaps" and status < 300 and "data" in answer:
            data = dict(answer["data"])
            self.written.append(Written(json.loads(data.pop("leader"))["term"], data))
        return status, answer


class Process:
    """One that wants to lead. It is started again when it has ended."""

    def __init__(self, world: World, number: int) -> None:
        self.world, self.number = world, number
        self._start()

    def _start(self) -> None:
        self.leadership = Leadership(TIMES.deadline, TIMES.retry)
        objects = StoredObjects(self.world.store, lambda: self.world.may_stop(self))
        self.register = KubernetesRegister(
            objects, NAMESPACE, "default", TIMES, lambda: self.world.now_ms, lambda seconds: self.world.wait(self)
        )
        self.asked: list[Effect] = []
        self.writes = 0

    def step(self) -> None:
        """Do one thing."""
        leads = self.leadership.standing is Standing.LEADING
        if leads and self.world.chance.random() < 0.4:
            self._write()
        elif self.asked:
            self._handle(self._answered(self.asked.pop(0)))
        else:
            self._handle(TimePassed(self.world.now_ms))
        if self.leadership.standing is Standing.ENDED:
            self._start()

    def _write(self) -> None:
        self.writes += 1
        id, pointer = f"job-{self.writes % KEPT}", f"state-{self.leadership.term}-{self.writes}"
        try:
            self.register.pointers().put(id, pointer)
        except NotLeadingError as error:
            self._handle(Deposed(self.world.now_ms, str(error)))
        except OSError as error:
            self._handle(Failed(self.world.now_ms, str(error)))
        else:
            self.world.acknowledged.append(pointer)

    def _answered(self, effect: Effect) -> Event:
        asked_ms = self.world.now_ms
        try:
            return self._answer(effect, asked_ms)
        except NotLeadingError as error:
            return Deposed(self.world.now_ms, str(error))
        except OSError as error:
            return Failed(self.world.now_ms, str(error))

    def _answer(self, effect: Effect, asked_ms: int) -> Event:
        if isinstance(effect, Claim):
            if not self.register.claim(effect.term):
                return ClaimLost(self.world.now_ms)
            return Claimed(self.world.now_ms, effect.term, self.world.asked(asked_ms))
        if isinstance(effect, Confirm):
            self.register.confirm("")
            return Confirmed(self.world.now_ms, self.world.asked(asked_ms))
        return Looked(self.world.now_ms, self.register.look())

    def _handle(self, event: Event) -> None:
        for effect in self.leadership.handle(event):
            if isinstance(effect, (Lead, Extend)):
                self.world.lived.append((self.number, self.world.now_ms, effect.until_ms))
            elif not isinstance(effect, StepDown):
                self.asked.append(effect)


class World:
    """Of one seed."""

    store_type: Callable[[], History] = History

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now_ms = 0
        self.store = self.store_type()
        self.acknowledged: list[str] = []
        self.lived: list[tuple[int, int, int]] = []
        self.processes = [Process(self, number) for number in range(PROCESSES)]
        self._stopped: list[Process] = []

    def asked(self, asked_ms: int) -> int:
        """What a host says of when it has asked."""
        return asked_ms

    def may_stop(self, process: Process) -> None:
        """The others go on for a while, or an answer is lost."""
        chance = self.chance.random()
        if chance > 0.97:
            raise ApiError("the connection was cut")
        if chance < 0.03:
            self._goes_on(process, self.chance.choice([5, 50, 700, 1_500, 4_000]))

    def wait(self, process: Process) -> None:
        """A pause of its own."""
        self._goes_on(process, 100)

    def _goes_on(self, process: Process, for_ms: int) -> None:
        until_ms = self.now_ms + for_ms
        self._stopped.append(process)
        while self.now_ms < until_ms:
            self.turn()
        self._stopped.remove(process)

    def turn(self) -> None:
        """Of one of those that are not stopped."""
        self.now_ms += self.chance.randrange(1, 30)
        running = [process for process in self.processes if process not in self._stopped]
        if running:
            self.chance.choice(running).step()

    def run(self) -> None:
        """All of them, and what must hold."""
        while self.now_ms < LASTS_MS:
            self.turn()
        written = self.store.written
        for before, after in itertools.pairwise(written):
            assert before.term <= after.term, f"{after} counts, behind {before}"
            changed = [id for id, pointer in before.jobs.items() if after.jobs.get(id) != pointer]
            assert len(changed) <= 1, f"{after} has undone what {before} has"
            assert not changed or before.term == after.term, f"{after} was taken over otherwise than {before} was"
        counted = {pointer for version in written for pointer in version.jobs.values()}
        assert set(self.acknowledged) <= counted, "what was acknowledged does not count"
        leads = sorted(self.lived, key=lambda lived: lived[1])[-200:]
        for (one, _, end_ms), (other, begin_ms, _) in itertools.combinations(leads, 2):
            assert one == other or end_ms <= begin_ms, f"two lead at once: {one} and {other}, at {begin_ms}"
        assert len({version.term for version in written}) > 3, "leaders change"
        assert len(self.acknowledged) > 20, "leaders write"


@pytest.mark.parametrize("seed", range(20))
def test_no_two_pods_lead(seed: int) -> None:
    """Two pods would run the same jobs, and each commit its output."""
    World(seed).run()


class Blind(History):
    """Of versions."""

    def handle(self, method: str, plural: str, name: str | None, found: Object | None) -> tuple[int, Object]:
        if method == "PUT" and found is not None and (plural, name) in self.objects:
            there = self.objects[plural, name or ""]
            found = {
                **found,
                "metadata": {**found["metadata"], "resourceVersion": there["metadata"]["resourceVersion"]},
            }
        return super().handle(method, plural, name, found)


class OnABlindServer(World):
    """It takes each write, whatever its author has read."""

    store_type = Blind


class CountingFromTheAnswer(World):
    """A lead is counted from the moment of the answer."""

    def asked(self, asked_ms: int) -> int:
        return self.now_ms


@pytest.mark.parametrize("kind", [OnABlindServer, CountingFromTheAnswer])
def test_a_fault_of_the_election_is_found(kind: type[World]) -> None:
    """The test above would say nothing."""
    for seed in range(30):
        try:
            kind(seed).run()
        except AssertionError:
            return
    raise AssertionError("it was not found")
