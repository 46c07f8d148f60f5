"""What comes to be in flight, in time, between a source that has millions and a receiver: both rules, in one loop.

A model of two slots and the pipe between them, by a virtual clock: what the real ones add is the size of their steps.
"""

from __future__ import annotations

from collections import deque

import pytest

from penstock.engine.runtime.network.debloating import (
    FIRST_MS,
    FREE_BUFFER_BYTES_MIN,
    INTERVAL_MS_MAX,
    InFlight,
    Intake,
)

TARGET_MS = 1_000
PIPE_MS = 5
ROW_BYTES_MAX = 1 << 17
SOURCE_BYTES_PER_MS = 20_000
"""Much more than any receiver takes."""


class Line:
    """A source, a pipe, and a receiver that takes `rate` bytes a millisecond. What is stopped does nothing."""

    def __init__(self, rate: float) -> None:
        self.now_ms = 0
        self.rate = rate
        self.source_bytes_per_ms: float = SOURCE_BYTES_PER_MS
        self.sent = {0: 0}
        self.taken = 0
        self.said = 0
        self.generated = 0.0
        self._in_flight = InFlight(self.sent)
        self._intake = Intake(TARGET_MS, 0)
        self._pipe: deque[tuple[int, int]] = deque()
        self._aside: deque[int] = deque()
        self._advice: deque[tuple[int, object]] = deque()
        self._work_ms = 0.0

    @property
    def seconds_in_flight(self) -> float:
        """How long the receiver needs for it."""
        return ((self.sent[0] - self.taken) / self.rate + self._work_ms) / 1_000

    def run(
        self, ms: int, source: bool = True, receiver: bool = True, heard: bool = True, blocked: bool = False
    ) -> float:
        """Let time pass. Returns the most that was in flight, in seconds.

        `blocked`: the receiver sets aside what comes, as it waits for the barrier of another sender.
        """
        most = 0.0
        for _ in range(ms):
            self.now_ms += 1
            if source:
                self._send(heard)
            if receiver:
                self._take(blocked)
            most = max(most, self.seconds_in_flight)
        return most

    def _send(self, heard: bool) -> None:
        while self._advice and self._advice[0][0] <= self.now_ms:
            _, advice = self._advice.popleft()
            if heard:
                self._in_flight.advise(0, advice, self.now_ms)  # type: ignore[arg-type]
        # What a real source has to give waits while it may not.
        self.generated = min(self.generated + self.source_bytes_per_ms, 1e9)
        if self._in_flight.update(self.now_ms):
            return
        row_bytes = min(self._in_flight.buffer_sizes()(0) or ROW_BYTES_MAX, ROW_BYTES_MAX)
        left = min(SOURCE_BYTES_PER_MS, self.generated)
        while left > 0 and self._in_flight.allows(0, self.sent[0]):
            size = int(min(row_bytes, max(1, self.generated)))
            self._pipe.append((self.now_ms + PIPE_MS, size))
            self.sent[0] += size
            self.generated -= size
            left -= size

    def _take(self, blocked: bool) -> None:
        idle_ms = max(0.0, 1 - self._work_ms)
        self._work_ms = max(0.0, self._work_ms - 1)
        while idle_ms and not (self._aside and not blocked) and self._pipe and self._pipe[0][0] <= self.now_ms:
            _, size = self._pipe.popleft()
            self._intake.received(0, size)
            self._aside.append(size)
            if not blocked:
                break
        while idle_ms and self._aside and not blocked:
            size = self._aside.popleft()
            self.taken += size
            self._intake.started(0, size)
            work_ms = size / self.rate
            self._work_ms = max(0.0, work_ms - idle_ms)
            idle_ms = max(0.0, idle_ms - work_ms)
        if idle_ms:
            self._intake.idle(int(idle_ms * 1e6))
        for advice in self._intake.advice(self.now_ms).values():
            self.said += 1
            self._advice.append((self.now_ms + PIPE_MS, advice))


RATES = [5, 100, 5_000]
"""Bytes a millisecond: 500 small records a second, 10,000, and half a million."""


