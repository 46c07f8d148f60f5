"""What was on its way back, given to heads of another parallelism by the partitioner of the feedback."""

from __future__ import annotations

import pytest
from tests.unit.plain_buffers import encoded

from penstock.engine.runtime.network.buffer import NO_KEY_GROUP, Header
from penstock.engine.runtime.network.channel_log import ChannelLog, chunks_for, share_of
from penstock.engine.runtime.network.edge import EdgeInfo
from penstock.engine.runtime.network.partitioners import (
    BroadcastPartitioner,
    CustomPartitioner,
    ForwardPartitioner,
    GlobalPartitioner,
    HashPartitioner,
    Partitioner,
    RebalancePartitioner,
)
from penstock.engine.runtime.network.set_aside import BufferQueue
from penstock.engine.state.key_groups import KeyGroups, subtask_of

KEY_GROUPS = KeyGroups(128)
EDGES = (7, 9)


def edge(id: int, heads: int) -> EdgeInfo:
    """Return an edge to so many heads."""
    return EdgeInfo(
        id, 1, source_parallelism=1, target_parallelism=heads, source_level=0, target_level=1, widths=(1, heads)
    )


def logs(heads: int, copies: bool = False) -> list:
    """Two buffers of each head: head i has 10 i … 10 i + 3, or with `copies` all have 0 … 3."""
    logged = []
    for head in range(heads):
        log = ChannelLog([edge(id, heads) for id in EDGES], heads, BufferQueue(1 << 20, None))
        first = 0 if copies else 10 * head
        for id, values in zip(EDGES, ([first, first + 1], [first + 2, first + 3]), strict=True):
            log.append(encoded(Header(NO_KEY_GROUP, id, 0, 0, head, 0), [(values, [value * 2 for value in values])]))
        logged += list(log)
    return logged


def taken(partitioner: Partitioner, before: int, after: int, copies: bool = False) -> list[list[int]]:
    """What each head of the new parallelism takes."""
    edges = [(edge(id, after), partitioner) for id in EDGES]
    shares = []
    for subtask in range(after):
        values = []
        for logged in share_of(logs(before, copies), edges, subtask, after):
            for chunk in chunks_for(logged, edges, subtask=subtask, parallelism=after, key_groups=KEY_GROUPS):
                assert chunk.timestamps == [value * 2 for value in chunk.values], "each with its timestamp"
                values += chunk.values
        shares.append(values)
    return shares


def by_key(value: int, heads: int) -> int:
    return subtask_of(KEY_GROUPS[value], 128, heads)


PARTITIONERS = [
    ForwardPartitioner(), RebalancePartitioner(), GlobalPartitioner(), HashPartitioner(int),
    CustomPartitioner(lambda key, count: key % count, int),
]  # fmt: skip


@pytest.mark.parametrize("partitioner", [*PARTITIONERS, BroadcastPartitioner()], ids=repr)
def test_the_same_parallelism_takes_what_it_had(partitioner: Partitioner) -> None:
    """Each restart would mix what is in flight."""
    assert taken(partitioner, 2, 2) == [[0, 1, 2, 3], [10, 11, 12, 13]]


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (2, 3), (3, 2)])
@pytest.mark.parametrize("partitioner", PARTITIONERS, ids=repr)
def test_another_parallelism_takes_each_record_once(partitioner: Partitioner, before: int, after: int) -> None:
    """Records in flight would be lost or doubled by a rescale."""
    shares = taken(partitioner, before, after)
    expected = [10 * head + number for head in range(before) for number in range(4)]
    assert sorted(value for share in shares for value in share) == expected
    if isinstance(partitioner, HashPartitioner):
        assert all(by_key(value, after) == head for head, share in enumerate(shares) for value in share)
    if isinstance(partitioner, CustomPartitioner):
        assert all(value % after == head for head, share in enumerate(shares) for value in share)
    if isinstance(partitioner, GlobalPartitioner):
        assert shares[1:] == [[]] * (after - 1)


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (2, 3)])
def test_each_head_has_its_copy_of_a_broadcast(before: int, after: int) -> None:
    """A model that is fed back to all would reach some twice, and others never."""
    assert taken(BroadcastPartitioner(), before, after, copies=True) == [[0, 1, 2, 3]] * after
