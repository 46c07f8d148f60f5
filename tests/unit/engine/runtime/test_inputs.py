"""Operators with several inputs, in real tasks and slots: order, event time, barriers and the end, input by input."""

from __future__ import annotations

import itertools
from operator import itemgetter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.plain_buffers import decoded, encoded

from penstock.api.state.descriptors import MapStateDescriptor
from penstock.common import Types
from penstock.common.constants import MAX_TIMESTAMP
from penstock.common.errors import UserFunctionError
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.execution_mode import BATCH, STREAMING
from penstock.engine.runtime.network.buffer import (
    NO_KEY_GROUP,
    SORT_PREFIX_BYTES,
    CheckpointBarrier,
    EndOfData,
    Header,
    Watermark,
    WatermarkStatus,
    decode_header,
)
from penstock.engine.runtime.network.edge import EdgeInfo
from penstock.engine.runtime.network.partitioners import (
    BroadcastPartitioner,
    ForwardPartitioner,
    HashPartitioner,
    RebalancePartitioner,
)
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.keyed import KeyedOperator
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.operators.stateless import FlatMapOperator
from penstock.engine.runtime.operators.two_inputs import inputs_of
from penstock.engine.runtime.task.environment import Environment
from penstock.engine.runtime.task.events import Acknowledge, DataEnded, InputEnded, SnapshotWritten, WriteSnapshot
from penstock.engine.runtime.task.slot import Slot
from penstock.engine.runtime.task.task import TaskState
from penstock.engine.runtime.task.vertex import ChainLink, ChainNode, LevelSpec, VertexSpec
from penstock.hosts.simulator.storage import MemoryStorage

A, B, OUT = 0, 1, 2
"""Two edges in, to the first and the second input, and one out."""
SENDERS = {A: 2, B: 1}


class CoMap(Operator):
    """Emits what arrives with the name of its input, and a note at the end of each."""

    def setup(self, context, output):
        super().setup(context, output)
        self.both = inputs_of(self, self.first, self.second)

    def inputs(self):
        return self.both

    def first(self, chunk):
        values, timestamps = chunk.values, chunk.timestamps
        return self.output.emit(Rows([("a", value) for value in values], timestamps))

    def second(self, chunk):
        values, timestamps = chunk.values, chunk.timestamps
        return self.output.emit(Rows([("b", value) for value in values], timestamps))

    def end_input(self, index=0):
        return self.output.emit(Rows([("ends", index)]))

    def finish(self):
        return self.output.emit(Rows(["finished"]))


class Orders(KeyedOperator):
    """Two keyed inputs: a customer's name, and orders, which are emitted with it now and once more by a timer."""

    timer_method = "reminder"

    def __init__(self) -> None:
        super().__init__("Orders", lambda customer: customer[0])

    def setup(self, context, output):
        super().setup(context, output)
        self.names = self.backend.layered("names")
        self.both = inputs_of(self, self.customers, self.orders)

    def key_selectors(self):
        return self.key_selector, itemgetter("customer")

    def inputs(self):
        return self.both

    def customers(self, chunk):
        values = chunk.values
        for key, (_, name) in zip(self.keys_of(values), values, strict=True):
            self.names.current[key] = name
        return True

    def orders(self, chunk):
        values, timestamps = chunk.values, chunk.timestamps
        keys = self.keys_of(values, self.key_selectors()[1])
        for index, key in enumerate(keys):
            self.backend.key = key
            if timestamps is not None:
                self.timer_service.register_event_time_timer(timestamps[index] + 10)
        return self.output.emit(Rows([(self.name_of(key), order["n"]) for key, order in zip(keys, values)], timestamps))  # noqa: B905

    def fire(self, domain, timestamp, key, namespace):
        return [("reminder", self.name_of(key), timestamp)]

    def name_of(self, key):
        return self.names.current.get(key) or self.names.older(key)


RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())


