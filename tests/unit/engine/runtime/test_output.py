"""Output edges: records and elements in order, buffers that are full in time, errors that name the value."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.plain_buffers import decoded, encoded

from penstock.common.errors import UserFunctionError
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.network.buffer import (
    ELEMENTS,
    HEADER_BYTES,
    NO_KEY_GROUP,
    SORT_PREFIX_BYTES,
    CheckpointBarrier,
    Element,
    Header,
    LatencyMarker,
    Watermark,
    decode_header,
)
from penstock.engine.runtime.network.debloating import COLUMN_ROWS_MAX
from penstock.engine.runtime.network.edge import EdgeInfo
from penstock.engine.runtime.network.output import OutputEdge
from penstock.engine.runtime.network.partitioners import (
    BroadcastPartitioner,
    ForwardPartitioner,
    HashPartitioner,
    RebalancePartitioner,
)
from penstock.engine.runtime.network.sender import (
    BUFFER_RECORDS_MAX,
    USUAL_BUFFERS,
    BufferSender,
    BufferSize,
    Outbox,
    full_records,
)
from penstock.engine.runtime.task.budget import CHUNK_RECORDS_FIRST, Budget
from penstock.engine.runtime.task.context import OperatorContext, SubtaskInfo, TaskContext
from penstock.engine.runtime.task.metrics import OperatorCounters, TaskCounters
from penstock.engine.state.key_groups import KeyGroups, key_group_of


class Sent:
    """An edge from subtask 1 of 2, and what left by it."""

    def __init__(self, partitioner=None, receivers: int = 2, batched: bool = False, **settings) -> None:
        self.budget = Budget(lambda: 0, step_bytes=settings.pop("step_bytes", 1 << 20))
        self.budget.begin_step()
        self.counters = TaskCounters()
        self.outbox = Outbox(self.budget)
        info = EdgeInfo(7, 1, 2, receivers, 0, settings.pop("target_level", 1), (2, 3, 5))
        partitioner = partitioner or ForwardPartitioner()
        sender = BufferSender(
            info,
            1,
            outbox=self.outbox,
            budget=self.budget,
            counters=self.counters,
            attempt=3,
            sorts_rows=batched,
            channels=len(partitioner.targets(1, info.source_parallelism, info.target_parallelism)),
            size=BufferSize(**settings),
        )
        self.edge = OutputEdge(partitioner, sender, KeyGroups(128))

    def rows(self):
        return [(slot, decode_header(buffer), decoded(buffer)) for slot, buffer in self.outbox.take()]

    def segments(self, target: int = 1) -> list:
        return [s for _, header, segments in self.rows() if header.target == target for s in segments]

    def with_operator(self) -> Sent:
        info = SubtaskInfo("job", 0, "task", 1, 2, 128)
        task = TaskContext(info, lambda: 0, self.budget, KeyGroups(128))
        self.edge.sender.operator = OperatorContext(task, "my map", uid="", counters=OperatorCounters("my map"))
        return self


def test_the_header_survives_and_sorts() -> None:
    """Batched mode sorts rows by their first bytes: a wrong order would mix up key groups or a sender's records."""
    headers = [
        Header(group, edge, sender, sequence, target, 2)
        for group in (NO_KEY_GROUP, 0, 255, 256, 32_766)
        for edge in (0, 1, 300)
        for sender in (0, 255, 256)
        for sequence in (0, 127, 128, 70_000)
        for target in (0, 5)
    ]
    buffers = [encoded(header, []) for header in headers]
    assert [decode_header(buffer) for buffer in buffers] == headers
    assert sorted(buffers, key=lambda buffer: buffer[:SORT_PREFIX_BYTES]) == buffers
    assert SORT_PREFIX_BYTES <= HEADER_BYTES
    assert decode_header(encoded(Header(0, 0, 0, 0, 0, 70_000), [])).attempt == 70_000 & 0xFFFF


