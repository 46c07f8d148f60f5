"""When buffers that are not full leave: by a timeout that does not count the time without a core."""

from __future__ import annotations

from types import SimpleNamespace

from penstock.engine.runtime.task.task import FlushTimer

TIMEOUT_MS = 5


class Timed:
    """A timer over one edge, by a clock that the test sets."""

    def __init__(self, timeout_ms: int = TIMEOUT_MS) -> None:
        self.now_ms = 1_000
        self.waited_ms = 0
        self.flushed_at: list[int] = []
        self.edge = SimpleNamespace(pending=False, flush=self._flush)
        self.timer = FlushTimer([self.edge], timeout_ms, lambda: self.now_ms, lambda: self.waited_ms * 1_000_000)

    def _flush(self) -> None:
        self.edge.pending = False
        self.flushed_at.append(self.now_ms)

    def step(self, after_ms: int, without_core_ms: int = 0, emits: bool = True) -> list[int]:
        """A step that ends so much later, for a part of which there was no core. Returns when it flushed, if it did."""
        self.now_ms += after_ms
        self.waited_ms += without_core_ms
        self.edge.pending = self.edge.pending or emits
        before = len(self.flushed_at)
        self.timer.flush_due()
        return self.flushed_at[before:]


def test_the_first_records_after_a_quiet_moment_leave_at_once() -> None:
    """A single record would wait for its timeout at each exchange, for nothing."""
    one = Timed()
    assert one.step(0) == [1_000]
    assert one.step(2) == []
    assert one.timer.at_ms == 1_000 + TIMEOUT_MS
    assert one.step(3) == [1_005]


def test_time_without_a_core_does_not_count() -> None:
    """Eight slots that share a core would each send what one step brings: a tenth of what a buffer holds."""
    one = Timed()
    one.step(0)
    assert one.step(20, without_core_ms=18) == []
    assert one.timer.at_ms == 1_023, "the three milliseconds that it has not had"
    assert one.step(20, without_core_ms=17) == [1_040]


def test_time_without_a_core_before_the_last_flush_is_not_taken_off_again() -> None:
    """Once behind, a slot would put off all of its flushes."""
    one = Timed()
    one.step(0)
    one.step(20, without_core_ms=10)
    assert one.flushed_at == [1_000, 1_020]
    assert one.step(5) == [1_025]


def test_a_buffer_waits_for_ten_timeouts_at_most() -> None:
    """A slot that hardly gets a core would keep what it has for seconds."""
    one = Timed()
    one.step(0)
    one.step(1)
    waits = [one.step(10, without_core_ms=10) for _ in range(6)]
    assert waits == [[], [], [], [], [1_051], []]


def test_a_long_timeout_is_not_put_off() -> None:
    """On a busy machine a row would wait for 200 ms and more, where 100 ms are the default."""
    one = Timed(100)
    one.step(0)
    one.step(1)
    waits = [one.step(20, without_core_ms=20) for _ in range(6)]
    assert waits == [[], [], [], [], [1_101], []]


def test_a_timeout_is_put_off_to_50_ms() -> None:
    """Ten timeouts of 20 ms are more than anyone sets such a timeout for."""
    one = Timed(20)
    one.step(0)
    one.step(1)
    waits = [one.step(10, without_core_ms=10) for _ in range(6)]
    assert waits == [[], [], [], [], [1_051], []]


def test_without_a_timeout_nothing_is_put_off() -> None:
    """With 0 each step sends what it has, with -1 only what is full leaves."""
    assert Timed(0).step(0) == [1_000]
    zero = Timed(0)
    zero.step(0)
    assert zero.step(20, without_core_ms=20) == [1_020]
    never = Timed(-1)
    assert never.step(1_000) == [] and never.timer.at_ms is None


def test_nothing_is_due_when_nothing_waits() -> None:
    """An idle slot would be woken each few milliseconds."""
    one = Timed()
    one.step(0)
    one.step(1)
    one.edge.pending = False
    assert one.step(1, emits=False) == [] and one.timer.at_ms is None


def test_a_clock_that_is_set_back_holds_nothing() -> None:
    """What waits, barriers with it, would stay until the clock is where it was: for an hour."""
    one = Timed()
    one.step(0)
    assert one.step(1) == []
    one.step(-3_600_000)
    assert any(one.step(TIMEOUT_MS) for _ in range(10))
    one.step(-3_600_000)
    assert any(one.step(TIMEOUT_MS) for _ in range(10))