def behind_a_wait(rate: int) -> float:
    """How many seconds may be in flight to a receiver that was free: its target, and buffers that are not small."""
    return 1.5 + 2 * FREE_BUFFER_BYTES_MIN / rate / 1_000


@pytest.mark.parametrize("rate", RATES)
def test_a_busy_receiver_is_sent_what_it_takes_in_the_target_time(rate: int) -> None:
    """It would run dry, or records be old."""
    line = Line(rate)
    assert line.run(10_000) < 1.5
    before = line.taken
    line.run(5_000)
    assert line.taken - before > 0.9 * 5_000 * rate


@pytest.mark.parametrize("rate", RATES)
def test_what_comes_after_the_source_was_stopped_is_no_more(rate: int) -> None:
    """Its receiver waits for input meanwhile, and would be sent millions of records until it is busy again."""
    line = Line(rate)
    line.run(5_000)
    line.run(8_000, source=False)
    assert line.run(5_000) < behind_a_wait(rate)
    assert line.run(5_000) < 1.5


@pytest.mark.parametrize("rate", RATES)
def test_what_comes_while_the_receiver_is_stopped_is_in_proportion(rate: int) -> None:
    """A call of eight seconds would be followed by an hour's work, and so would the next checkpoint."""
    line = Line(rate)
    line.run(5_000)
    assert line.run(8_000, receiver=False) < 8 + 1.5
    assert line.run(60_000) < 8 + 1.5
    assert line.run(5_000) < 1.5


@pytest.mark.parametrize("rate", RATES)
def test_what_comes_while_a_sink_opens_is_little(rate: int) -> None:
    """A sink that loads a model for 20 s would begin with all that there is."""
    line = Line(rate)
    line.run(20_000, receiver=False)
    assert line.sent[0] < 64_000
    line.run(60_000)
    assert line.run(5_000) < 1.5


@pytest.mark.parametrize("rate", RATES)
def test_what_comes_while_a_barrier_is_waited_for_is_in_proportion(rate: int) -> None:
    """One source is stopped before its barrier. The other would send all that it has; or would hold its whole slot."""
    line = Line(rate)
    line.run(5_000)
    sent = line.sent[0]
    assert line.run(8_000, blocked=True) < 8 + behind_a_wait(rate)
    assert line.sent[0] - sent > 0.5 * 8_000 * rate
    before = line.sent[0]
    line.run(2_000)
    assert line.sent[0] - before < 2_000 * rate / 2, "it does not go on to send as much as before"
    assert line.run(60_000) < 8 + behind_a_wait(rate)
    assert line.run(5_000) < 1.5


def test_a_job_whose_advice_does_not_get_through_goes_on() -> None:
    """It would crawl for ever."""
    line = Line(5_000)
    line.run(61_000, heard=False)
    before = line.taken
    line.run(5_000, heard=False)
    assert line.taken - before > 0.9 * 5_000 * 5_000


def test_a_receiver_that_is_not_heard_any_more_still_gets_a_fifth_of_what_it_takes() -> None:
    """It would be given up."""
    line = Line(5_000)
    line.run(5_000)
    line.run(2_000, heard=False)
    before = line.taken
    line.run(10_000, heard=False)
    assert line.taken - before > 0.2 * 10_000 * 5_000


def test_bursts_to_a_free_receiver_are_not_held() -> None:
    """A burst that it takes in a fifth of a second would wait for advice."""
    line = Line(500)
    line.source_bytes_per_ms = 1
    line.run(5_000)
    for _ in range(3):
        # Nothing has shown before that it takes so much at once.
        line.generated = 100_000
        line.run(200)
        assert line.generated < 1_000
        line.run(800)
    for _ in range(20):
        line.generated = 100_000
        line.run(10)
        assert line.generated < 100
        line.run(990)


def test_a_free_receiver_says_little() -> None:
    """A job without back pressure would pay for messages to each pair of slots, eight times a second."""
    line = Line(5_000)
    line.source_bytes_per_ms = 1_000
    line.run(5_000)
    said = line.said
    line.run(10_000)
    assert line.said - said < 10_000 / INTERVAL_MS_MAX
    assert line.said - said > 10_000 * FIRST_MS / 1e6