def test_nothing_leaves_before_it_is_full_or_flushed() -> None:
    """Each record would be a buffer of its own, at a hundred times the cost."""
    one = Sent()
    one.edge.emit(Rows([1, 2], [10, 20]))
    one.edge.emit(Rows([3], [30]))
    assert one.edge.pending
    assert one.rows() == []
    one.edge.flush()
    header = Header(NO_KEY_GROUP, 7, 1, 0, 1, 3)
    assert one.rows() == [(1, header, [([1, 2, 3], [10, 20, 30])])]
    assert not one.edge.pending
    one.edge.flush()
    assert one.rows() == []
    assert (one.counters.buffers_out, one.counters.bytes_out > HEADER_BYTES) == (1, True)


def test_sequence_numbers_count_each_channel() -> None:
    """A lost buffer would not be noticed."""
    one = Sent(RebalancePartitioner())
    for value in range(6):
        one.edge.emit(Rows([value]))
        one.edge.flush()
    rows = one.rows()
    assert [(header.target, header.sequence) for _, header, _ in rows] == [
        (1, 0),
        (0, 0),
        (1, 1),
        (0, 1),
        (1, 2),
        (0, 2),
    ]


def test_an_edge_that_skips_levels_takes_one_way() -> None:
    """Buffers of one sender would overtake each other in between."""
    one = Sent(RebalancePartitioner(), receivers=5, target_level=2)
    for value in range(10):
        one.edge.emit(Rows([value]))
        one.edge.flush()
    assert {slot for slot, _, _ in one.rows()} == {1}


def test_elements_keep_their_place_between_records() -> None:
    """A watermark would overtake its records, a barrier would divide them in the wrong place."""
    one = Sent()
    one.edge.emit(Rows([1], [10]))
    one.edge.element(Watermark(10))
    one.edge.element(CheckpointBarrier(1, 0))
    one.edge.emit(Rows([2], [20]))
    one.edge.emit(Rows([3], [30]))
    one.edge.flush()
    assert one.segments() == [([1], [10]), Watermark(10), CheckpointBarrier(1, 0), ([2, 3], [20, 30])]


def test_elements_go_to_all_channels_and_markers_to_one() -> None:
    """A channel without watermarks would hold event time back for ever."""
    one = Sent(RebalancePartitioner())
    one.edge.element(Watermark(1))
    one.edge.element_to_one(LatencyMarker(0, 0, 0), 3)
    one.edge.flush()
    rows = {header.target: segments for _, header, segments in one.rows()}
    assert rows == {0: [Watermark(1)], 1: [Watermark(1), LatencyMarker(0, 0, 0)]}


def test_records_with_and_without_timestamps_are_kept_apart() -> None:
    """A union of a stream with event time and one without would shift all timestamps."""
    one = Sent()
    one.edge.emit(Rows([1], [10]))
    one.edge.emit(Rows([2]))
    one.edge.emit(Rows([3]))
    one.edge.emit(Rows([4], [40]))
    one.edge.flush()
    assert one.segments() == [([1], [10]), ([2, 3], None), ([4], [40])]


def test_full_buffers_leave_at_once() -> None:
    """Memory would grow with the chunk, and the neighbour would wait for its first record."""
    one = Sent()
    values = list(range(10_000))
    one.edge.emit(Rows(values, values))
    one.edge.flush()
    segments = one.segments()
    assert len(segments) > 2
    assert [value for s in segments for value in s[0]] == values
    assert [timestamp for s in segments for timestamp in s[1]] == values


def test_how_many_records_fit_is_learnt_from_their_size() -> None:
    """Large records would make buffers of hundreds of megabytes, small ones thousands of tiny buffers."""
    large = Sent(bytes=10_000)
    for start in range(0, 1000, 100):
        large.edge.emit(Rows([f"{start + i:04}" * 250 for i in range(100)]))
    sizes = [len(segments[0][0]) for _, _, segments in large.rows()]
    assert sizes[0] == USUAL_BUFFERS.records_first
    assert set(sizes[1:]) == {9}
    huge = Sent(bytes=100)
    huge.edge.emit(Rows(["x" * 1000 + str(i) for i in range(600)]))
    huge.edge.emit(Rows(["x" * 1000 + str(i) for i in range(3)]))
    assert [len(segments[0][0]) for _, _, segments in huge.rows()][-3:] == [1, 1, 1]
    small = Sent()
    small.edge.emit(Rows([1] * 512))
    small.edge.emit(Rows([1] * 10_000))
    assert max(len(segments[0][0]) for _, _, segments in small.rows()) == BUFFER_RECORDS_MAX


