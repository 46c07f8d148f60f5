"""Key groups: who owns which key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.state.key_groups import (
    MAX_PARALLELISM_BOUND,
    KeyGroups,
    default_max_parallelism,
    key_group_of,
    key_group_range,
    subtask_of,
)
from penstock.engine.state.keys import KeyTypeError

SCALES = st.integers(1, 700).flatmap(lambda p: st.tuples(st.just(p), st.integers(p, 4 * p + 50)))


@given(SCALES)
def test_ranges_partition_the_key_groups(scale) -> None:
    """After a rescale a part of the state would have no owner, or two."""
    parallelism, max_parallelism = scale
    ranges = [key_group_range(i, max_parallelism, parallelism) for i in range(parallelism)]
    assert [group for r in ranges for group in r] == list(range(max_parallelism))
    assert all(ranges), "a subtask without key groups would never see a record"
    sizes = [len(r) for r in ranges]
    assert max(sizes) - min(sizes) <= 1


@given(SCALES)
def test_records_go_to_the_subtask_that_owns_their_group(scale) -> None:
    """Records would arrive where their state is not."""
    parallelism, max_parallelism = scale
    for subtask in range(parallelism):
        for group in key_group_range(subtask, max_parallelism, parallelism):
            assert subtask_of(group, max_parallelism, parallelism) == subtask


@pytest.mark.parametrize(
    ("parallelism", "expected"), [(1, 128), (85, 128), (86, 256), (170, 256), (171, 256), (172, 512), (30_000, 32_768)]
)
def test_the_default_is_that_of_flink(parallelism: int, expected: int) -> None:
    """A job could be scaled out less far than its Flink twin."""
    assert default_max_parallelism(parallelism) == expected
    assert default_max_parallelism(parallelism) <= MAX_PARALLELISM_BOUND


@pytest.mark.parametrize(
    "keys", [range(20_000), [f"user-{i}" for i in range(20_000)], [(i % 7, i) for i in range(20_000)]]
)
def test_groups_are_filled_evenly(keys) -> None:
    """One subtask would do the work of two."""
    counts = [0] * 128
    for key in keys:
        counts[key_group_of(key, 128)] += 1
    assert min(counts) > 100
    assert max(counts) < 220


def test_a_key_stays_in_its_group_for_ever() -> None:
    """A savepoint of an older release would be read by the wrong subtasks."""
    assert [key_group_of(key, 128) for key in ("JFK", "LGA", 1, None, ("a", 1))] == [
        KeyGroups(128)[key] for key in ("JFK", "LGA", 1.0, None, ("a", True))
    ]
    assert [key_group_of(i, 128) for i in range(4)] == [99, 20, 36, 23]


def test_the_cache_forgets_when_it_grows_large() -> None:
    """A stream of constantly new keys would fill the memory."""
    groups = KeyGroups(128, cached_keys_max=10)
    for key in range(35):
        assert groups[key] == key_group_of(key, 128)
        assert len(groups) <= 10
    with pytest.raises(KeyTypeError):
        groups[frozenset()]


@given(st.integers(1, 128), st.integers(1, 128), st.text(max_size=5) | st.integers() | st.none())
def test_a_rescale_takes_a_key_to_one_other_subtask(before: int, after: int, key) -> None:
    """A new subtask would restore only a part of its groups, or the state of a key would be duplicated."""
    group = key_group_of(key, 128)
    owners = [
        [subtask for subtask in range(parallelism) if group in key_group_range(subtask, 128, parallelism)]
        for parallelism in (before, after)
    ]
    assert owners == [[subtask_of(group, 128, before)], [subtask_of(group, 128, after)]]


@given(st.integers(1, 40_000))
def test_the_default_leaves_room_to_grow(parallelism: int) -> None:
    """A job could not be scaled out without losing its state."""
    groups = default_max_parallelism(parallelism)
    assert 128 <= groups <= MAX_PARALLELISM_BOUND and groups.bit_count() == 1
    assert groups >= min(parallelism * 3 // 2, MAX_PARALLELISM_BOUND)


@given(st.integers(1, MAX_PARALLELISM_BOUND), st.integers() | st.text(max_size=3) | st.floats(allow_nan=False))
def test_each_key_has_a_group_within_the_maximum(max_parallelism: int, key) -> None:
    """A record would be sent to a subtask that does not exist."""
    groups = KeyGroups(max_parallelism)
    assert 0 <= groups[key] < max_parallelism
    assert groups[key] == key_group_of(key, max_parallelism) == KeyGroups(max_parallelism)[key]
