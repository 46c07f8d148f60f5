"""Edges that carry columns, and rows where these are not columns."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest
from tests.unit.engine.runtime.columns.test_column_edges import batch_of, edge, sender_of

from penstock.common import Types
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.functions.field_key import FieldKey
from penstock.common.types import Row, RowKind
from penstock.engine.runtime.chunks import EncodedColumns, Rows
from penstock.engine.runtime.columns.codec import decoder
from penstock.engine.runtime.columns.exact_conversion import COLUMNS_FROM
from penstock.engine.runtime.columns.exact_fields import ExactFields
from penstock.engine.runtime.columns.mixed_gathering import MixedGathering
from penstock.engine.runtime.network.buffer import (
    NO_KEY_GROUP,
    Header,
    LatencyMarker,
    Watermark,
    decode_header,
    decode_items,
    encode,
)
from penstock.engine.runtime.network.channel_log import ChannelLog, chunks_for
from penstock.engine.runtime.network.output import OutputEdge
from penstock.engine.runtime.network.partitioners import HashPartitioner
from penstock.engine.runtime.network.sender import Outbox
from penstock.engine.runtime.network.set_aside import BufferQueue
from penstock.engine.runtime.task.budget import Budget
from penstock.engine.state.key_groups import KeyGroups, subtask_of

READING = Types.ROW_NAMED(["k", "n"], [Types.LONG(), Types.LONG()])
COLUMNS = RecordColumns(READING)
GROUPS = KeyGroups(128)


def rows(random: Random, count: int, numbers: Any) -> Rows:
    """Return records with these numbers, and times."""
    return Rows([Row(k=random.randrange(20), n=next(numbers)) for _ in range(count)], list(range(count)))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("parallelism", [1, 3])
def test_records_of_a_channel_keep_their_order(seed: int, parallelism: int) -> None:
    """A window would get the last record before the first, or a watermark before the records that it ends."""
    random, numbers, exact = Random(seed), iter(range(10**6)), ExactFields(COLUMNS)
    info = msgspec.structs.replace(
        edge(batch_of(k=[1], n=[1]), parallelism), key_fields=("k",), mixes_rows=True, schema=_schema()
    )
    outbox = Outbox(Budget(lambda: 0))
    gathering = MixedGathering(
        HashPartitioner(FieldKey(("k",))), sender_of(info, random.choice([3, 50]), outbox), GROUPS
    )
    given: list[Any] = []
    for number in range(30):
        chunk = rows(random, random.choice([1, 7, 40]), numbers)
        given += zip(chunk.values, chunk.timestamps or (), strict=True)
        columns = exact.columns_of(chunk) if random.random() < 0.5 else None
        gathering.add(chunk if columns is None else columns)
        if number % 10 == 9:
            for channel in gathering.channels:
                gathering.close_chunk(channel)
                channel.items.append(Watermark(number))
            given.append(number)
        if random.random() < 0.2:
            gathering.flush()
            assert gathering.records == 0
    gathering.flush()
    found: dict[int, list[Any]] = {}
    for _, buffer in outbox.take():
        found.setdefault(decode_header(buffer).target, []).extend(decode_items(buffer))
    assert {type(item) for items in found.values() for item in items} == {Rows, EncodedColumns, Watermark}
    for subtask, items in found.items():
        expected = [
            one for one in given if isinstance(one, int) or subtask_of(GROUPS[one[0].k], 128, parallelism) == subtask
        ]
        assert read(items, info) == expected


def read(items: list[Any], info: Any) -> list[Any]:
    """Return the records with their times, and watermarks."""
    found: list[Any] = []
    for item in items:
        if isinstance(item, Watermark):
            found.append(item.timestamp)
            continue
        chunk: Any = item
        if isinstance(item, EncodedColumns):
            columns: Any = decoder(info)(item)
            chunk = Rows(COLUMNS.reader()(columns.batch), columns.timestamps.tolist())
        found += zip(chunk.values, chunk.timestamps, strict=True)
    return found


def _schema() -> bytes:
    schema: bytes = COLUMNS.schema.serialize().to_pybytes()
    return schema


def test_latency_markers_keep_their_place_between_columns() -> None:
    """A marker would measure a path without the records that wait on it, or go to all channels."""
    info = msgspec.structs.replace(
        edge(batch_of(k=[1], n=[1]), 2), key_fields=("k",), mixes_rows=True, schema=_schema()
    )
    outbox, exact = Outbox(Budget(lambda: 0)), ExactFields(COLUMNS)
    sending = OutputEdge(HashPartitioner(FieldKey(("k",))), sender_of(info, 100, outbox), GROUPS)
    numbers = iter(range(100))
    for marked in range(4):
        chunk = rows(Random(marked), 10, numbers)
        columns = exact.columns_of(chunk)
        assert columns is not None
        sending.emit(columns if marked % 2 else chunk)
        sending.element_to_one(LatencyMarker(marked, 0, 0), marked)
    sending.emit(rows(Random(9), 10, numbers))
    sending.flush()
    found: dict[int, list[Any]] = {0: [], 1: []}
    for _, buffer in outbox.take():
        found[decode_header(buffer).target] += decode_items(buffer)
    decode = decoder(info)
    for subtask, items in found.items():
        markers = [item.marked_ms for item in items if isinstance(item, LatencyMarker)]
        assert markers == [subtask, subtask + 2]
        before = [
            max(_numbers(decode(items[at - 1]) if isinstance(items[at - 1], EncodedColumns) else items[at - 1]))
            for at in range(len(items))
            if isinstance(items[at], LatencyMarker)
        ]
        # The records that were emitted before it, and none of those after it.
        assert [number // 10 for number in before] == markers


def _numbers(chunk: Any) -> list[int]:
    if isinstance(chunk, Rows):
        return [row.n for row in chunk.values]
    return list(chunk.batch.column("n").to_pylist())


@pytest.mark.parametrize("after", [1, 2])
def test_rows_in_flight_of_a_job_on_rows_are_restored(after: int) -> None:
    """A checkpoint of a release before this one, or of the job with the option off, would be refused."""
    log = ChannelLog([edge(None, 1)], 1, BufferQueue(1 << 20, None))
    records = [Row(k=number % 5, n=number) for number in range(50)]
    log.append(encode(Header(NO_KEY_GROUP, 4, 0, sequence=0, target=0, attempt=0), [Rows(records, list(range(50)))]))
    info = msgspec.structs.replace(edge(batch_of(k=[1], n=[1]), after), mixes_rows=True)
    edges, found = [(info, HashPartitioner(FieldKey(("k",))))], []
    for subtask in range(after):
        for chunk in chunks_for(next(iter(log)), edges, subtask=subtask, parallelism=after, key_groups=GROUPS):
            assert isinstance(chunk, Rows)
            found += chunk.values
    assert sorted(found, key=lambda row: row.n) == records


class Person:
    """A record with attributes."""

    def __init__(self, k: Any, n: Any) -> None:
        self.k = k
        self.n = n


@pytest.mark.parametrize(
    "records",
    [
        [Row(k=1, n=2)],
        [Row(n=2, k=1), Row(n=None, k=None)],
        [Row(k=1, other="x", n=-(1 << 63))],
        [{"k": 1, "n": 2}],
        [Person(1, 2)],
    ],
)
def test_fields_of_records_become_columns(records: list[Any]) -> None:
    """Records would stay rows, though their values are exact."""
    columns = ExactFields(COLUMNS).columns_of(Rows(records))
    assert columns is not None
    get = FieldKey(("k", "n"))
    assert [tuple(row.values()) for row in columns.batch.to_pylist()] == list(map(get, records))


@pytest.mark.parametrize(
    "record",
    [
        Row(k=1, n=2.0),
        Row(k=True, n=2),
        Row(k=1, n=1 << 63),
        Row(k=1, n="2"),
        Row(k=1),
        Row(1, 2),
        {"k": 1},
        Person(1, 2.5),
        (1, 2),
    ],
)
def test_values_that_columns_would_change_stay_rows(record: Any) -> None:
    """Results would have another type, or the error of the record another text."""
    for records in ([record], [Row(k=1, n=2)] * COLUMNS_FROM + [record]):
        assert ExactFields(COLUMNS).columns_of(Rows(records)) is None


def test_texts_that_are_not_unicode_stay_rows() -> None:
    """Half of a surrogate pair fits into no column."""
    fields = ExactFields(RecordColumns(Types.ROW_NAMED(["k"], [Types.STRING()])))
    assert fields.columns_of(Rows([Row(k="\ud800")])) is None and fields.columns_of(Rows([Row(k="\u20ac")])) is not None


def test_whole_records_come_back() -> None:
    """A late record would come out of the side output without a field, or as another kind of change."""
    fields, changed = ExactFields(COLUMNS, whole=True), Row.of_kind(RowKind.DELETE, k=1, n=2)
    for other in (Row(n=2, k=1), Row(k=1, n=2, other=3), {"k": 1, "n": 2}, Person(1, 2)):
        assert fields.columns_of(Rows([other])) is None
    columns = fields.columns_of(Rows([changed, Row(k=1, n=2)]))
    assert columns is not None and columns.kinds is not None
    assert columns.kinds.tolist() == [RowKind.DELETE.value, 0]