def test_what_all_channels_gather_is_bounded() -> None:
    """With 8 channels 32,768 records would wait, more than caches hold, and cost twice as much to pickle."""
    assert [full_records(channels) for channels in (1, 2, 4, 8, 1_000)] == [4096, 4096, 2048, 1024, 512]
    many = Sent(RebalancePartitioner(), receivers=8)
    for _ in range(4):
        many.edge.emit(Rows([1] * 20_000))
    assert max(len(segments[0][0]) for _, _, segments in many.rows()) == full_records(8)


@pytest.mark.parametrize("between", ["watermark", "marker", "other kind"])
def test_a_buffer_gets_full_though_elements_lie_between_its_records(between: str) -> None:
    """With a buffer timeout of -1 nothing would ever be sent, and memory would grow till the task dies."""
    one = Sent()
    for n in range(6000):
        one.edge.emit(Rows([n], [n] if n % 2 or between != "other kind" else None))
        if between == "watermark":
            one.edge.element(Watermark(n))
        elif between == "marker":
            one.edge.element_to_one(LatencyMarker(0, 0, 0), n)
    rows = one.rows()
    assert len(rows) >= 2
    one.edge.flush()
    rows += one.rows()
    records = [value for _, _, segments in rows for s in segments if not isinstance(s, Element) for value in s[0]]
    assert records == list(range(6000))
    # What was learnt counts all the records of a buffer, not those of its last segment alone.
    assert one.budget.chunk_records > 500


def test_the_step_is_over_when_its_output_is_used_up() -> None:
    """A source would fill the memory with buffers that are not sent yet."""
    one = Sent(step_bytes=20_000)
    assert one.edge.emit(Rows(["x" * 10] * 512)) is True
    assert one.edge.emit(Rows(["y" * 100 + str(i) for i in range(5000)])) is False
    assert one.budget.chunk_records != CHUNK_RECORDS_FIRST


def test_broadcast_reaches_every_subtask_in_the_same_order() -> None:
    """Subtasks would decide by different rules."""
    one = Sent(BroadcastPartitioner(), receivers=3)
    one.edge.emit(Rows([1, 2]))
    one.edge.element(Watermark(5))
    one.edge.emit(Rows([3]))
    one.edge.flush()
    rows = one.rows()
    assert [(header.target, segments) for _, header, segments in rows] == [
        (target, [([1, 2], None), Watermark(5), ([3], None)]) for target in range(3)
    ]


def test_batched_buffers_hold_one_key_group_each_and_no_elements() -> None:
    """A task could not finish one group before the next, and would hold all keys in memory."""
    one = Sent(HashPartitioner(lambda value: value % 40), batched=True)
    one.edge.element(Watermark(1))
    one.edge.emit(Rows(list(range(400)), list(range(400))))
    one.edge.emit(Rows(list(range(400, 800)), list(range(400, 800))))
    one.edge.flush()
    seen = []
    for slot, header, segments in one.rows():
        ((values, timestamps),) = segments
        assert values == timestamps
        assert {key_group_of(value % 40, 128) for value in values} == {header.key_group}
        assert slot == header.target == header.key_group * 2 // 128
        seen += values
    assert sorted(seen) == list(range(800))


@given(
    st.lists(
        st.tuples(st.integers(1, 700), st.booleans()) | st.sampled_from(["element", "flush"]), min_size=1, max_size=12
    ),
    st.integers(50, 5000),
)
def test_whatever_comes_arrives_in_order(actions, buffer_bytes: int) -> None:
    """Some mix of chunks, watermarks and flushes would reorder, lose or double records."""
    one, sent, n = Sent(bytes=buffer_bytes), [], 0
    for action in actions:
        if action == "flush":
            one.edge.flush()
        elif action == "element":
            one.edge.element(Watermark(n))
            sent.append(Watermark(n))
        else:
            values = list(range(n, n + action[0]))
            n += action[0]
            one.edge.emit(Rows(values, values if action[1] else None))
            sent += [(value, value if action[1] else None) for value in values]
    one.edge.flush()
    arrived: list = []
    for segment in one.segments():
        if isinstance(segment, Element):
            arrived.append(segment)
        else:
            arrived += zip(segment[0], segment[1] or [None] * len(segment[0]), strict=True)
    assert arrived == sent


