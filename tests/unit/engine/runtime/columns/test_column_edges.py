"""Columns on edges: encoded without a change, sent to the subtasks of rows, stored with their schema."""

from __future__ import annotations

import datetime
from decimal import Decimal
from itertools import chain, repeat
from typing import Any

import msgspec
import numpy
import pyarrow
import pytest

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.errors import CheckpointError
from penstock.common.functions.field_key import FieldKey
from penstock.common.typeinfo import Types
from penstock.engine.runtime.chunks import ChunkKind, EncodedColumns, Rows
from penstock.engine.runtime.columns.accumulator import ColumnAccumulator
from penstock.engine.runtime.columns.chunk import Columns, joined
from penstock.engine.runtime.columns.codec import decoder, encoded
from penstock.engine.runtime.columns.gathering import ColumnGathering
from penstock.engine.runtime.network.buffer import (
    NO_KEY_GROUP,
    Header,
    Watermark,
    decode_items,
    encode,
)
from penstock.engine.runtime.network.channel_log import ChannelLog, chunks_for
from penstock.engine.runtime.network.debloating import COLUMN_ROWS_MAX
from penstock.engine.runtime.network.edge import EdgeInfo
from penstock.engine.runtime.network.output import OutputEdge
from penstock.engine.runtime.network.partitioners import (
    BroadcastPartitioner,
    CustomPartitioner,
    ForwardPartitioner,
    GlobalPartitioner,
    HashPartitioner,
    Partitioner,
    RebalancePartitioner,
    ShufflePartitioner,
)
from penstock.engine.runtime.network.sender import BufferSender, BufferSize, Outbox
from penstock.engine.runtime.network.set_aside import BufferQueue
from penstock.engine.runtime.network.worth import IN_ROWS, Price
from penstock.engine.runtime.task.budget import Budget
from penstock.engine.runtime.task.metrics import TaskCounters
from penstock.engine.state.key_groups import KeyGroups, subtask_of

MANY = 500
MOMENT = datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999)


def batch_of(**columns: Any) -> pyarrow.RecordBatch:
    """Return a batch of these columns."""
    return pyarrow.record_batch(columns)


def schema_bytes(batch: pyarrow.RecordBatch) -> bytes:
    """Return the schema as an edge has it."""
    return batch.schema.serialize().to_pybytes()


BATCHES = {
    "integers": batch_of(x=pyarrow.array(range(MANY)), y=pyarrow.array([-5] * MANY, pyarrow.int32())),
    "far apart": batch_of(x=pyarrow.array([-(1 << 63), (1 << 63) - 1] * MANY)),
    **{
        f"{bits} bits": batch_of(x=pyarrow.array([5, 4 + (1 << bits)] * MANY), y=pyarrow.array([0, 1 << bits] * MANY))
        for bits in (8, 16, 32)
    },
    "negative": batch_of(x=pyarrow.array([-(1 << 63), 255 - (1 << 63)] * MANY)),
    "nulls": batch_of(x=pyarrow.array([1, None, 3] * MANY), s=pyarrow.array([None, "b", ""] * MANY)),
    "floats": batch_of(x=pyarrow.array([0.5, float("nan"), None, -0.0] * MANY)),
    "times": batch_of(t=pyarrow.array([MOMENT, None] * MANY), u=pyarrow.array([MOMENT] * 2 * MANY)),
    "zoned": batch_of(t=pyarrow.array([1, 1 << 40] * MANY, pyarrow.timestamp("ns", "Europe/Zurich"))),
    "lists": batch_of(x=pyarrow.array([[1, None], None, []] * MANY)),
    "structs": batch_of(r=pyarrow.array([{"a": 1}, None, {"a": None}] * MANY)),
    "few": batch_of(x=pyarrow.array([7])),
    "decimals": batch_of(d=pyarrow.array([Decimal("1.50"), None] * MANY)),
}  # fmt: skip


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("timed", [True, False])
def test_columns_arrive_as_they_were_sent(name: str, timed: bool) -> None:
    """A value, a null or a time would change on the way, where integers are narrowed."""
    batch = BATCHES[name]
    times = numpy.arange(batch.num_rows) * 1000 - 5 if timed else None
    header = Header(NO_KEY_GROUP, 1, 0, sequence=0, target=0, attempt=0, kind=ChunkKind.COLUMNS)
    item, element = decode_items(encode(header, [Columns(batch, times), Watermark(5)]))
    assert isinstance(item, EncodedColumns) and len(item) == batch.num_rows and element == Watermark(5)
    arrived = decoder(edge(batch, 1))(item)
    assert arrived.batch.equals(batch, check_metadata=True) or "nan" in str(arrived.batch.column(0)[1])
    assert str(arrived.batch.to_pylist()) == str(batch.to_pylist()) and arrived.batch.schema == batch.schema
    assert (arrived.timestamps is None) is not timed
    assert not timed or numpy.array_equal(arrived.timestamps, times)
    assert arrived.kinds is None


