"""Where a thread that runs tasks is found by another one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue

import pytest
from tests.unit.engine.runtime.hosted_task import Host

from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.stateless import MapOperator
from penstock.engine.runtime.task.events import SampledStack, SampleStacks
from penstock.hosts.spark.worker.stack_sampler import StackSampler

VERTEX = 1
QUESTION = SampleStacks(7, 5, 1, 100)
_PATIENCE_S = 60


class Sampled:
    """A thread that does something until the end of the test, and the samples of its stack."""

    def __init__(self, work: Callable[[Sampled], None]) -> None:
        self.stops = threading.Event()
        self.is_there = threading.Event()
        self.answers: Queue[tuple[int, int, list[SampledStack]]] = Queue()
        self._made: Queue[StackSampler] = Queue()
        self._work = work
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._sampler = self._made.get(timeout=_PATIENCE_S)
        assert self.is_there.wait(_PATIENCE_S)

    def asks(self, question: SampleStacks = QUESTION, vertex: int = VERTEX) -> list[SampledStack]:
        self._sampler.begin(vertex, question)
        answered, sample, stacks = self.answers.get(timeout=_PATIENCE_S)
        assert (answered, sample) == (vertex, question.sample)
        return stacks

    @property
    def name(self) -> str:
        return self._thread.name

    def ends(self) -> None:
        self.stops.set()
        self._thread.join(_PATIENCE_S)

    def _run(self) -> None:
        self._made.put(StackSampler(0, lambda *answer: self.answers.put(answer)))
        self._work(self)


def waits(sampled: Sampled) -> None:
    sampled.is_there.set()
    sampled.stops.wait()


def computes(sampled: Sampled) -> None:
    sampled.is_there.set()
    while not sampled.stops.is_set():
        sum(range(1_000))


def maps(sampled: Sampled) -> None:
    """A task of vertex 1, whose function does not return before the end."""

    class Held:
        def map(self, value: int) -> int:
            waits(sampled)
            return value

    Host(MapOperator("held", UserFunction(Held(), "map"))).sends(0, [1]).works()


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE_S
    while not is_so():
        assert time.monotonic() < end


@pytest.fixture
def started() -> Iterator[Callable[[Callable[[Sampled], None]], Sampled]]:
    made: list[Sampled] = []

    def start(work: Callable[[Sampled], None]) -> Sampled:
        made.append(Sampled(work))
        return made[-1]

    yield start
    for one in made:
        one.ends()


def test_a_thread_that_waits_is_found_where_it_waits(started) -> None:
    """A user would look for what holds up his job where it is not."""
    stacks = started(waits).asks()
    assert sum(stack.count for stack in stacks) == QUESTION.samples
    for stack in stacks:
        (place,) = (n for n, name in enumerate(stack.frames) if name.startswith(f"{__name__}.waits:"))
        assert stack.frames[place].rpartition(":")[2].isdigit()
        assert place > next(n for n, name in enumerate(stack.frames) if name.startswith("threading.Thread.run:"))


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the system does not tell what its threads do")
def test_a_thread_that_computes_is_on_cpu_and_one_that_waits_is_not(started) -> None:
    """A user could not distinguish time spent computing from time spent waiting for a service."""
    idle, busy = started(waits), started(computes)
    # Either may be found on its way: one is waking up, the other has just been given Python's lock.
    until(lambda: any(stack.on_cpu for stack in busy.asks()))
    until(lambda: not any(stack.on_cpu for stack in idle.asks()))


def test_work_for_one_vertex_is_not_shown_for_another(started) -> None:
    """Vertices of a level share a thread: a user would see the code of one in the flame graph of the other."""
    sampled = started(maps)
    stacks = sampled.asks()
    assert sum(stack.count for stack in stacks) == QUESTION.samples
    assert all(any(".Held.map:" in name for name in stack.frames) for stack in stacks)
    assert sampled.asks(vertex=2) == []


def test_the_innermost_frames_are_kept(started) -> None:
    """A deep recursion would make messages that hold up the job master."""
    for stack in started(waits).asks(SampleStacks(7, 2, 1, 2)):
        assert len(stack.frames) == 2 and "threading.Thread" not in "".join(stack.frames)


def test_all_threads_of_the_process_are_found(started) -> None:
    """A worker whose own thread waits for another one would not be understood."""
    sampled = started(waits)
    stacks = sampled.asks(SampleStacks(7, 1, 0, 100, all_threads=True))
    by_thread = {stack.thread: stack.frames for stack in stacks}
    assert any(name.startswith(f"{__name__}.test_all_threads") for name in by_thread["MainThread"])
    assert any(name.startswith(f"{__name__}.waits:") for name in by_thread[sampled.name])
    assert all(stack.count == 1 for stack in stacks) and "penstock-stacks" not in by_thread