def test_a_value_that_cannot_be_pickled_is_named() -> None:
    """The error would speak of a list of 512 values and of pickle."""
    one = Sent().with_operator()
    one.edge.emit(Rows([1, {"lock": threading.Lock()}, 3]))
    with pytest.raises(
        UserFunctionError, match=r"operator 'my map'.*can't be pickled\n  value \{'lock': <unlocked"
    ) as raised:
        one.edge.flush()
    assert "Traceback" not in str(raised.value), "where penstock pickles helps nobody to find the value"


def test_a_value_that_cannot_be_pickled_is_named_behind_a_watermark() -> None:
    """The same, if it is not among the last records of its buffer."""
    one = Sent().with_operator()
    one.edge.emit(Rows([1, {"lock": threading.Lock()}]))
    one.edge.element(Watermark(5))
    one.edge.emit(Rows([3]))
    with pytest.raises(UserFunctionError, match=r"operator 'my map'.*can't be pickled\n  value \{'lock': <unlocked"):
        one.edge.flush()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"b": 1}, "KeyError"),
        ({"a": {1}}, "a set cannot be a key: {1}; return tuple(sorted(key))"),
        ({"a": [{1}]}, "a set cannot be a key: {1}"),
        ({"a": numpy.int64(7)}, "a int64 cannot be a key: np.int64(7); return key.item() instead"),
        ({"a": float("nan")}, "NaN cannot be a key"),
    ],
)
def test_a_value_without_a_proper_key_is_named(value, message: str) -> None:
    """A single malformed record would be reported by a bare KeyError."""
    one = Sent(HashPartitioner(lambda record: record["a"])).with_operator()
    with pytest.raises(UserFunctionError) as caught:
        one.edge.emit(Rows([{"a": 1}, value, {"a": 2}]))
    assert "operator 'my map'" in str(caught.value)
    assert "in key selector" in str(caught.value)
    assert message in str(caught.value)
    if message != "NaN cannot be a key":
        assert f"value {value}" in str(caught.value)


def test_each_edge_has_a_partitioner_of_its_own() -> None:
    """Of two streams from one `rebalance()` one would get everything twice and the other nothing."""
    shared = RebalancePartitioner()
    one, two = Sent(shared), Sent(shared)
    one.edge.emit(Rows([1, 2]))
    one.edge.flush()
    two.edge.flush()
    assert [segments for _, _, segments in one.rows()] == [[([2], None)], [([1], None)]]
    assert two.rows() == []


def test_an_outbox_counts_what_it_takes() -> None:
    """Steps would have no bound."""
    budget = SimpleNamespace(output_bytes=0)
    outbox = Outbox(budget)
    outbox.put(1, b"abc")
    outbox.put(0, b"de")
    assert (outbox.take(), outbox.take(), budget.output_bytes) == ([(1, b"abc"), (0, b"de")], [], 5)


def test_a_budget_ends_by_time_or_by_output() -> None:
    """A watermark that fires a million timers would delay the next barrier."""
    now = 0
    budget = Budget(lambda: now, step_ns=10, step_bytes=100)
    assert budget.begin_step() == 0
    assert budget.may_continue()
    now = 10
    assert not budget.may_continue()
    budget.begin_step()
    budget.output_bytes = 100
    assert not budget.may_continue()
    budget.begin_step()
    assert budget.may_continue()


@pytest.mark.parametrize("timed", [False, True])
def test_records_that_grow_suddenly_leave_in_pieces(timed: bool) -> None:
    """Spark keeps memory for the largest row it has seen: one of hundreds of megabytes would slow down all others."""
    sent = Sent(ForwardPartitioner(), bytes=10_000)
    small = list(range(5000))
    sent.edge.emit(Rows(small, small if timed else None))
    sent.edge.flush()
    sent.rows()
    large = [bytes([n % 256]) * 1000 for n in range(2000)]
    sent.edge.emit(Rows(large, list(range(2000)) if timed else None))
    sent.edge.flush()
    rows = sent.rows()
    sequence = [header.sequence for _, header, _ in rows]
    assert sequence == list(range(sequence[0], sequence[0] + len(rows))), "pieces have numbers of their own"
    assert [value for _, _, segments in rows for values, _ in segments for value in values] == large
    if timed:
        assert [at for _, _, segments in rows for _, times in segments for at in times] == list(range(2000))
    assert max(len(segments[0][0]) for _, _, segments in rows) <= 20


