"""The cache of values of an external store."""

from __future__ import annotations

from penstock.engine.state.backends.versioned.logged import ABSENT, RecentValues


def test_as_many_as_it_is_told_are_known_in_any_order_of_use() -> None:
    """If keys come in turn, one more than half of the cache's size, each would be requested each time."""
    recent = RecentValues(100)
    keys = [str(n).encode() for n in range(100)]
    for turn in range(5):
        for key in keys:
            assert recent.get(key) == (ABSENT if turn == 0 else b"v" + key)
            recent.put(key, b"v" + key)


def test_what_is_not_used_is_forgotten() -> None:
    """The memory of a worker would grow with each key."""
    recent = RecentValues(100)
    for n in range(10_000):
        recent.put(str(n).encode(), None)
    known = [n for n in range(10_000) if recent.get(str(n).encode()) is None]
    assert known and known[0] >= 10_000 - 200 and known[-1] == 9_999
