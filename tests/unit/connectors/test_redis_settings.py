"""Settings of the Redis connector: commands, positions, and what is shown of an address."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from penstock.common.errors import ConfigurationError
from penstock.connectors.redis.server import RedisServer, checked_url
from penstock.connectors.redis.sink.commands import HashUpsert, StreamAppend, UserCommands, shown
from penstock.connectors.redis.sink.transaction_log import LogNames, keys_of, packed
from penstock.connectors.redis.source.split import RedisStreamSplit, id_after, id_before, order_of
from penstock.datastream.connectors.redis import (
    DeliveryGuarantee,
    RedisLookup,
    RedisSink,
    RedisStreamPosition,
    RedisStreamSource,
)
from penstock.testing.conformance.sink import SimpleSinkContext

pytest.importorskip("redis", reason="pip install 'penstock-streams[redis]'")
URL = "rediss://ada:wonder%40land@cache.example:6380/3?socket_timeout=5"


def key_of(record: Any) -> str:
    return f"airport:{record[0]}"


def test_commands_of_records() -> None:
    """A field would be written as None, or as Python shows a value."""
    upsert = HashUpsert(key_of, ("airport", "delay"))
    assert upsert.of_all([("JFK", 90), ("LGA", None), (None, None)]) == [
        (b"HSET", b"airport:JFK", b"airport", b"JFK", b"delay", b"90"),
        (b"HSET", b"airport:LGA", b"airport", b"LGA"),
        (b"HDEL", b"airport:LGA", b"delay"),
        (b"HDEL", b"airport:None", b"airport", b"delay"),
    ]
    append = StreamAppend("s", ("a", "b"), 10)
    assert append.of_all([(1.5, None)]) == [(b"XADD", b"s", b"MAXLEN", b"~", b"10", b"*", b"a", b"1.5")]
    with pytest.raises(ValueError, match=r"all fields of \(None, None\) are None"):
        append.of_all([(None, None)])
    several = UserCommands(lambda record: [("SET", "a", record), ("SET", "b", record)] if record else None)
    assert several.of_all([True, 0]) == [(b"SET", b"a", b"1"), (b"SET", b"b", b"1")]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ("SET a 1", "must return a command, a tuple such as"),
        (["SET"], "a command must be a tuple such as"),
        (("SET", "a", None), "got None of type NoneType for 'record': convert it to a str"),
        (("SET", "a", {"b": 1}), "of type dict"),
        (("DEL", *["a"] * 7000), "at most 7000 arguments, got 7001"),
    ],
)
def test_a_function_that_makes_no_command(made: Any, said: str) -> None:
    """Redis would say that something is wrong with some command, of some record."""
    with pytest.raises((TypeError, ValueError), match=said):
        UserCommands(lambda record: made).of_all(["record"])


def test_a_command_is_shortened_for_an_error() -> None:
    """An error would be as long as what was to be written."""
    assert shown((b"SET", b"a", b"x" * 100)) == "SET a " + "x" * 60 + "…"
    assert shown((b"DEL", *[b"\xff"] * 10)) == "DEL" + r" \xff" * 7 + " …"


def test_ids_of_entries() -> None:
    """Entries would be read again, or left out: 10-0 comes behind 9-5."""
    assert order_of("10-0") > order_of("9-5") > order_of("9")
    assert id_after("9-5") == "9-6" and id_after(id_before(9)) == "9-0" and id_before(0) == "0-0"
    split = RedisStreamSplit(0, "s", stop="10-1")
    assert not split.after_entry("9-5").is_finished and split.after_entry("10-1").is_finished
    assert not RedisStreamSplit(0, "s", "10-1").is_finished


@pytest.mark.parametrize(
    ("position", "begins"),
    [
        (RedisStreamPosition.earliest(), "0-0"),
        (RedisStreamPosition.latest(), "7-1"),
        (RedisStreamPosition.timestamp(5), f"4-{2**64 - 1}"),
        (RedisStreamPosition.after({"s": "3-2"}), "3-2"),
        (RedisStreamPosition.after({"other": "3-2"}), "0-0"),
    ],
)
def test_where_reading_begins(position: RedisStreamPosition, begins: str) -> None:
    """A new job would read what it was not to read, or leave out what it was."""
    assert pickle.loads(pickle.dumps(position)).in_stream("s", "7-1") == begins


def test_names_of_logs() -> None:
    """A restarted job would not find what the one before has left, or take another's for its own."""
    names = LogNames.of(SimpleSinkContext(subtask=2, attempt="job-1-0-11/x", job_id="job", operator_id="counts"))
    assert names.log == f"{names.sink}2/job-1-0-11_x" and names.sink.startswith("penstock/job/")
    assert keys_of(names.log) == (names.applied, names.field)
    other = LogNames.of(SimpleSinkContext(job_id="job", operator_id="sums"))
    assert other.sink != names.sink