def kinds_of(count: int) -> Any:
    """Return kinds of rows, all four in turn."""
    return (numpy.arange(count) % 4).astype(numpy.uint8)


def test_kinds_of_rows_arrive() -> None:
    """A changelog would become inserts; so would one of two chunks that are sent together."""
    batch = batch_of(x=numpy.arange(MANY))
    inserts, changes = Columns(batch), Columns(batch, None, kinds_of(MANY))
    arrived = decoder(edge(batch, 1))(encoded(joined([inserts, changes])))
    assert arrived.kinds is not None and arrived.kinds.tolist() == [0] * MANY + kinds_of(MANY).tolist()


@pytest.mark.parametrize(
    ("field", "times"),
    [
        ("ms", list(range(0, 1000, 10))),
        ("us", [value // 1000 for value in range(-50, 50)]),
    ],
)
def test_timestamps_that_are_a_column_are_not_sent_twice(field: str, times: list[int]) -> None:
    """A record would have another time behind the exchange, or its bytes twice."""
    us = pyarrow.array(range(-50, 50), pyarrow.timestamp("us"))
    batch = batch_of(ms=pyarrow.array(range(0, 1000, 10)), us=us, k=pyarrow.array([1] * 100))
    info = msgspec.structs.replace(edge(batch, 1), event_time_field=field)
    sent = sent_by_gathering(Columns(batch, numpy.array(times)), info)
    assert sent.timestamps is None
    arrived = decoder(info)(sent)
    assert arrived.timestamps is not None and arrived.timestamps.tolist() == times
    log = ChannelLog([info], 1, BufferQueue(1 << 20, None))
    header = Header(NO_KEY_GROUP, 4, 0, sequence=0, target=0, attempt=0, kind=ChunkKind.COLUMNS)
    log.append(encode(header, [sent]))
    edges = [(info, ForwardPartitioner())]
    (stored,) = chunks_for(next(iter(log)), edges, subtask=0, parallelism=1, key_groups=KeyGroups(128))
    assert isinstance(stored, Columns) and stored.timestamps is not None and stored.timestamps.tolist() == times


def sender_of(info: EdgeInfo, first: int, outbox: Outbox | None = None, channels: int = 1) -> BufferSender:
    """Return the sender of an edge whose first buffer has `first` records."""
    budget = Budget(lambda: 0)
    return BufferSender(
        info,
        0,
        outbox=outbox or Outbox(budget),
        budget=budget,
        counters=TaskCounters(),
        attempt=0,
        sorts_rows=False,
        channels=channels,
        size=BufferSize(records_first=first),
    )


@pytest.mark.parametrize(
    ("channels", "width", "most"),
    [(1, 8, 1 << 18), (4, 8, 1 << 18), (5, 8, 1 << 17), (1_000, 8, 1 << 17), (1, 1, 1 << 17)],
)
def test_buffers_are_large_when_many_columns_come_and_small_otherwise(channels: int, width: int, most: int) -> None:
    """A MB would cost a fourth more; on many channels it would be memory, and rows of few bytes would cost more."""
    numbers = numpy.random.default_rng(1).random(1_000)
    batch = batch_of(**{str(place): numbers for place in range(width)})
    outbox = Outbox(Budget(lambda: 0))
    gathering = ColumnGathering(ForwardPartitioner(), sender_of(edge(batch, 1), 16, outbox, channels), KeyGroups(128))
    for _ in range(200):
        gathering.add(Columns(batch))
    large = [len(buffer) for _, buffer in outbox.take()][2:]
    assert max(large) <= most + 500 and sorted(large)[len(large) // 2] > 0.95 * most
    gathering.flush()
    outbox.take()
    gathering.add(Columns(batch).part(0, 100))
    gathering.flush()
    ((_, buffer),) = outbox.take()
    assert len(buffer) < 800 * width + 900


def test_a_host_that_shares_memory_gets_columns_that_cost_less_time() -> None:
    """Texts would become dictionaries to save bytes that are not copied."""
    batch = batch_of(s=[f"a text of twenty {number % 20:03d}" for number in range(2_000)])
    few = batch.slice(0, 550)
    sizes = {}
    for price in (IN_ROWS, Price(1 << 14)):
        for count, rows in (("many", batch), ("few", few)):
            outbox = Outbox(Budget(lambda: 0))
            outbox.price = price
            sender = sender_of(edge(batch, 1), len(rows), outbox)
            gathering = ColumnGathering(ForwardPartitioner(), sender, KeyGroups(128))
            gathering.add(Columns(rows))
            ((_, buffer),) = outbox.take()
            sizes[count, price.shared_from is not None] = len(buffer)
    assert sizes["many", False] < 3_000 and sizes["many", True] > 40_000
    # A row too small for the memory is copied by Spark, and its bytes have Spark's price.
    assert sizes["few", True] == sizes["few", False] < few.nbytes // 5 < 1 << 14


def test_all_chunks_of_a_buffer_count_for_its_price() -> None:
    """Many small chunks of one buffer would be encoded although the buffer is not copied."""
    batch = batch_of(s=[f"a text of twenty {number % 20:03d}" for number in range(550)])
    header = Header(NO_KEY_GROUP, 1, sender=0, sequence=0, target=0, attempt=1, kind=ChunkKind.COLUMNS)
    one, three = ([item for _ in range(count) for item in (Columns(batch), Watermark(1))] for count in (1, 3))
    assert len(encode(header, one, Price(1 << 14))) == len(encode(header, one)) < batch.nbytes // 5
    assert len(encode(header, three, Price(1 << 14))) > 3 * batch.nbytes
    assert len(encode(header, [Columns(batch.slice(0, 319))] * 9, Price(1 << 14))) > 9 * 319 * 20


@pytest.mark.parametrize(("width", "least", "most"), [(1, 256, 256), (10_000, 8, 26)])
def test_a_slow_task_gets_columns_in_buffers_that_are_worth_a_call(width: int, least: int, most: int) -> None:
    """Each call of a model would get one row; but wide rows fill a buffer earlier."""
    batch = batch_of(k=["x" * width] * 20)
    sender = sender_of(edge(batch, 1), 1)
    gathering = ColumnGathering(ForwardPartitioner(), sender, KeyGroups(128))
    for _ in range(50):
        sender.limit_buffers(100)
        gathering.add(Columns(batch))
        sender.limit_buffers(100)
    assert least <= sender.records_max <= most


def test_columns_for_a_target_that_takes_little_are_few() -> None:
    """A subtask with an expensive function would get 30,000 rows at a time, as its neighbor takes all that come."""
    batch = batch_of(k=[*range(4_000)])
    outbox, info = Outbox(Budget(lambda: 0)), edge(batch, 2)
    sender = sender_of(info, 2, outbox, channels=2)
    sent = OutputEdge(BroadcastPartitioner(), sender, KeyGroups(128))
    for _ in range(20):
        sent.limit_buffers({0: 1 << 15, 1: 100}.get, COLUMN_ROWS_MAX)
        sent.emit(Columns(batch))
    rows: dict[int, list[int]] = {0: [], 1: []}
    for target, buffer in outbox.take():
        rows[target] += [item.records for item in decode_items(buffer) if isinstance(item, EncodedColumns)]
    assert {*rows[1][8:]} == {COLUMN_ROWS_MAX}
    assert max(rows[0]) > 10 * COLUMN_ROWS_MAX


def sent_by_gathering(columns: Columns, info: EdgeInfo) -> EncodedColumns:
    """Return the one chunk that an edge sends."""
    outbox = Outbox(Budget(lambda: 0))
    gathering = ColumnGathering(ForwardPartitioner(), sender_of(info, len(columns) + 1, outbox), KeyGroups(128))
    gathering.add(columns)
    gathering.flush()
    (((_, buffer),),) = [outbox.take()]
    (item,) = decode_items(buffer)
    assert isinstance(item, EncodedColumns)
    return item


def test_a_slice_is_sent_as_a_slice() -> None:
    """Twenty rows of a hundred thousand would take the bytes of all."""
    batch = batch_of(x=numpy.random.default_rng(1).random(100_000), s=["text"] * 100_000)
    columns = Columns(batch, numpy.arange(100_000)).part(500, 520)
    sent = encoded(columns)
    assert not sent.forms and len(sent.batch) < 2_000
    assert decoder(edge(batch, 1))(encoded(columns)).batch.to_pylist() == batch.slice(500, 20).to_pylist()


def test_times_and_ids_of_a_chunk_take_few_bytes() -> None:
    """An exchange would carry eight bytes for each, most of them equal."""
    batch = batch_of(id=numpy.arange(1_000) + (1 << 40))
    header = Header(NO_KEY_GROUP, 1, 0, sequence=0, target=0, attempt=0, kind=ChunkKind.COLUMNS)
    assert 4_000 < len(encode(header, [Columns(batch, numpy.arange(1_000) + 1_700_000_000_000)])) < 4_300


KEYS = {
    "integers": (Types.LONG(), [1, 2, -3, 10**15, 5, 0, 7]),
    "integers with None": (Types.INT(), [1, None, 3, 4, None, 6, 7]),
    "texts": (Types.STRING(), ["a", "", None, "c", "ä", "f", "g"]),
    "booleans": (Types.BOOLEAN(), [True, False, None, True, False, True, False]),
    "floats": (Types.DOUBLE(), [0.0, -0.0, 1.5, None, 1e300, -2.0, 3.0]),
    "bytes": (Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"a", b"", b"c", b"d", b"e", b"f", b"g"]),
}


class Sent:
    """What a partitioner sends of rows, and of columns, to each of three receivers."""

    def __init__(self, columns: RecordColumns, make: Any) -> None:
        self.columns = columns
        self.partitioner: Partitioner = make()
        self.channels = [ColumnAccumulator(target) for target in range(3)]
        self.partitioner.setup(self.channels, 1)
        info = msgspec.structs.replace(edge(None, 3), key_fields=self.partitioner.fields)
        self.partitioner.setup_columns(info, KeyGroups(128))

    def distribute(self, batch: pyarrow.RecordBatch) -> list[list[Any]]:
        """Return the records of each receiver."""
        self.partitioner.distribute_columns(Columns(batch, numpy.arange(batch.num_rows)))
        read = self.columns.reader()
        return [read(joined(channel.parts).batch) if channel.parts else [] for channel in self.channels]


@pytest.mark.parametrize("name", KEYS)
def test_a_key_goes_to_the_subtask_that_it_has_in_rows(name: str) -> None:
    """Operators on rows and on columns could not share state: a key would be in two subtasks."""
    kind, values = KEYS[name]
    row_type = Types.ROW_NAMED(["k", "n"], [kind, Types.LONG()])
    columns = RecordColumns(row_type)
    assert HashPartitioner(FieldKey(("k",))).carries_columns(columns)
    records = [{"k": value, "n": number} for number, value in enumerate(values * 30)]
    shares = Sent(columns, lambda: HashPartitioner(FieldKey(("k",)))).distribute(columns.batch(columns.of(records)))
    groups = KeyGroups(128)
    for receiver, share in enumerate(shares):
        expected = [one["n"] for one in records if subtask_of(groups[one["k"]], 128, 3) == receiver]
        assert [record.n for record in share] == expected, "in order"


@pytest.mark.parametrize(
    "kind",
    [
        Types.BIG_DEC(),
        Types.BIG_INT(),
        Types.ROW_NAMED(["a"], [Types.INT()]),
        Types.LIST(Types.INT()),
        Types.SQL_DATE(),
    ],
)
def test_keys_with_another_form_in_columns_are_sent_as_rows(kind: Any) -> None:
    """A big decimal is a text in columns, so its key would be in another group."""
    columns = RecordColumns(Types.ROW_NAMED(["k"], [kind]))
    assert not HashPartitioner(FieldKey(("k",))).carries_columns(columns)
    assert ForwardPartitioner().carries_columns(columns)


def test_partitioners_that_need_records_carry_rows() -> None:
    """A selector or a partitioner of the user's would be called with columns."""
    columns = RecordColumns(Types.ROW_NAMED(["k"], [Types.INT()]))
    for partitioner in (HashPartitioner(lambda record: record.k), CustomPartitioner(lambda key, count: 0, hash)):
        assert not partitioner.carries_columns(columns)
    assert not HashPartitioner(FieldKey(("other",))).carries_columns(columns)


def test_all_records_are_sent_once_or_to_all() -> None:
    """Records would be lost or doubled by an exchange without keys."""
    columns = RecordColumns(pyarrow.schema([("n", pyarrow.int64())]))
    batch = batch_of(n=numpy.arange(101))
    numbers = [[record["n"] for record in share] for share in Sent(columns, RebalancePartitioner).distribute(batch)]
    assert sorted(chain(*numbers)) == list(range(101)) and max(map(len, numbers)) - min(map(len, numbers)) <= 1
    shuffled = [[record["n"] for record in share] for share in Sent(columns, ShufflePartitioner).distribute(batch)]
    assert sorted(chain(*shuffled)) == list(range(101)) and all(shuffled)
    assert [len(share) for share in Sent(columns, BroadcastPartitioner).distribute(batch)] == [101] * 3
    assert [len(share) for share in Sent(columns, GlobalPartitioner).distribute(batch)] == [101, 0, 0]


def test_small_chunks_go_to_all_receivers_in_turn() -> None:
    """The first receivers would get all records of a stream of small chunks."""
    columns = RecordColumns(Types.ROW_NAMED(["n"], [Types.LONG()]))
    sent = Sent(columns, RebalancePartitioner)
    for number in range(30):
        shares = sent.distribute(columns.batch_of([{"n": number}]))
    assert [len(share) for share in shares] == [10, 10, 10]


def test_a_shuffle_sends_columns_as_it_sends_rows() -> None:
    """A task that runs twice would send records elsewhere."""
    batch = batch_of(n=numpy.arange(50))
    of_columns = Sent(RecordColumns(batch.schema), ShufflePartitioner).distribute(batch)
    rows = ShufflePartitioner()

    class Channel(list[int]):
        append_value = property(lambda self: self.append)

    channels = [Channel(), Channel(), Channel()]
    rows.setup(channels, 1)
    rows.distribute(Rows(list(range(50))))
    assert [[record["n"] for record in share] for share in of_columns] == channels


def edge(batch: pyarrow.RecordBatch | None, parallelism: int) -> EdgeInfo:
    """Return an edge with the columns of a batch, or of rows."""
    return EdgeInfo(
        4,
        1,
        source_parallelism=1,
        target_parallelism=parallelism,
        source_level=0,
        target_level=1,
        widths=(1, parallelism),
        kind=ChunkKind.ROWS if batch is None else ChunkKind.COLUMNS,
        schema=None if batch is None else schema_bytes(batch),
        key_fields=("k",),
    )


def logged(batch: pyarrow.RecordBatch) -> list[Any]:
    """Return a log of the batch with timestamps, then without, as a snapshot stores it."""
    log = ChannelLog([edge(batch, 1)], 1, BufferQueue(1 << 20, None))
    header = Header(NO_KEY_GROUP, 4, 0, sequence=0, target=0, attempt=0, kind=ChunkKind.COLUMNS)
    times, kinds = numpy.arange(batch.num_rows) * 10, kinds_of(batch.num_rows)
    log.append(encode(header, [Columns(batch, times, kinds), Columns(batch), Columns(batch, None, kinds)]))
    return list(log)


@pytest.mark.parametrize("parallelism", [1, 3])
def test_columns_in_flight_are_restored_to_their_subtasks(parallelism: int) -> None:
    """Columns that a barrier has overtaken would be lost or doubled, at another parallelism, too."""
    batch = batch_of(k=numpy.arange(100) % 7, s=[None, "x"] * 50)
    partitioner, groups = HashPartitioner(FieldKey(("k",))), KeyGroups(128)
    found = []
    for subtask in range(parallelism):
        for buffer in logged(batch):
            edges = [(edge(batch, parallelism), partitioner)]
            for chunk in chunks_for(buffer, edges, subtask=subtask, parallelism=parallelism, key_groups=groups):
                assert isinstance(chunk, Columns) and chunk.batch.schema == batch.schema
                times = [None] * len(chunk) if chunk.timestamps is None else chunk.timestamps.tolist()
                kinds = [None] * len(chunk) if chunk.kinds is None else chunk.kinds.tolist()
                records = list(zip(chunk.batch.to_pylist(), times, kinds, strict=True))
                found += records
                if parallelism > 1:
                    assert {subtask_of(groups[record["k"]], 128, parallelism) for record, *_ in records} == {subtask}
    whole, kinds = batch.to_pylist(), kinds_of(100).tolist()
    expected = [
        *zip(whole, range(0, 1000, 10), kinds, strict=True),
        *((record, None, None) for record in whole),
        *zip(whole, repeat(None), kinds, strict=False),
    ]
    assert sorted(map(str, found)) == sorted(map(str, expected))


def test_columns_in_flight_that_are_no_longer_read_are_left_out() -> None:
    """A job could not be restored by a version of penstock whose plan sends fewer columns."""
    (buffer,) = logged(batch_of(k=[1, 2], s=["a", "b"], n=[3, None]))
    edges = [(edge(batch_of(n=[1], k=[1]), 1), ForwardPartitioner())]
    stored = chunks_for(buffer, edges, subtask=0, parallelism=1, key_groups=KeyGroups(128))
    rows = [chunk.batch.to_pylist() for chunk in stored if isinstance(chunk, Columns)]
    assert list(chain(*rows)) == [{"n": 3, "k": 1}, {"n": None, "k": 2}] * 3


@pytest.mark.parametrize("now", [None, batch_of(k=[1], other=["a"]), batch_of(k=["a"])])
def test_columns_in_flight_of_another_program_are_refused(now: pyarrow.RecordBatch | None) -> None:
    """They would be read as other fields."""
    (buffer,) = logged(batch_of(k=[1], s=["a"]))
    with pytest.raises(CheckpointError, match=r"columns k int64, s string.*take a savepoint"):
        chunks_for(buffer, [(edge(now, 1), ForwardPartitioner())], subtask=0, parallelism=1, key_groups=KeyGroups(128))


def test_rows_in_flight_of_another_program_are_refused() -> None:
    """Rows would be given to an operator on columns."""
    log = ChannelLog([edge(None, 1)], 1, BufferQueue(1 << 20, None))
    log.append(encode(Header(NO_KEY_GROUP, 4, 0, sequence=0, target=0, attempt=0), [Rows([1])]))
    edges = [(edge(batch_of(k=[1]), 1), ForwardPartitioner())]
    with pytest.raises(CheckpointError, match="in flight as rows"):
        chunks_for(next(iter(log)), edges, subtask=0, parallelism=1, key_groups=KeyGroups(128))