@pytest.mark.parametrize("timed", [False, True])
def test_lists_and_dicts_as_keys_find_one_subtask(timed: bool) -> None:
    """PyFlink takes them: a program that is moved here would fail, or send a part of a chunk twice."""
    one = Sent(HashPartitioner(lambda record: record[0]))
    records = [("a", 1), ([1, 2], 2), ({"b": 1}, 3), ([1, 2], 4), ("a", 5), (("c", [1]), 6)]
    one.edge.emit(Rows(records, list(range(6)) if timed else None))
    one.edge.emit(Rows([([1, 2], 7)], [6] if timed else None))
    one.edge.flush()
    sent = [(header.target, values) for _, header, segments in one.rows() for values, _ in segments]
    assert sorted(number for _, values in sent for _, number in values) == [1, 2, 3, 4, 5, 6, 7]
    assert len({target for target, values in sent for key, _ in values if key == [1, 2]}) == 1


def test_small_buffers_are_measured_without_their_frame() -> None:
    """It is forty bytes: each buffer would have a single record, and a row cost more than what it brings."""
    sent = Sent(records_first=1)
    sent.edge.sender.limit_buffers(60)
    sent.edge.emit(Rows([*range(1_000, 1_400)]))
    records = [len(segments[0][0]) for _, _, segments in sent.rows()]
    assert min(records[5:-1]) >= 60 // 4
    assert max(records) <= 60


def test_a_watermark_is_no_measure_of_records() -> None:
    """The next buffer would have a single record: they would seem to be as large as it."""
    sent = Sent(records_first=1 << 17)
    sent.edge.sender.limit_buffers(60)
    sent.edge.emit(Rows([1_000]))
    sent.edge.element(Watermark(1_790_000_000_000))
    sent.edge.flush()
    sent.edge.emit(Rows([*range(1_000, 1_100)]))
    records = [len(one[0]) for _, _, segments in sent.rows() for one in segments if isinstance(one, tuple)]
    assert records[0] == 1 and records[1] >= 60 // 8


def test_without_a_limit_buffers_are_as_large_as_they_may_be() -> None:
    """The largest rows bound what Spark keeps in memory."""
    sent = Sent(bytes=200, records_first=1)
    sent.edge.sender.limit_buffers(20)
    sent.edge.sender.limit_buffers(None)
    sent.edge.emit(Rows([*range(1_000, 1_900)]))
    measured = [len(buffer) for _, buffer in sent.outbox.take()][2:]
    assert 150 < max(measured) <= 200


def test_a_target_has_smaller_buffers_than_another_one() -> None:
    """One that takes a second for a record would get as many at a time as one that takes millions."""
    sent = Sent(BroadcastPartitioner(), records_first=1)
    sent.edge.limit_buffers({1: 30, 0: 3_000}.get, COLUMN_ROWS_MAX)
    sent.edge.emit(Rows([*range(10_000, 18_000)]))
    sent.edge.limit_buffers({1: 30, 0: 3_000}.get, COLUMN_ROWS_MAX)
    records: dict[int, list[int]] = {0: [], 1: []}
    for slot, _, segments in sent.rows():
        records[slot].append(len(segments[0][0]))
    assert max(records[1][5:]) <= 30
    assert 500 <= max(records[0][5:]) <= 3_000
    sent.edge.limit_buffers({1: 30}.get, COLUMN_ROWS_MAX)
    sent.edge.emit(Rows([*range(10_000, 40_000)]))
    assert max(len(segments[0][0]) for slot, _, segments in sent.rows() if slot == 0) > 3_000


def test_every_type_of_element_is_known() -> None:
    """An element of a type that is not listed would be taken for a chunk of records."""
    assert set(ELEMENTS) == set(Element.__subclasses__())