class Ruled(KeyedOperator):
    """A keyed input, and one of rules that every subtask gets."""

    def __init__(self) -> None:
        super().__init__("Ruled", lambda value: value[0])

    def setup(self, context, output):
        super().setup(context, output)
        self.rules = context.operator_states.get_broadcast_state(RULES)
        self.both = inputs_of(self, self.values, self.put_rules)

    def inputs(self):
        return self.both

    def values(self, chunk):
        values, timestamps = chunk.values, chunk.timestamps
        return self.output.emit(Rows([(key, value, dict(self.rules.items())) for key, value in values], timestamps))

    def put_rules(self, chunk):
        values = chunk.values
        for name, factor in values:
            self.rules.put(name, factor)
        return True

    def end_key(self):
        return self.output.emit(Rows(["end of the key"])) and super().end_key()


class Echoing(Ruled):
    """Emits the rules, too."""

    def put_rules(self, chunk):
        values, timestamps = chunk.values, chunk.timestamps
        return self.output.emit(Rows(values, timestamps))


class Host:
    """Subtask 0 of one vertex whose head has two inputs, as a host drives it."""

    def __init__(
        self,
        *operators,
        batched: bool = False,
        exactly_once: bool = True,
        first=None,
        second=None,
        tick_ns: int = 0,
    ) -> None:
        self.now_ms = 1000
        readings = itertools.count(step=tick_ns) if tick_ns else itertools.repeat(0)
        self.storage = MemoryStorage(Random(0), 0)
        self.widths = (2, 1, 1)
        edges = {
            edge: EdgeInfo(edge, 2, senders, 1, 0, 1, self.widths, input_index=edge)
            for edge, senders in SENDERS.items()
        }
        out = EdgeInfo(OUT, 3, 1, 1, 1, 2, self.widths)
        nodes = [ChainNode(op, "", [ChainLink(operator=n + 1)], str(n)) for n, op in enumerate(operators)]
        nodes[-1].links = [ChainLink(edge=OUT)]
        inputs = [(edges[A], first or RebalancePartitioner()), (edges[B], second or RebalancePartitioner())]
        vertex = VertexSpec(2, "vertex", 1, 128, nodes, inputs, [(out, ForwardPartitioner())])
        level = LevelSpec(
            "job", 1, self.widths, [vertex], edges, BATCH if batched else STREAMING, exactly_once=exactly_once
        )
        self.slot = Slot(level, 0, Environment(lambda: self.now_ms, lambda: next(readings)))
        self.task = self.slot.tasks[2]
        self.slot.open()
        self.sequences: dict[tuple[int, int], int] = {}

    def row(self, edge: int, sender: int, *segments, group: int = NO_KEY_GROUP) -> bytes:
        parts = [(segment, None) if isinstance(segment, list) else segment for segment in segments]
        sequence = self.sequences.get((edge, sender), 0)
        self.sequences[edge, sender] = sequence + 1
        return encoded(Header(group, edge, sender, sequence, 0, 0), parts)

    def sends(self, edge: int, sender: int, *segments) -> Host:
        """A buffer arrives. A list means records without timestamps."""
        self.slot.receive(self.row(edge, sender, *segments))
        return self

    def works(self) -> Host:
        for _ in range(1000):
            busy = self.slot.step()
            self.task.check()
            if not busy:
                return self
        raise AssertionError("the task is never done")

    def left(self) -> list:
        """What was sent since the last call, in order."""
        self.works()
        self.now_ms += 5
        self.works()
        sent: list = []
        for _, buffer in self.slot.outbox.take():
            assert decode_header(buffer).edge == OUT
            for segment in decoded(buffer):
                sent.extend(segment[0] if isinstance(segment, tuple) else [segment])
        return sent

    def acknowledged(self) -> list[int]:
        """Checkpoints that the task acknowledges, once the snapshots that it asks for are written."""
        numbers = []
        for effect in self.slot.take_effects():
            if isinstance(effect, WriteSnapshot):
                *_, state = yielded(effect.snapshot.write(self.storage))
                self.slot.handle(2, SnapshotWritten(effect.snapshot.checkpoint_id, state))
                numbers += self.acknowledged()
            elif isinstance(effect, Acknowledge):
                numbers.append(effect.checkpoint_id)
        return numbers


