"""The Redis sink against a server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.connectors.driven import prepared
from tests.connectors.redis_keys import Keys

from penstock.common.errors import ConfigurationError
from penstock.common.types import Row
from penstock.connectors.redis.server import RedisError
from penstock.connectors.redis.sink.sink import TransactionLostError
from penstock.datastream.connectors.redis import DeliveryGuarantee, RedisSink
from penstock.testing.conformance.sink import SimpleSinkContext, check_sink
from penstock.testing.redis_server import RedisServer

pytestmark = pytest.mark.connectors


@pytest.fixture
def keys(redis_server: RedisServer) -> Iterator[Keys]:
    keys = Keys(redis_server.url)
    yield keys
    keys.client.close()


@dataclass
class Flight:
    name: str
    id: int


@dataclass
class Append:
    """To a list: a command that is applied twice is seen."""

    key: str

    def __call__(self, record: Any) -> tuple[Any, ...]:
        return ("RPUSH", self.key, record)


def appending(keys: Keys, **settings: Any) -> RedisSink:
    return RedisSink(url=keys.url, command=Append(keys.name("list")), **settings)


def exactly_once(keys: Keys) -> RedisSink:
    return appending(keys, batch_size=2, delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE)


def appended(keys: Keys) -> list[str]:
    values: list[str] = keys.client.lrange(keys.name("list"), 0, -1)
    return values


def test_records_of_all_kinds_become_hashes(keys: Keys) -> None:
    """A record would be missing, or have a field of another one, or a deleted one."""
    keys.client.hset(keys.name("2"), mapping={"id": 9, "name": "before", "of_another": "stays"})
    prefix = keys.prefix
    sink = RedisSink(
        url=keys.url, hash_key=lambda record: f"{prefix}:{id_of(record)}", fields=["id", "name"], batch_size=2
    )
    sink.validate()
    writer = sink.create_writer(SimpleSinkContext())

    writer.write_chunk([(1, "ä"), {"name": None, "id": 2}, Row(name=1.5, id=3)], None)
    writer.write_chunk([Flight("d", 4), [5, b"\xc3\xa4"], (1, True)], None)
    writer.flush(False)
    writer.close()

    assert keys.hashes() == {
        "1": {"id": "1", "name": "1"},
        "2": {"id": "2", "of_another": "stays"},
        "3": {"id": "3", "name": "1.5"},
        "4": {"id": "4", "name": "d"},
        "5": {"id": "5", "name": "ä"},
    }


def id_of(record: Any) -> Any:
    return record["id"] if isinstance(record, (dict, Row)) else getattr(record, "id", None) or record[0]


def test_records_are_appended_to_streams(keys: Keys) -> None:
    """Entries would be in another order, or in another stream, or the stream would grow for ever."""
    prefix = keys.prefix
    sink = RedisSink(
        url=keys.url, stream=lambda record: f"{prefix}:{record['to']}", fields=["id", "name"], max_length=100
    )
    context = SimpleSinkContext()
    writer = sink.create_writer(context)
    writer.write_chunk([{"to": "a", "id": number, "name": None} for number in range(1000)], None)
    writer.write_chunk([{"to": "b", "id": 1, "name": "x"}], None)
    writer.flush(True)
    writer.close()

    assert keys.entries("a")[-2:] == [{"id": "998"}, {"id": "999"}] and len(keys.entries("a")) < 300
    assert keys.entries("b") == [{"id": "1", "name": "x"}]


def test_a_batch_goes_when_its_interval_is_over(keys: Keys) -> None:
    """A few records would wait for a thousand others."""
    writer = appending(keys, batch_interval_ms=200).create_writer(SimpleSinkContext())
    writer.write_chunk(["a", "b"], None)
    assert appended(keys) == [] and writer.wake_at_ms() == 200
    writer.on_wake(200)
    assert appended(keys) == ["a", "b"] and writer.wake_at_ms() is None
    writer.close()


def test_the_command_that_is_refused_is_named(keys: Keys) -> None:
    """The user would have to find the wrong command among a thousand."""
    keys.client.set(keys.name("list"), "is not a list")
    writer = appending(keys).create_writer(SimpleSinkContext())
    writer.write_chunk(["a"], None)
    with pytest.raises(RedisError, match=rf"refused the command RPUSH {keys.name('list')} a: WRONGTYPE") as refused:
        writer.flush(False)
    assert "`TYPE <key>`" in str(refused.value)
    with pytest.raises(TypeError, match=r"got None of type NoneType for None: convert it to a str"):
        writer.write_chunk([None], None)
    writer.close()


def test_what_is_wrong_is_told_before_the_first_record(keys: Keys) -> None:
    """A job would run until its first record."""
    with pytest.raises(RedisError, match="Check user and password") as failed:
        appending(keys, user_name="bob", password="a secret").validate()
    assert "a secret" not in str(failed.value)
    with RedisServer() as server:
        of_server = Keys(server.url)
        of_server.execute("CONFIG", "SET", "maxmemory", "100mb")
        exactly_once(of_server).validate()
        of_server.execute("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        with pytest.raises(ConfigurationError, match="may evict them: its maxmemory-policy"):
            exactly_once(of_server).validate()
        appending(of_server).validate()
        of_server.execute("ACL", "SETUSER", "ada", "on", ">love", "~*", "+@all", "-info")
        guarantee = DeliveryGuarantee.EXACTLY_ONCE
        appending(of_server, user_name="ada", password="love", delivery_guarantee=guarantee).validate()
        of_server.client.close()


def test_a_connection_that_is_lost() -> None:
    """A restart of the server would restart the job, or lose a batch."""
    with RedisServer() as server:
        keys = Keys(server.url)
        writers = [
            appending(keys).create_writer(SimpleSinkContext()),
            exactly_once(keys).create_writer(SimpleSinkContext()),
        ]
        committer = exactly_once(keys).create_committer()
        assert committer is not None
        for number, writer in enumerate(writers):
            writer.write_chunk([f"{number} a"], None)
            committables, _ = prepared(writer)
            committer.commit(committables)
            server.kill()
            server.start()
            writer.write_chunk([f"{number} b"], None)
            committables, _ = prepared(writer)
            committer.commit(committables)
            writer.close()

        assert Keys(server.url).client.lrange(keys.name("list"), 0, -1) == ["0 a", "0 b", "1 a", "1 b"]


def test_the_sink_meets_what_is_required_of_all(keys: Keys) -> None:
    """Records would be seen before their checkpoint, twice, or never."""

    def make_sink() -> RedisSink:
        keys.client.delete(keys.name("list"))
        return exactly_once(keys)

    check_sink(make_sink, lambda: appended(keys), [str(number) for number in range(5)])


def test_killed_between_pre_commit_and_commit(keys: Keys) -> None:
    """Records of a checkpoint would be lost with their process, or later ones be seen twice."""
    job = keys.prefix
    sink = exactly_once(keys)
    killed = sink.create_writer(SimpleSinkContext(attempt=f"{job}-1-0-11", job_id=job))
    killed.write_chunk(["a", "b", "c"], None)
    committables, state = prepared(killed)
    killed.write_chunk(["d", "e", "f"], None)
    prepared(killed, 2)
    assert appended(keys) == []

    successor = sink.restore_writer(SimpleSinkContext(attempt=f"{job}-1-1-12", job_id=job, is_restored=True), state)
    committer = sink.create_committer()
    assert committer is not None
    committer.commit_again(committables)
    assert appended(keys) == ["a", "b", "c"]
    successor.write_chunk(["d"], None)
    later, _ = prepared(successor)
    committer.commit(later)
    committer.commit_again(committables)
    committer.commit_again(later)

    assert appended(keys) == ["a", "b", "c", "d"]
    # The process that is considered dead continues to write: its data is not named.
    killed.write_chunk(["x", "y"], None)
    for writer in (successor, killed):
        writer.close()
    assert [key.rpartition("/")[2] for key in keys.of_penstock(job)] == ["applied"]


def test_a_driver_that_dies_within_a_commit(keys: Keys) -> None:
    """Commands applied before the crash would be applied again, or others be lost."""
    job = keys.prefix
    sink = exactly_once(keys)
    writer = sink.create_writer(SimpleSinkContext(attempt=f"{job}-1-0-11", job_id=job))
    writer.write_chunk(list("abcdefg"), None)
    ((transaction,), _) = prepared(writer)
    committer = sink.create_committer()
    assert committer is not None
    # Of its four chunks two were applied.
    committer.commit([type(transaction)(transaction.log, transaction.start, transaction.start + 2)])
    assert appended(keys) == list("abcd")
    for _ in range(2):
        recovered = sink.create_committer()
        assert recovered is not None
        recovered.commit_again([transaction])

    assert appended(keys) == list("abcdefg")
    writer.close()


def test_a_command_that_is_refused_by_the_commit_is_not_skipped(keys: Keys) -> None:
    """Commands before it would be applied twice, or those behind it never."""
    job, name, other = keys.prefix, keys.name("list"), keys.name("other")
    sink = RedisSink(
        url=keys.url,
        command=lambda record: ("RPUSH", other if record == "c" else name, record),
        delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE,
    )
    keys.client.set(other, "is not a list")
    writer = sink.create_writer(SimpleSinkContext(attempt=f"{job}-1-0-11", job_id=job))
    writer.write_chunk(list("abcde"), None)
    committables, _ = prepared(writer)
    committer = sink.create_committer()
    assert committer is not None
    for _ in range(2):
        with pytest.raises(RedisError, match=rf"refused the command RPUSH {other} c: WRONGTYPE"):
            committer.commit_again(committables)
        assert appended(keys) == ["a", "b"]
    keys.client.delete(other)
    committer.commit_again(committables)

    assert appended(keys) == list("abde") and keys.client.lrange(other, 0, -1) == ["c"]
    writer.close()


def test_what_lingers_is_dropped_after_scaling_down(keys: Keys) -> None:
    """Logs of subtasks that are gone would fill the server; those of another job are kept."""
    job, other_job = keys.prefix, f"other-{keys.prefix}"
    sink = exactly_once(keys)
    other = sink.create_writer(SimpleSinkContext(attempt=f"{other_job}-1-0-1", job_id=other_job))
    other.write_chunk(["of another"], None)
    of_another, _ = prepared(other)
    state, committables = [], []
    for subtask in range(3):
        gone = sink.create_writer(SimpleSinkContext(subtask, 3, f"{job}-1-0-11", job_id=job))
        gone.write_chunk([str(subtask)], None)
        named, kept = prepared(gone)
        committables += named
        state += kept
        gone.write_chunk(["x"], None)
        prepared(gone, 2)

    left = sink.restore_writer(SimpleSinkContext(0, 1, f"{job}-1-1-12", job_id=job, is_restored=True), state)

    assert [keys.client.hkeys(one.log) for one in committables] == [["0"], ["0"], ["0"]]
    committer = sink.create_committer()
    assert committer is not None
    committer.commit_again(committables)
    assert sorted(appended(keys)) == ["0", "1", "2"] and len(keys.of_penstock(job)) == 1
    assert keys.client.hkeys(of_another[0].log) == ["0"]
    committer.abort(of_another)
    with pytest.raises(TransactionLostError, match="has lost commands of a checkpoint"):
        committer.commit(of_another)
    for writer in (left, other):
        writer.close()
