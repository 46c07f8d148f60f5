"""Keyed state of a completed checkpoint, by key."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.state_processor.conftest import Snapshots, snapshots  # noqa: F401 - a fixture

from penstock.api.windows.window import TimeWindow
from penstock.common.errors import StateNotFoundError
from penstock.engine.snapshots.committed_state import CommittedState, StateName

COUNT = StateName("count", "count")


@pytest.fixture(params=["savepoint", "checkpoint"])
def state(request: pytest.FixtureRequest, snapshots: Snapshots) -> CommittedState:  # noqa: F811
    path: Path = getattr(snapshots, request.param)
    return CommittedState(str(path))


def test_a_key_is_answered_with_all_that_it_has(state: CommittedState) -> None:
    """A user would receive another key's state, or a part of the state."""
    for key in range(1, 100, 7):
        (row,) = state.of_key(COUNT, key)
        assert row[0] == key and row[1] in (key * key, -1)
    assert state.of_key(COUNT, 1_000) == [] and state.of_key(COUNT, "7") == []
    assert state.of_key(StateName("count", "totals"), 5) == [(5, {"all": 5})]
    assert state.of_key(StateName("count", "window/seen"), 7) == [(7, TimeWindow(0, 10), 7)]


def test_a_scan_ends_at_its_limit(state: CommittedState) -> None:
    """Reading some entries of a large state would take as long as reading all of it."""
    assert len(state.scan(COUNT, 5)) == 5
    assert sorted(row[0] for row in state.scan(COUNT, 1_000)) == list(range(100))
    assert state.scan(COUNT, 0) == []


def test_what_is_not_there_is_said_with_what_is(state: CommittedState) -> None:
    """A typing error would look like a key without state."""
    with pytest.raises(StateNotFoundError, match="'count'"):
        state.of_key(StateName("other", "count"), 1)
    with pytest.raises(StateNotFoundError, match="'totals'"):
        state.scan(StateName("count", "other"), 1)
    with pytest.raises(StateNotFoundError, match="queryable as 'x'"):
        state.named("x")
    with pytest.raises(StateNotFoundError, match=r"own name in 'count'\. .*: --operator count totals$"):
        state.named("totals")


def test_states_are_listed_with_their_types(state: CommittedState) -> None:
    """A user would have to know the program to query it."""
    infos = {info.state: info for info in state.states()}
    assert set(infos) == {"count", "names", "totals", "window/seen"}
    assert infos["count"].type == "value of Long" and infos["count"].uid == "count"


def test_few_groups_are_kept(snapshots: Snapshots) -> None:  # noqa: F811
    """The driver would gradually hold all of the state."""
    state = CommittedState(str(snapshots.checkpoint), cache_bytes=1)
    assert [state.of_key(COUNT, key) for key in (50, 60)] == [state.of_key(COUNT, key) for key in (50, 60)]
