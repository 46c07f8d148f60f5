"""The source of Redis's streams, against a server."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from tests.connectors.driven import SourceInTest, until
from tests.connectors.redis_keys import Keys

from penstock.common.errors import SourceError
from penstock.common.serialization import SimpleStringSchema
from penstock.connectors.redis.server import RedisError
from penstock.datastream.connectors.redis import (
    RedisStreamEntry,
    RedisStreamPosition,
    RedisStreamSource,
)
from penstock.testing.redis_server import RedisServer

pytestmark = pytest.mark.connectors


@pytest.fixture
def keys(redis_server: RedisServer) -> Iterator[Keys]:
    keys = Keys(redis_server.url)
    yield keys
    keys.client.close()


def source_of(keys: Keys, *streams: str, **settings: Any) -> RedisStreamSource:
    common = {"url": keys.url, "value_field": "n", "value_deserializer": SimpleStringSchema()}
    return RedisStreamSource(streams=list(map(keys.name, streams)), **{**common, **settings})


def add(keys: Keys, stream: str, numbers: range) -> None:
    pipeline = keys.client.pipeline(transaction=False)
    for number in numbers:
        pipeline.xadd(keys.name(stream), {"n": number}, id=f"{number // 10 + 1}-{number % 10}")
    pipeline.execute()


def texts(numbers: range) -> list[str]:
    return [str(number) for number in numbers]


def test_each_entry_comes_once_over_restarts_and_rescaling(keys: Keys) -> None:
    """Entries would be lost or doubled by a failure, or by another parallelism."""
    chance = random.Random(7)
    streams = ["a", "b", "c"]
    for stream in streams:
        add(keys, stream, range(1, 2500))
    source = source_of(keys, *streams, bounded=True, fetch_size=70)
    seen: list[str] = []
    job = SourceInTest(source, parallelism=2)
    for parallelism in (1, 3, 2):
        seen += job.values(chance.randrange(1000), max_records=chance.randrange(1, 400))
        state, splits = job.snapshot()
        job.values(100)
        job.close()
        spread: list[list[Any]] = [[] for _ in range(parallelism)]
        for number, split in enumerate(split for of_reader in splits for split in of_reader):
            spread[number % parallelism].append(split)
        job = SourceInTest(source, parallelism, (state, spread))
    add(keys, "a", range(2500, 2510))
    seen += job.values()
    job.close()

    assert sorted(seen) == sorted(texts(range(1, 2500)) * 3)


def test_entries_that_are_added_later_wake_the_reader(keys: Keys) -> None:
    """A job would wait for ever, or ask the server all the time."""
    job = SourceInTest(source_of(keys, "a", "b"))
    for first in (1, 11, 21):
        add(keys, "b", range(first, first + 10))
        assert job.values(10) == texts(range(first, first + 10))
    add(keys, "a", range(1, 3))
    (records,) = job.read(2)
    job.close()

    assert (records.split_id, records.values, records.timestamps) == (keys.name("a"), ["1", "2"], [1, 1])


@pytest.mark.parametrize(
    ("starting", "first"),
    [
        (RedisStreamPosition.earliest(), 1),
        (RedisStreamPosition.timestamp(3), 20),
        (RedisStreamPosition.latest(), 100),
        (None, 56),
    ],
)
def test_where_reading_begins(keys: Keys, starting: RedisStreamPosition | None, first: int) -> None:
    """A new job would read what it was not to read, or leave out what it was."""
    add(keys, "a", range(1, 100))
    starting = starting or RedisStreamPosition.after({keys.name("a"): "6-5"})
    job = SourceInTest(source_of(keys, "a", starting_position=starting))
    add(keys, "a", range(100, 110))

    assert job.values(110 - first) == texts(range(first, 110))
    job.close()


def test_streams_that_come_later_are_found(keys: Keys) -> None:
    """A stream of a new customer would not be read until the job is started again, or its first entries never."""
    add(keys, "in:a", range(1, 10))
    keys.execute("SET", keys.name("in:other"), "is no stream")
    source = RedisStreamSource(
        url=keys.url,
        stream_pattern=keys.name("in:*"),
        starting_position=RedisStreamPosition.latest(),
        discovery_interval_ms=50,
    )
    job = SourceInTest(source, parallelism=2)
    add(keys, "in:b", range(1, 3))
    assert job.enumerator.discover() == 50

    assert job.values(2) == [{"n": "1"}, {"n": "2"}]
    state, splits = job.snapshot()
    job.close()
    assert sorted(state.known) == [keys.name("in:a"), keys.name("in:b")] and not state.pending
    restored = SourceInTest(source, 2, (state, splits))
    restored.enumerator.discover()
    add(keys, "in:a", range(10, 11))
    assert restored.values(1) == [{"n": "10"}]
    restored.close()


def test_entries_that_were_trimmed_before_they_were_read_are_told(keys: Keys, caplog: pytest.LogCaptureFixture) -> None:
    """Entries would be missing unnoticed."""
    add(keys, "a", range(1, 50))
    failing, warning = source_of(keys, "a"), source_of(keys, "a", on_trimmed="warn")
    job = SourceInTest(failing)
    job.values(20)
    state = job.snapshot()
    job.close()
    # What was read may go: nothing is lost.
    keys.execute("XTRIM", keys.name("a"), "MINID", "3-0")
    job = SourceInTest(failing, state=state)
    assert job.values(29) == texts(range(21, 50))
    job.close()

    keys.execute("XTRIM", keys.name("a"), "MAXLEN", "10")
    job = SourceInTest(failing, state=state)
    with pytest.raises(SourceError, match="no longer has the entry 3-0, which was read last: the stream was trimmed"):
        job.values(1)
    job.close()
    job = SourceInTest(warning, state=state)
    assert job.values(10) == texts(range(40, 50))
    job.close()
    assert "unread entries may be lost" in caplog.text


@pytest.mark.parametrize("is_there", [True, False])
def test_a_job_that_began_behind_the_last_entry_is_told_what_was_trimmed(keys: Keys, is_there: bool) -> None:
    """Without a read entry to compare with, it began after an existing one: entries were silently missing."""
    add(keys, "a", range(1, 3))
    if not is_there:
        keys.execute("XDEL", keys.name("a"), "1-2")
    source = source_of(keys, "a", starting_position=RedisStreamPosition.latest())
    job = SourceInTest(source)
    state = job.snapshot()
    job.close()
    add(keys, "a", range(3, 50))
    keys.execute("XTRIM", keys.name("a"), "MAXLEN", "3" if is_there else "47")
    job = SourceInTest(source, state=state)
    if is_there:
        with pytest.raises(
            SourceError, match="no longer has the entry 1-2, which was read last: the stream was trimmed"
        ):
            job.values(1)
    else:
        assert job.values(47) == texts(range(3, 50)), "an entry that was deleted earlier is not compared"
    job.close()


def test_a_stream_that_is_emptied_when_all_was_read_goes_on(keys: Keys) -> None:
    """A job would fail though nothing is lost."""
    add(keys, "a", range(1, 50))
    job = SourceInTest(source_of(keys, "a"))
    job.values(49)
    state = job.snapshot()
    job.close()
    keys.execute("XTRIM", keys.name("a"), "MAXLEN", "0")
    job = SourceInTest(source_of(keys, "a"), state=state)
    until(lambda: any("b" in client["flags"] for client in keys.client.client_list()))
    add(keys, "a", range(50, 60))

    assert job.values(10) == texts(range(50, 60))
    job.close()


def test_a_stream_that_was_deleted_is_told(keys: Keys, caplog: pytest.LogCaptureFixture) -> None:
    """Its entries would be missing; a stream created again with smaller ids would never be read."""
    add(keys, "a", range(1, 50))
    job = SourceInTest(source_of(keys, "a"))
    job.values(49)
    state = job.snapshot()
    keys.execute("DEL", keys.name("a"))
    with pytest.raises(SourceError, match="the stream was deleted"):
        job.values(1)
    job.close()

    add(keys, "a", range(1, 3))
    job = SourceInTest(source_of(keys, "a", on_trimmed="warn"), state=state)
    assert job.values(2) == ["1", "2"]
    job.close()
    assert "deleted and created again" in caplog.text


def test_the_group_shows_how_far_completed_checkpoints_are(keys: Keys) -> None:
    """Monitors of the streams would see a job that does not move, or one that is ahead of its position."""
    add(keys, "a", range(1, 50))
    job = SourceInTest(source_of(keys, "a", consumer_group="penstock"))
    job.values(20, max_records=20)
    job.snapshot(1)
    job.values(10, max_records=10)
    job.snapshot(2)

    def position() -> str | None:
        groups = keys.client.xinfo_groups(keys.name("a"))
        return groups[0]["last-delivered-id"] if groups else None

    assert position() is None
    job.readers[0].notify_checkpoint_complete(1)
    until(lambda: position() == "3-0")
    job.readers[0].notify_checkpoint_complete(2)
    job.close()
    assert position() == "4-0"


def test_whole_entries_by_a_function(keys: Keys) -> None:
    """A user could not see keys, ids and bytes; one poison entry would be looked for among thousands."""
    keys.client.xadd(keys.name("a"), {"n": "1", "raw": b"\xff"}, id="5-1")
    keys.client.xadd(keys.name("a"), {"n": "skipped"}, id="5-2")
    whole = RedisStreamSource(url=keys.url, streams=[keys.name("a")], bounded=True, deserializer=only_numbers)
    job = SourceInTest(whole)
    assert job.values() == [(keys.name("a"), "5-1", b"\xff")]
    job.close()

    job = SourceInTest(source_of(keys, "a", value_field="raw", value_deserializer=SimpleStringSchema()))
    with pytest.raises(SourceError, match=f"cannot read the entry 5-1 of the stream '{keys.name('a')}': Unicode"):
        job.values()
    job.close()
    job = SourceInTest(source_of(keys, "a", value_field="m", value_deserializer=SimpleStringSchema()))
    with pytest.raises(SourceError, match="the field 'm' is missing"):
        job.values()
    job.close()


def only_numbers(entry: RedisStreamEntry) -> Any:
    return (entry.stream, entry.entry_id, entry.fields[b"raw"]) if entry.fields[b"n"] == b"1" else None


def test_what_is_wrong_is_told_before_the_first_entry(keys: Keys) -> None:
    """A job would start, and fail or wait."""
    keys.execute("SET", keys.name("text"), "1")
    with pytest.raises(SourceError, match=r"WRONGTYPE.*\nAnother program created this key"):
        source_of(keys, "text").validate()
    with pytest.raises(RedisError, match="Check user and password") as failed:
        source_of(keys, "a", password="a secret").validate()
    assert "a secret" not in str(failed.value) and "penstock@" not in str(failed.value)
    with pytest.raises(RedisError, match=r"Redis at 127\.0\.0\.1:1/0: .*[Cc]onnect"):
        source_of(keys, "a", url="redis://127.0.0.1:1").validate()
    source_of(keys, "not-there-yet").validate()


def test_a_server_that_is_started_again_is_read_on() -> None:
    """A restart of the server would restart the job."""
    with RedisServer() as server:
        keys = Keys(server.url)
        add(keys, "a", range(1, 10))
        job = SourceInTest(source_of(keys, "a"))
        assert job.values(9) == texts(range(1, 10))
        server.kill()
        server.start()
        add(keys, "a", range(10, 20))

        assert job.values(10) == texts(range(10, 20))
        job.close()
        keys.client.close()


def last_and_pairs(entry: RedisStreamEntry) -> Any:
    return entry.fields[b"n"], entry.pairs


def test_a_field_that_occurs_twice(keys: Keys) -> None:
    """Redis keeps both values, and the first would silently be lost."""
    keys.client.execute_command("XADD", keys.name("a"), "1-1", "n", "1", "m", "2", "n", "3")
    keys.client.execute_command("XADD", keys.name("a"), "1-2", "m", "4", "m", "5", "n", "6")

    def values(source: RedisStreamSource) -> list[Any]:
        run = SourceInTest(source)
        try:
            return run.values()
        finally:
            run.close()

    told = "cannot read the entry {} of the stream '.*': ValueError: the field '{}' occurs 2 times, .* `deserializer`"
    with pytest.raises(SourceError, match=told.format("1-1", "n")):
        values(source_of(keys, "a", bounded=True))
    whole: dict[str, Any] = {"url": keys.url, "streams": [keys.name("a")], "bounded": True}
    with pytest.raises(SourceError, match=told.format("1-1", "n")):
        values(RedisStreamSource(**whole))
    assert values(RedisStreamSource(**whole, deserializer=last_and_pairs)) == [
        (b"3", ((b"n", b"1"), (b"m", b"2"), (b"n", b"3"))),
        (b"6", ((b"m", b"4"), (b"m", b"5"), (b"n", b"6"))),
    ]
    keys.client.xdel(keys.name("a"), "1-1")
    assert values(source_of(keys, "a", bounded=True)) == ["6"]
