"""Entries whose time to live may have ended are examined soon, a few at a time, and finally removed."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.state.expiry import ExpiryScan, ExpiryWheel


class Entries:
    """Entries with the time of their expiry, as a state has them."""

    def __init__(self, ttl_ms: int) -> None:
        self.now_ms = 0
        self.times: dict[str, int] = {}
        self.expiry = ExpiryWheel(ttl_ms, self.alive, lambda name: name in self.times)
        self._ttl_ms = ttl_ms

    def write(self, name: str) -> None:
        self.expiry.touch(name, self.now_ms + self._ttl_ms)
        self.times[name] = self.now_ms + self._ttl_ms

    def remove(self, name: str) -> None:
        self.times.pop(name, None)

    def alive(self, name: str) -> int | None:
        if self.times.get(name, self.now_ms) <= self.now_ms:
            self.times.pop(name, None)
        return self.times.get(name)


@given(
    ttl_ms=st.integers(1, 1_000),
    writes=st.lists(st.tuples(st.integers(0, 300), st.sampled_from("abcde")), max_size=30),
    entries_max=st.integers(1, 4),
)
def test_each_entry_goes_soon_after_its_time_and_none_before(
    ttl_ms: int, writes: list[tuple[int, str]], entries_max: int
) -> None:
    """Memory would hold expired entries, or lose used ones."""
    entries = Entries(ttl_ms)
    late_ms = ttl_ms // 8 + 1
    for wait_ms, name in writes:
        entries.now_ms += wait_ms
        while (at := entries.expiry.next_ms) is not None and at <= entries.now_ms:
            before = {name for name, time in entries.times.items() if time > entries.now_ms}
            assert 0 < entries.expiry.expire(entries.now_ms, entries_max) <= entries_max
            assert before <= entries.times.keys()
        assert all(time + late_ms > entries.now_ms for time in entries.times.values())
        entries.write(name)
    while (at := entries.expiry.next_ms) is not None:
        entries.now_ms = max(at, entries.now_ms)
        entries.expiry.expire(entries.now_ms, entries_max)
    assert not entries.times


def test_nothing_is_examined_too_early() -> None:
    """A job with much state would search it over and over for nothing."""
    entries = Entries(800)
    entries.write("a")
    assert entries.expiry.next_ms is not None and 800 <= entries.expiry.next_ms <= 900
    assert entries.expiry.expire(799, 10) == 0
    entries.now_ms = 850
    entries.write("a")
    entries.now_ms = 900
    assert entries.expiry.expire(900, 10) == 1, "found alive, and to be examined again"
    assert entries.times == {"a": 1_650} and entries.expiry.next_ms > 1_600
    entries.expiry.clear()
    assert entries.expiry.next_ms is None and entries.expiry.expire(10_000, 10) == 0


def test_what_is_found_alive_is_examined_again() -> None:
    """An entry whose time was renewed without a write would stay forever."""
    entries = Entries(80)
    entries.write("a")
    entries.times["a"] = 1_000
    entries.now_ms = 500
    assert entries.expiry.expire(500, 10) == 1
    assert entries.expiry.next_ms is not None and 1_000 <= entries.expiry.next_ms <= 1_010
    entries.now_ms = entries.expiry.next_ms
    assert entries.expiry.expire(entries.now_ms, 10) == 1 and not entries.times
    assert entries.expiry.next_ms is None


@pytest.mark.thorough
def test_entries_that_are_removed_and_created_again_do_not_pile_up() -> None:
    """A key that comes and goes would take memory with each turn until its time to live is over."""
    entries = Entries(1_000_000)
    for name in range(500):
        entries.write(f"stays {name}")
    tracemalloc.start()
    for turn in range(50_000):
        entries.now_ms += 1
        entries.write(f"comes and goes {turn % 100}")
        entries.remove(f"comes and goes {(turn + 50) % 100}")
        entries.write(f"once {turn}")
        entries.remove(f"once {turn}")
        if entries.expiry.next_ms <= entries.now_ms:
            assert entries.expiry.expire(entries.now_ms, 10) <= 10
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 500_000, f"{size} bytes"
    expected = entries.times.copy()
    while (at := entries.expiry.next_ms) is not None:
        entries.now_ms = max(at, entries.now_ms)
        assert all(name in entries.times for name, time in expected.items() if time > entries.now_ms)
        entries.expiry.expire(entries.now_ms, 10)
    assert not entries.times


def test_an_entry_is_remembered_once_however_often_it_is_written() -> None:
    """The wheel would take more memory than the state."""
    entries = Entries(1_000_000)
    tracemalloc.start()
    for _ in range(20_000):
        entries.now_ms += 10
        entries.write("a")
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 2_000, f"{size} bytes"


class Scanned:
    """State that is scanned as a whole: entry key -> when it expires (ms)."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.entries: dict[str, int] = {}
        self.scans = 0

    def entry_keys(self) -> Iterator[str]:
        self.scans += 1
        return iter(list(self.entries))

    def alive(self, entry_key: str) -> int | None:
        expires_ms = self.entries.get(entry_key, 0)
        if expires_ms <= self.now_ms:
            self.entries.pop(entry_key, None)
            return None
        return expires_ms


def test_a_scan_removes_what_nobody_accesses_any_more() -> None:
    """State of users who never come back would fill the disk, or an index of them the memory."""
    state = Scanned()
    scan = ExpiryScan(100, state.alive, state.entry_keys, first_ms=100)
    state.entries = {f"k{number}": 50 if number < 7 else 180 for number in range(10)}
    assert scan.expire(99, 100) == 0 and scan.next_ms == 100
    state.now_ms = 100
    assert [scan.expire(100, 4), scan.expire(100, 4), scan.next_ms] == [4, 4, 100], "some at a time"
    assert scan.expire(100, 4) == 2 and scan.next_ms == 150
    assert len(state.entries) == 3
    state.now_ms = 200
    scan.expire(200, 100)
    assert (state.entries, scan.next_ms, state.scans) == ({}, None, 2), "nothing is left to do"
    scan.touch("k", 350)
    assert scan.next_ms == 350


def test_a_scan_that_takes_long_is_followed_by_a_pause() -> None:
    """With much state and a short time to live the task would do nothing else."""
    state = Scanned()
    scan = ExpiryScan(100, state.alive, state.entry_keys, first_ms=0)
    state.entries = dict.fromkeys(map(str, range(5_000)), 10_000)
    scan.expire(0, 4_000)
    scan.expire(300, 4_000)
    assert scan.next_ms == 300 + 5_000 * 0.02 / 0.1
    scan.expire(scan.next_ms, 4_000)
    scan.clear()
    assert scan.next_ms is None


def test_a_scan_of_little_is_soon_followed_by_the_next_one() -> None:
    """State would outlive its time tenfold in a task that seldom has something to do."""
    state = Scanned()
    scan = ExpiryScan(100, state.alive, state.entry_keys, first_ms=0)
    state.entries = dict.fromkeys(map(str, range(5)), 10_000)
    scan.expire(0, 4)
    scan.expire(300, 4)
    assert scan.next_ms == 350
