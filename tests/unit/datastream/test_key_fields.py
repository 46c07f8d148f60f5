"""Keys that are fields: `key_by("airport")`."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from penstock.common import Row, Types
from penstock.common.functions.field_key import FieldKey
from penstock.datastream import DataStream, KeyedStream, RuntimeContext, StreamExecutionEnvironment
from penstock.datastream.functions import KeyedProcessFunction
from penstock.engine.runtime.network.partitioners import HashPartitioner
from penstock.testing.harness import KeyedOneInputHarness


@dataclass(frozen=True)
class Flight:
    """A record with attributes."""

    airport: str
    delay: int


class Landing(NamedTuple):
    """A tuple with names."""

    airport: str
    delay: int


RECORDS = [
    {"airport": "JFK", "delay": 3},
    Row(airport="JFK", delay=3),
    Flight("JFK", 3),
    Landing("JFK", 3),
]


class CurrentKey(KeyedProcessFunction[Any, Any, Any]):
    """Emits the key of each record."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Need nothing."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield ctx.get_current_key()


def stream(*records: Any, type_info: Any = None) -> DataStream[Any]:
    """Return a stream of records."""
    return StreamExecutionEnvironment().from_collection(records or RECORDS, type_info=type_info)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_field_of_every_kind_of_record_is_a_key(record: Any) -> None:
    """A user would have to change the key with the source that yields the records."""
    assert FieldKey(("airport",))(record) == "JFK"
    assert FieldKey(("airport", "delay"))(record) == ("JFK", 3)


def test_records_of_several_kinds_in_one_stream() -> None:
    """A union of two sources would fail, or read the fields of one as those of the other."""
    key = FieldKey(("delay",))
    assert [key(record) for record in (*RECORDS, *reversed(RECORDS))] == [3] * 8
    assert pickle.loads(pickle.dumps(key))(RECORDS[0]) == 3


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"delay": 3}, "there is no field 'airport': the dict has delay"),
        (Row(delay=3), "there is no field 'airport': the Row has delay"),
        (Row(1, 2), "there is no field 'airport': the Row has 2 fields"),
        (("JFK", 3), "there is no field 'airport': the tuple has 2 fields"),
        (7, "there is no field 'airport': the int has no fields"),
        (defaultdict(int, delay=3), "there is no field 'airport': the defaultdict has delay"),
    ],
)
def test_a_record_without_the_field(record: Any, message: str) -> None:
    """The error would name a method of ours, and not the field that is misspelt."""
    with pytest.raises(TypeError, match=message):
        FieldKey(("delay", "airport") if isinstance(record, dict) else ("airport",))(record)


def test_a_record_is_not_changed_by_its_key() -> None:
    """A defaultdict would get the field that it lacks, and the default would be the key."""
    record = defaultdict(int, delay=3)
    for _ in range(2):
        with pytest.raises(TypeError, match="there is no field 'airport'"):
            FieldKey(("airport",))(record)
    assert dict(record) == {"delay": 3}
    assert FieldKey(("delay",))(record) == 3 and FieldKey(("delay", "delay"))(record) == (3, 3)


class Counts(NamedTuple):
    """Has a field with the name of a method of tuples."""

    count: int


def test_a_method_is_not_a_field() -> None:
    """The error would be that a method cannot be a key."""
    for record, method in (((1, 2), "count"), (Flight("JFK", 1), "__init__"), (Landing("JFK", 1), "index")):
        with pytest.raises(TypeError, match=f"there is no field '{method}'"):
            FieldKey((method,))(record)
    assert FieldKey(("count",))(Counts(3)) == 3


@dataclass(frozen=True)
class Nested:
    """Has an object with attributes."""

    flight: Flight


def test_a_dot_is_a_part_of_a_name() -> None:
    """`key_by("user.id")` would work for objects, and for dicts mean another field."""
    assert FieldKey(("user.id",))({"user.id": 1}) == 1
    with pytest.raises(TypeError, match=r"there is no field 'flight\.delay': the Nested has flight"):
        FieldKey(("flight.delay",))(Nested(Flight("JFK", 3)))


