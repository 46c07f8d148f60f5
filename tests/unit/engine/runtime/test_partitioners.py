"""Partitioners: which subtask a record goes to."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.network.partitioners import (
    Accumulator,
    BroadcastPartitioner,
    CustomPartitioner,
    ForwardPartitioner,
    GlobalPartitioner,
    HashPartitioner,
    RebalancePartitioner,
    RescalePartitioner,
    ShufflePartitioner,
)
from penstock.engine.state.key_groups import KeyGroups, key_group_of, subtask_of


def sent(partitioner, values, receivers: int = 3, sender: int = 0, senders: int = 2, at=None, chunk: int = 2):
    """What each receiver gets of `values`, sent in chunks."""
    channels = [Accumulator(target) for target in partitioner.targets(sender, senders, receivers)]
    partitioner.setup(channels, sender)
    if isinstance(partitioner, HashPartitioner):
        by_target = {channel.target: channel for channel in channels}
        partitioner.setup_groups(lambda group: by_target[subtask_of(group, 128, receivers)], KeyGroups(128))
    for start in range(0, len(values), chunk):
        stop = start + chunk
        partitioner.distribute(Rows(values[start:stop], None if at is None else at[start:stop]))
    if at is not None:
        for channel in channels:
            assert channel.timestamps == [at[values.index(value)] for value in channel.values]
    else:
        assert not any(channel.timestamps for channel in channels)
    return {channel.target: channel.values for channel in channels}


ALL = [
    lambda: BroadcastPartitioner(),
    lambda: RebalancePartitioner(),
    lambda: RescalePartitioner(),
    lambda: ShufflePartitioner(),
    lambda: GlobalPartitioner(),
    lambda: HashPartitioner(lambda value: value % 5),
    lambda: CustomPartitioner(lambda key, count: key % count, lambda value: value),
]


@pytest.mark.parametrize("make", ALL)
def test_records_arrive_with_their_timestamps_and_in_order(make) -> None:
    """Windows would get records at the time of others; a key's records would overtake each other."""
    values = list(range(100, 150))
    timed = sent(make(), values, at=[10 * value for value in values])
    assert timed == sent(make(), values)
    for received in timed.values():
        assert received == sorted(received)
    copies = 3 if isinstance(make(), BroadcastPartitioner) else 1
    assert Counter(value for received in timed.values() for value in received) == dict.fromkeys(values, copies)


@pytest.mark.parametrize("make", ALL)
def test_a_task_that_runs_again_sends_the_same_to_the_same(make) -> None:
    """In batched mode a re-run would double some records downstream and lose others."""
    values = list(range(1000))
    assert sent(make(), values, chunk=7) == sent(make(), values, chunk=7)


def test_forward_stays_in_its_subtask() -> None:
    """Order between neighbours, which forward() promises, would be lost."""
    assert sent(ForwardPartitioner(), [1, 2, 3], sender=1) == {1: [1, 2, 3]}


def test_global_sends_records_to_the_first_but_reaches_all() -> None:
    """The other subtasks would never learn that time goes on, or that the job has ended."""
    assert sent(GlobalPartitioner(), [1, 2, 3]) == {0: [1, 2, 3], 1: [], 2: []}


def test_rebalance_goes_round_over_chunks() -> None:
    """With small chunks the first subtask would get nearly everything."""
    assert sent(RebalancePartitioner(), list(range(9))) == {0: [0, 3, 6], 1: [1, 4, 7], 2: [2, 5, 8]}
    assert sent(RebalancePartitioner(), list(range(4)), sender=1) == {0: [2], 1: [0, 3], 2: [1]}
    assert sent(RebalancePartitioner(), [7], sender=5) == {0: [], 1: [], 2: [7]}


@given(st.integers(1, 20), st.integers(1, 20))
def test_rescale_covers_every_receiver_evenly(senders: int, receivers: int) -> None:
    """A subtask would have no input at all, or all of it."""
    shares = [RescalePartitioner().targets(sender, senders, receivers) for sender in range(senders)]
    feeding = Counter(target for share in shares for target in share)
    assert sorted(feeding) == list(range(receivers))
    assert max(feeding.values()) - min(feeding.values()) <= 1
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    if senders == receivers:
        assert [list(share) for share in shares] == [[i] for i in range(senders)]


def test_shuffle_is_even_and_differs_between_senders() -> None:
    """All senders would hit the same subtask at the same time."""
    first, second = (sent(ShufflePartitioner(), list(range(3000)), sender=sender) for sender in (0, 1))
    assert all(850 < len(received) < 1150 for received in first.values())
    assert first != second


def test_hash_sends_a_key_to_the_owner_of_its_group() -> None:
    """Records would arrive where their state is not."""
    received = sent(HashPartitioner(lambda value: value % 50), list(range(500)))
    for target, values in received.items():
        assert {subtask_of(key_group_of(value % 50, 128), 128, 3) for value in values} <= {target}


@pytest.mark.parametrize(("keys", "sought"), [(10, 10), (11, 22)])
def test_hash_forgets_its_routes_when_they_grow_many(keys: int, sought: int) -> None:
    """A stream of ever new keys would fill the memory of its sender."""
    partitioner = HashPartitioner(lambda value: value, cached_keys_max=10)
    channel = Accumulator(0)
    groups: list[int] = []

    def of_group(group: int) -> Accumulator:
        groups.append(group)
        return channel

    partitioner.setup([channel], 0)
    partitioner.setup_groups(of_group, KeyGroups(128))
    for _ in range(2):
        partitioner.distribute(Rows(list(range(keys))))
    assert channel.values == [*range(keys), *range(keys)]
    assert len(groups) == sought


@pytest.mark.parametrize("index", [-1, 3, 99])
def test_a_custom_partitioner_must_name_a_subtask_that_is_there(index: int) -> None:
    """-1 would quietly mean the last one."""
    with pytest.raises(ValueError, match=f"returned {index} for 'x'; it must be from 0 to 2"):
        sent(CustomPartitioner(lambda key, count: index, lambda value: value), ["x"])