def yielded(generator) -> list:
    """All that a generator yields, then what it returns."""
    result: list = []
    while True:
        try:
            result.append(next(generator))
        except StopIteration as end:
            return [*result, end.value]


def test_each_input_has_its_own_process_and_channels_keep_their_order() -> None:
    """Records of one stream would be given to the function of the other."""
    host = Host(CoMap("co-map"))
    host.sends(A, 0, [1, 2]).sends(B, 0, [3]).sends(A, 1, [4]).sends(B, 0, [5])
    assert host.left() == [("a", 1), ("a", 2), ("b", 3), ("a", 4), ("b", 5)]
    assert host.task.chain.counters[0].records_in == 5


def test_event_time_is_the_minimum_over_the_inputs_and_their_channels() -> None:
    """Timers of a join would fire before the slower stream has caught up."""
    host = Host(Orders())
    host.sends(A, 0, [("c", "Ada")]).sends(B, 0, ([{"customer": "c", "n": 1}], [100]))
    assert host.left() == [("Ada", 1)]
    host.sends(B, 0, Watermark(500)).sends(A, 0, Watermark(500))
    assert host.left() == [], "the second channel of the first input has no watermark yet"
    host.sends(A, 1, Watermark(109))
    assert host.left() == [Watermark(109)]
    assert host.task.chain.counters[0].watermark == 109
    host.sends(A, 1, Watermark(600))
    assert host.left() == [("reminder", "Ada", 110), Watermark(500)]


def test_an_idle_input_holds_nothing_back() -> None:
    """A stream of rules that rarely change would stop the windows of the stream that they are for."""
    host = Host(Orders())
    host.sends(A, 0, Watermark(50)).sends(A, 1, Watermark(60)).sends(B, 0, Watermark(10))
    assert host.left() == [Watermark(10)]
    host.sends(B, 0, WatermarkStatus(False))
    assert host.left() == [Watermark(50)]
    host.sends(A, 0, WatermarkStatus(False)).sends(A, 1, WatermarkStatus(False))
    assert host.left() == [Watermark(60), WatermarkStatus(False)]
    host.sends(B, 0, WatermarkStatus(True))
    assert host.left() == [WatermarkStatus(True)]


@pytest.mark.parametrize("exactly_once", [True, False])
def test_barriers_are_aligned_over_the_channels_of_all_inputs(exactly_once: bool) -> None:
    """State would hold records of one stream from after the checkpoint: they would count twice after a failure."""
    host = Host(CoMap("co-map"), exactly_once=exactly_once)
    barrier = CheckpointBarrier(1, 0)
    host.sends(A, 0, [1], barrier, [2]).sends(B, 0, [3], barrier, [4]).sends(A, 1, [5]).works()
    assert host.acknowledged() == []
    host.sends(A, 1, barrier, [6])
    before, after = [("a", 1), ("b", 3), ("a", 5)], [("a", 2), ("b", 4), ("a", 6)]
    overtook = [("a", 1), ("a", 2), ("b", 3), ("b", 4), ("a", 5), barrier, ("a", 6)]
    assert host.left() == ([*before, barrier, *after] if exactly_once else overtook)
    assert host.acknowledged() == [1]


def test_an_input_ends_when_its_channels_have_and_the_task_when_all_inputs_have() -> None:
    """A join would emit what it held back for a stream that goes on, or never end."""
    host = Host(CoMap("co-map"))
    host.sends(B, 0, [1], EndOfData()).sends(A, 0, EndOfData())
    assert host.left() == [("b", 1), ("ends", 1)]
    assert host.task.state is TaskState.RUNNING
    host.sends(A, 1, [2], EndOfData())
    assert host.left() == [("a", 2), ("ends", 0), "finished", EndOfData()]
    assert [type(effect) for effect in host.slot.take_effects()] == [DataEnded]