def test_packed_commands_are_message_pack() -> None:
    """The server could not read them."""
    import msgspec

    class Raw(msgspec.Struct, array_like=True):
        name: str
        key: str

    commands = [(b"GET", b"a"), (b"DEL", b"b" * 300)]
    assert msgspec.msgpack.decode(packed(commands), type=list[Raw]) == [Raw("GET", "a"), Raw("DEL", "b" * 300)]


def test_the_password_is_not_shown() -> None:
    """It would be in logs, plans and reports of errors."""
    server = RedisServer(URL)
    assert str(server) == "cache.example:6380/3"
    assert str(RedisServer("redis://host")) == "host:6379/0"
    assert str(RedisServer("unix:///run/redis.sock?db=1", password="wonder")) == "/run/redis.sock, database 1"
    shown = [repr(server), str(server), server.hide("WRONGPASS wonder@land")]
    sink = RedisSink(url=URL, hash_key=key_of, fields=["a"])
    source = RedisStreamSource(url=URL, streams=["s"])
    lookup = RedisLookup(url=URL, key_selector=key_of)
    shown += [repr(sink), sink.describe(), repr(source), source.describe(), repr(lookup)]
    for url in ("redis://ada:wonder/land@host", "redis://wonder#land@host", "redis://:wonder@host:land"):
        with pytest.raises(ConfigurationError, match="special characters in user and password as %XX") as failed:
            str(RedisServer(url))
        shown.append(str(failed.value))

    assert not [text for text in shown if "wonder" in text]
    assert (
        pickle.loads(pickle.dumps(sink)).describe()
        == sink.describe()
        == ("at-least-once, cache.example:6380/3: hashes with a")
    )


def test_what_is_missing_is_said_by_the_call() -> None:
    """A job would be submitted that has nowhere to go."""
    with pytest.raises(ValueError, match=r"must begin with redis://.* got one with http://"):
        checked_url("http://host")
    with pytest.raises(ValueError, match="either streams or stream_pattern, got both"):
        RedisStreamSource(url=URL, streams=["a"], stream_pattern="b*")
    with pytest.raises(ValueError, match="must be given together, got only value_field"):
        RedisStreamSource(url=URL, streams=["a"], value_field="f")
    with pytest.raises(TypeError, match="streams must be a list of str, got 'a'"):
        RedisStreamSource(url=URL, streams="a")
    with pytest.raises(ValueError, match="must be 'fail' or 'warn', got 'skip'"):
        RedisStreamSource(url=URL, streams=["a"], on_trimmed="skip")
    with pytest.raises(ValueError, match="like 1700000000000-0, got 'first' for s"):
        RedisStreamPosition.after({"s": "first"})
    with pytest.raises(ValueError, match="one of command, hash_key, stream, got command and stream"):
        RedisSink(url=URL, stream="s", fields=["a"], command=key_of)
    with pytest.raises(ValueError, match="fields must be a list of at least one name"):
        RedisSink(url=URL, hash_key=key_of, fields=[])
    with pytest.raises(ValueError, match="AT_LEAST_ONCE or EXACTLY_ONCE, got"):
        RedisSink(url=URL, command=key_of, delivery_guarantee=DeliveryGuarantee.NONE)
    with pytest.raises(ValueError, match="both cache_max_rows and cache_expire_after_write_ms, got 5 and None"):
        RedisLookup(url=URL, key_selector=key_of, cache_max_rows=5)