def test_the_key_of_a_function_is_the_field() -> None:
    """State would be kept by something else."""
    harness = KeyedOneInputHarness(CurrentKey(), FieldKey(("airport",)))
    harness.push(RECORDS[0])
    harness.push(Flight("EWR", 1))
    assert harness.outputs() == ["JFK", "EWR"]


def partitioner_of(keyed: KeyedStream[Any, Any]) -> HashPartitioner:
    """Return how a keyed stream is partitioned."""
    partitioner = keyed._transformation.partitioner  # type: ignore[attr-defined]
    assert isinstance(partitioner, HashPartitioner)
    return partitioner


def test_the_partitioner_knows_the_fields() -> None:
    """Columns could not be partitioned: nobody can look into a callable."""
    assert partitioner_of(stream().key_by("airport", "delay")).fields == ("airport", "delay")
    assert partitioner_of(stream().key_by(lambda record: record["airport"])).fields == ()
    assert partitioner_of(stream().key_by("airport").key_by("delay")).fields == ("delay",), "the last key counts"


FLIGHTS = Types.ROW_NAMED(["airport", "delay"], [Types.STRING(), Types.INT()])


def test_a_declared_type_gives_the_type_of_the_key() -> None:
    """Its state would be pickled in savepoints instead of being a typed column."""
    typed = stream(Row(airport="JFK", delay=3), type_info=FLIGHTS)
    assert typed.key_by("airport")._key_type == Types.STRING()
    assert typed.key_by("delay", "airport")._key_type == Types.TUPLE([Types.INT(), Types.STRING()])
    assert typed.key_by("delay", key_type=Types.LONG())._key_type == Types.LONG()
    assert typed.key_by("delay", Types.LONG())._key_type == Types.LONG()


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (lambda typed: typed.key_by("airprot"), "there is no field 'airprot'"),
        (lambda typed: typed.key_by("airport", 1), "expected names of fields after 'airport', got 1"),
        (lambda typed: typed.key_by(7), "a key selector must be a callable"),
        (lambda typed: typed.key_by(("airprot", "delay")), "there is no field 'airprot'"),
        (lambda typed: typed.key_by(()), "a key selector must be a callable"),
        (lambda typed: typed.key_by((1, 2)), r"or the name of a field, or several: .*got \(1, 2\)"),
        (lambda typed: typed.key_by(len, "airport", "delay"), "a key selector and a type, or names of fields"),
    ],
)
def test_fields_that_cannot_be_right_are_refused(program: Callable[[Any], Any], message: str) -> None:
    """The job would start, and fail at its first record."""
    typed = stream(Row(airport="JFK", delay=3), type_info=FLIGHTS)
    with pytest.raises((TypeError, ValueError), match=message):
        program(typed)


def test_two_streams_are_connected_and_joined_by_fields() -> None:
    """One stream would need a selector where the other has a name."""
    both = stream()
    connected = both.connect(both.map(dict)).key_by("airport", "airport")
    assert partitioner_of(connected.stream2).fields == ("airport",)  # type: ignore[arg-type]
    both.join(both.map(dict)).where("airport").equal_to("airport")


def test_several_fields_of_each_stream() -> None:
    """Two streams could not be connected by two fields."""
    both = stream()
    connected = both.connect(both.map(dict)).key_by(("airport", "delay"), ["delay", "airport"])
    assert partitioner_of(connected.stream1).fields == ("airport", "delay")  # type: ignore[arg-type]
    assert partitioner_of(connected.stream2).fields == ("delay", "airport")  # type: ignore[arg-type]
    assert partitioner_of(both.key_by(["airport", "delay"])).fields == ("airport", "delay")
    typed = stream(Row(airport="JFK", delay=3), type_info=FLIGHTS)
    assert typed.key_by(("delay", "airport"))._key_type == Types.TUPLE([Types.INT(), Types.STRING()])