def test_a_chain_that_pauses_on_one_input_is_not_given_the_other() -> None:
    """Results of one record would be torn apart by those of another, or lost."""
    exploding = FlatMapOperator("explode", UserFunction(lambda value: iter([(value, n) for n in range(5)]), "flat_map"))
    host = Host(CoMap("co-map"), exploding, tick_ns=1_000_000)
    host.slot.budget.chunk_records = 2
    host.sends(A, 0, [1]).sends(B, 0, [2], Watermark(7)).sends(A, 0, Watermark(7)).sends(A, 1, Watermark(7))
    assert host.slot.step()
    assert host.task.chain.paused
    assert host.left() == [*((("a", 1), n) for n in range(5)), *((("b", 2), n) for n in range(5)), Watermark(7)]


def test_the_key_selector_of_each_input_names_the_value_that_it_fails_on() -> None:
    """A record without its key would have to be searched for in both streams."""
    host = Host(Orders()).sends(B, 0, [{"customer": "c", "n": 1}, {"n": 2}])
    with pytest.raises(UserFunctionError, match=r"in key selector\n.*'n': 2"):
        host.works()


def by_key(row):
    """What Spark sorts the rows of a batched task by."""
    return row[:SORT_PREFIX_BYTES]


def reads(host: Host, rows: list[bytes]) -> list:
    """What a batched task makes of rows."""
    for row in sorted(rows, key=by_key):
        host.slot.receive(row)
        host.works()
    host.slot.handle_all(InputEnded())
    host.works()
    assert host.task.state is TaskState.DATA_ENDED
    return host.left()


def test_a_batched_task_reads_the_broadcast_input_before_all_keys() -> None:
    """Records would be judged by half of the rules, other ones each time the task runs."""
    host = Host(Ruled(), batched=True, first=HashPartitioner(lambda value: value[0]), second=BroadcastPartitioner())
    rows = [
        host.row(A, 0, [("x", 1)], group=3),
        host.row(A, 1, [("y", 2)], group=5),
        host.row(B, 0, [("double", 2)]),
        host.row(A, 1, [("x", 3)], group=3),
        host.row(B, 0, [("triple", 3)]),
    ]
    rules = {"double": 2, "triple": 3}
    ends = "end of the key"
    assert reads(host, rows) == [("x", 1, rules), ("x", 3, rules), ends, ("y", 2, rules), ends]


def test_what_a_broadcast_input_emits_in_a_batch_is_sent_without_a_single_key() -> None:
    """Results for rules that no record follows would be lost."""
    host = Host(Echoing(), batched=True, first=HashPartitioner(lambda value: value[0]), second=BroadcastPartitioner())
    assert reads(host, [host.row(B, 0, [("double", 2)])]) == [("double", 2)]


class Closing(Echoing):
    """Emits at the end of each input, and at its own."""

    def end_input(self, index=0):
        return self.output.emit(Rows([("ends", index)]))

    def finish(self):
        return self.output.emit(Rows(["finished"]))


def test_what_a_keyed_operator_emits_at_its_end_is_sent_in_a_batch() -> None:
    """The last results of a function, or the state that a savepoint is made of, would be lost."""
    host = Host(Closing(), batched=True, first=HashPartitioner(lambda value: value[0]), second=BroadcastPartitioner())
    out = reads(host, [host.row(A, 0, [("x", 1)], group=3)])
    assert out == [("x", 1, {}), "end of the key", ("ends", 0), ("ends", 1), "finished"]


JOIN = {"first": HashPartitioner(itemgetter(0)), "second": HashPartitioner(itemgetter("customer"))}


def test_a_batched_task_merges_its_keyed_inputs_key_by_key() -> None:
    """A batched join would have to hold all of one stream, or would miss the records of the other."""
    host = Host(Orders(), batched=True, **JOIN)
    rows = [
        host.row(B, 0, ([{"customer": "c", "n": 1}], [100]), group=4),
        host.row(A, 0, [("d", "Bob")], group=9),
        host.row(A, 1, [("c", "Ada")], group=4),
        host.row(B, 0, ([{"customer": "d", "n": 2}], [200]), group=9),
    ]
    assert reads(host, rows) == [("Ada", 1), ("reminder", "Ada", 110), ("Bob", 2), ("reminder", "Bob", 210)]


