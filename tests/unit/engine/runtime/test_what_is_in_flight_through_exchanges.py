"""What comes to be in flight through several exchanges, of cheap stages, before a slow one: both rules, in all slots.

A model of slots and the pipes between them, by a virtual clock: a stage measures itself before what is behind it holds
it, and each pair of slots has a limit of its own.
"""

from __future__ import annotations

from collections import deque

import pytest

from penstock.engine.runtime.network.debloating import Advice, InFlight, Intake

TARGET_MS = 1_000
PIPE_MS = 10
FLUSH_MS = 5
ROW_BYTES_MAX = 1 << 17
RECORD_BYTES = 4
SOURCE_MS, CHEAP_MS, SLOW_MS = 0.0005, 0.002, 2.0
"""What a record takes."""


class ModelSlot:
    """Takes rows, a record in `record_ms`, and passes their bytes on, to all targets in turn."""

    def __init__(self, exchanges: Exchanges, level: int, index: int, record_ms: float) -> None:
        self.done_bytes = 0.0
        self.is_stopped = False
        self.pipe: deque[tuple[int, int, int]] = deque()
        self.advice: deque[tuple[int, int, Advice]] = deque()
        self._exchanges, self._level, self._index = exchanges, level, index
        self._byte_ms = record_ms / RECORD_BYTES
        self._sent: dict[int, int] = {}
        self._in_flight = InFlight(self._sent)
        self._intake = Intake(TARGET_MS // exchanges.count, 0)
        self._row_bytes = 0.0
        """What is left of the row in hand."""
        self._overdrawn_ms = 0.0
        """What the last record has taken of the time to come."""
        self._gathered = [0.0] * exchanges.parallelism
        self._target = index

    def step(self, now_ms: int) -> None:
        """A millisecond."""
        if self.is_stopped:
            return
        while self.advice and self.advice[0][0] <= now_ms:
            _, sender, advice = self.advice.popleft()
            self._in_flight.advise(sender, advice, now_ms)
        if not self._in_flight.update(now_ms):
            idle_ms = self._work(now_ms, 1.0 - self._overdrawn_ms)
            self._overdrawn_ms = max(0.0, -idle_ms)
            self._intake.idle(int(max(0.0, idle_ms) * 1e6))
        for sender, advice in self._intake.advice(now_ms).items():
            self._exchanges.slots[self._level - 1][sender].advice.append((now_ms + PIPE_MS, self._index, advice))

    def _work(self, now_ms: int, left_ms: float) -> float:
        """Returns how much time is left: with room for more, it waits for input."""
        has_room = True
        while left_ms > 0 and has_room and self._takes(now_ms):
            most = max(map(self._buffer_bytes, range(self._exchanges.parallelism)))
            piece = min(self._row_bytes, max(RECORD_BYTES, min(most, left_ms / self._byte_ms)))
            self._row_bytes -= piece
            self.done_bytes += piece
            left_ms -= piece * self._byte_ms
            has_room = self._emit(now_ms, piece)
        if now_ms % FLUSH_MS == 0:
            for target, gathered in enumerate(self._gathered):
                if gathered >= 1:
                    self._send(now_ms, target, gathered)
        return left_ms if has_room else min(0.0, left_ms)

    def _takes(self, now_ms: int) -> bool:
        if self._level == 0:
            self._row_bytes = ROW_BYTES_MAX
        elif self._row_bytes <= 0 and self.pipe and self.pipe[0][0] <= now_ms:
            _, sender, self._row_bytes = self.pipe.popleft()
            self._intake.received(sender, int(self._row_bytes))
            self._intake.started(sender, int(self._row_bytes))
        return self._row_bytes > 0

    def _buffer_bytes(self, target: int) -> int:
        return min(self._in_flight.buffer_sizes()(target) or ROW_BYTES_MAX, ROW_BYTES_MAX)

    def _emit(self, now_ms: int, size: float) -> bool:
        if self._level == self._exchanges.count:
            return True
        has_room = True
        parallelism = self._exchanges.parallelism
        # A record is not divided.
        parts = max(1, min(parallelism, int(size / RECORD_BYTES)))
        for _ in range(parts):
            target = self._target = (self._target + 1) % parallelism
            self._gathered[target] += size / parts
            if self._gathered[target] >= self._buffer_bytes(target):
                has_room = self._send(now_ms, target, self._gathered[target]) and has_room
        return has_room

    def _send(self, now_ms: int, target: int, size: float) -> bool:
        self._gathered[target] = 0.0
        self._sent[target] = self._sent.get(target, 0) + int(size)
        self._exchanges.slots[self._level + 1][target].pipe.append((now_ms + PIPE_MS, self._index, int(size)))
        return self._in_flight.allows(target, self._sent[target])


class Exchanges:
    """A source that has millions, so many exchanges of cheap stages, and a slow one behind the last."""

    def __init__(self, parallelism: int, count: int, slow_ms: float = SLOW_MS) -> None:
        self.parallelism, self.count = parallelism, count
        self.records_per_s = parallelism * 1_000 / slow_ms
        self._now_ms = 0
        self.slots: list[list[ModelSlot]] = []
        for level, record_ms in enumerate([SOURCE_MS, *[CHEAP_MS] * (count - 1), slow_ms]):
            self.slots.append([ModelSlot(self, level, index, record_ms) for index in range(parallelism)])

    def stop(self, level: int, stopped: bool = True) -> None:
        """All slots of a level do nothing, or go on."""
        for slot in self.slots[level]:
            slot.is_stopped = stopped

    def done(self, level: int) -> float:
        """Records."""
        return sum(slot.done_bytes for slot in self.slots[level]) / RECORD_BYTES

    def run(self, ms: int) -> float:
        """Let time pass. Returns the most that was in flight, in seconds of what the last stage takes."""
        most = 0.0
        for _ in range(ms):
            self._now_ms += 1
            for slots in self.slots:
                for slot in slots:
                    slot.step(self._now_ms)
            most = max(most, self.done(0) - self.done(-1))
        return most / self.records_per_s


@pytest.mark.thorough
@pytest.mark.parametrize(("parallelism", "count", "most_s"), [(2, 3, 2), (4, 4, 2), (1, 6, 5)])
def test_a_start_behind_cheap_stages_is_in_time(parallelism: int, count: int, most_s: int) -> None:
    """Each would ask for as much as it takes by itself: minutes of what the last one takes, and no checkpoint ends.

    That the last one is slow is known to the first only so many messages later, and it has doubled with each.
    """
    line = Exchanges(parallelism, count)
    assert line.run(3_000) < most_s
    line.run(2_000)
    before = line.done(-1)
    assert line.run(5_000) < 1.6
    assert line.done(-1) - before > 0.95 * 5 * line.records_per_s


def test_a_fast_line_is_not_slowed() -> None:
    """Half a million records a second would wait for advice."""
    line = Exchanges(2, 3, slow_ms=CHEAP_MS)
    line.run(1_000)
    before = line.done(-1)
    assert line.run(2_000) < 1
    assert line.done(-1) - before > 0.9 * 2 * line.records_per_s


@pytest.mark.thorough
def test_a_very_slow_stage_is_seconds_behind_not_hours() -> None:
    """A hundred records a second from each slot, and a limit for each pair of slots."""
    line = Exchanges(4, 3, slow_ms=20)
    assert line.run(8_000) < 6


@pytest.mark.thorough
def test_what_comes_while_the_slow_stage_opens_or_is_stopped_is_in_proportion() -> None:
    """Each stage before it would add to what is in flight while it is held."""
    line = Exchanges(2, 3)
    line.stop(-1)
    assert line.run(8_000) < 2
    line.stop(-1, stopped=False)
    assert line.run(4_000) < 3
    line.stop(-1)
    line.run(8_000)
    line.stop(-1, stopped=False)
    assert line.run(2_000) < 8 + 1.5
    line.run(10_000)
    assert line.run(2_000) < 1.5