def test_a_batched_task_merges_the_records_of_a_key_by_time() -> None:
    """An order would be shipped to an address that its customer has had before, or after."""
    host = Host(Orders(), batched=True, **JOIN)
    orders = [{"customer": "c", "n": n} for n in range(3)]
    rows = [
        host.row(A, 0, ([("c", "Ada"), ("c", "Bea")], [5, 15]), group=4),
        host.row(B, 0, (orders, [20, 10, 0]), group=4),
        host.row(A, 1, ([("c", "Cleo"), ("d", "Dora")], [12, 1]), group=4),
    ]
    assert [value for value in reads(host, rows) if value[0] != "reminder"] == [(None, 2), ("Ada", 1), ("Bea", 0)]


@pytest.mark.parametrize("selector", ["customer", "order"])
def test_the_key_selector_of_each_batched_input_names_the_value_that_it_fails_on(selector: str) -> None:
    """A record without its key would have to be searched for in both streams."""
    host = Host(Orders(), batched=True, **JOIN)
    bad = host.row(A, 0, [None], group=4) if selector == "customer" else host.row(B, 0, [{"n": 2}], group=4)
    with pytest.raises(UserFunctionError, match=r"in key selector\n  value (None|\{'n': 2\})"):
        reads(host, [bad])


CHANNELS = [(A, 0), (A, 1), (B, 0)]
STREAMS = st.lists(st.sampled_from(["record", "watermark", "barrier", "idle", "active"]), max_size=12)


@settings(max_examples=100)
@given(streams=st.tuples(STREAMS, STREAMS, STREAMS), order=st.randoms(use_true_random=False))
def test_any_interleaving_of_the_inputs_is_cut_cleanly(streams, order) -> None:
    """Under some timing records would be on the wrong side of a barrier, overtake each other, or be late."""
    host = Host(CoMap("co-map"))
    barriers = min(stream.count("barrier") for stream in streams)
    queues = {channel: script(channel, stream, barriers) for channel, stream in zip(CHANNELS, streams, strict=True)}
    expected = {channel: list(queue) for channel, queue in queues.items()}
    sent: list = []
    while any(queues.values()):
        channel = order.choice([channel for channel, queue in queues.items() if queue])
        host.sends(*channel, queues[channel].pop(0))
        if order.random() < 0.5:
            host.works()
        if order.random() < 0.3:
            sent += host.left()
    sent += host.left()
    assert sent[-1] == EndOfData()
    for channel in CHANNELS:
        came = [item for item in sent if isinstance(item, CheckpointBarrier) or of(channel, item)]
        kept = [item for item in expected[channel] if isinstance(item, (CheckpointBarrier, list))]
        assert [item if isinstance(item, CheckpointBarrier) else [item[1]] for item in came] == kept
    watermarks = [item.timestamp for item in sent if isinstance(item, Watermark)]
    assert watermarks == sorted(set(watermarks))
    assert watermarks[-1] == MAX_TIMESTAMP


def of(channel, item) -> bool:
    """Whether a value was sent by this channel."""
    return isinstance(item, tuple) and item[0] in ("a", "b") and item[1][0] == channel


def script(channel, stream, barriers) -> list:
    """What one channel sends: numbered records, watermarks that grow, as many barriers as the others, the end."""
    items: list = []
    last_checkpoint = 0
    for position, kind in enumerate(stream):
        if kind == "record":
            items.append([(channel, position)])
        elif kind == "barrier":
            if last_checkpoint < barriers:
                last_checkpoint += 1
                items.append(CheckpointBarrier(last_checkpoint, 0))
        else:
            items.append(Watermark(position) if kind == "watermark" else WatermarkStatus(kind == "active"))
    return [*items, WatermarkStatus(True), Watermark(MAX_TIMESTAMP), EndOfData()]
