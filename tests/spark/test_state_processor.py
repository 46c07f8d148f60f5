"""State taken from a job, looked at, changed, made of records, and given to jobs that start from it."""

from __future__ import annotations

import dataclasses
import datetime
import pickle
import re
import sys
import types
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from tests.first_cases import first_of
from tests.spark.jobs import BATCH, STREAMING, collect, environment, failure_of, wait_until
from tests.spark.test_lost_workers import visible
from tests.spark.test_savepoints import NUMBERS, PER_KEY, from_path, hurry, rows, start

from penstock.common import Encoder, Instant, Row, Types, WatermarkStrategy
from penstock.common.configuration import Configuration
from penstock.common.typeinfo import TypeInformation
from penstock.connectors.base.data_generator import DataGeneratorSource
from penstock.connectors.base.rate_limiter import RateLimiterStrategy
from penstock.datastream import FunctionInitializationContext, FunctionSnapshotContext
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.functions import KeyedProcessFunction, MapFunction, RuntimeContext
from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.hosts.spark.driver.session import session_for
from penstock.state_processor import (
    BroadcastStateBootstrapFunction,
    KeyedStateBootstrapFunction,
    KeyedStateReaderFunction,
    SavepointReader,
    SavepointWriter,
    StateBootstrapFunction,
)

pytestmark = pytest.mark.spark
DOCUMENT = Path(__file__).parents[2] / "docs" / "how-to" / "state-as-data.md"
COUNT = ValueStateDescriptor("count", Types.LONG())
LAST = ListStateDescriptor("last", Types.LONG())


@dataclasses.dataclass
class Account:
    owner: str
    cents: int


@pytest.fixture
def spark() -> Any:
    return session_for(2, False, Configuration(), None)


def test_the_examples_that_are_shown(tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody's first use of it is a copy of these, with their mistakes."""
    module = types.ModuleType("state_processor_examples")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    # As a script: workers are sent its classes.
    cloudpickle.register_pickle_by_value(module)
    monkeypatch.chdir(tmp_path)
    for block in re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(block, str(DOCUMENT), "exec"), vars(module))
    cloudpickle.unregister_pickle_by_value(module)
    shown = vars(module)
    assert (shown["delays"], shown["jfk"]) == ({"JFK": 120, "LGA": 45}, [("JFK", 120)])
    assert shown["rules"] == {"delay": 60}
    assert shown["report"] == [("JFK", 120, [5, 7], set()), ("LGA", 45, [2], set())]
    assert shown["frame"].dtypes == [("key", "string"), ("value", "bigint")]
    second = SavepointReader.read(shown["second"])
    assert dict(second.entries("airport-delay", "total")) == {"JFK": 60, "LGA": 22}
    assert dict(second.entries("airport-delay", "last")) == {"JFK": [5, 7], "LGA": [2]}
    assert dict(second.entries("airport-totals", "total")) == {"JFK": 120}
    assert [operator.uid for operator in second.operators()] == ["airport-delay", "airport-totals"]
    assert dict(SavepointReader.read(shown["third"]).entries("airport-delay", "total")) == {"JFK": 40, "LGA": 5}


class CountAndLast(KeyedStateReaderFunction[int, Any]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(COUNT)
        self.last = runtime_context.get_list_state(LAST)

    def read_key(self, key: int, ctx: Any) -> Iterator[Any]:
        yield key, self.count.value(), max(self.last)


def test_a_jobs_state_is_read_changed_and_given_back(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """State could be read, repaired or moved only by the job that has written it."""
    out = tmp_path / "out"
    client = start(out, 2, {})
    wait_until(lambda: len(rows(out)) > NUMBERS // 10, "nothing comes out")
    path = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    client.get_job_execution_result().result()
    stopped = rows(out)
    counts = {key: max(count for k, count, _ in stopped if k == key) for key in range(20)}
    last = {key: max(value for k, _, value in stopped if k == key) for key in range(20)}

    reader = SavepointReader.read(path)
    assert reader.job_name == "remembers"
    assert dict(reader.entries("count", "count")) == counts
    joined = sorted(reader.read_keyed_state("count", CountAndLast()))
    assert joined == [(key, counts[key], last[key]) for key in range(20)]
    frame = reader.to_dataframe(spark, "count", "count")
    assert frame.dtypes == [("key", "bigint"), ("value", "bigint")]
    assert {row.key: row.value for row in frame.collect()} == counts
    names = reader.to_dataframe(spark, "count", "names")
    assert names.dtypes == [("key", "bigint"), ("value", "map<string,bigint>")]
    assert {row.key: row.value for row in names.collect()} == dict(reader.entries("count", "names"))
    assert reader.to_dataframe(spark, "numbers", "(source) splits").count() > 0

    writer = SavepointWriter.from_existing_savepoint(path)
    writer.with_keyed_state("count", COUNT, frame.where("key < 10").selectExpr("key", "value + 100000 AS value"))
    writer.write(tmp_path / "changed")
    monkeypatch.chdir(tmp_path)
    hurry(out)
    start(out, 3, from_path("changed")).get_job_execution_result().result()
    everything = rows(out)
    assert sorted(value for _, _, value in everything) == [*range(NUMBERS)], "sources go on where they were"
    ends = {key: max(count for k, count, _ in everything if k == key) for key in range(20)}
    expected = {key: PER_KEY + 100_000 if key < 10 else PER_KEY - counts[key] for key in range(20)}
    assert ends == {key: max(expected[key], counts[key]) for key in range(20)}


def test_a_checkpoint_as_a_data_frame(tmp_path: Path, spark: Any) -> None:
    """Spark could not be asked about the state of a job that goes on, or that has died."""
    settings = {
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    }
    client = start(tmp_path / "out", 2, settings)
    wait_until(lambda: len(rows(tmp_path / "out")) > NUMBERS // 10, "nothing comes out")
    client.cancel().result()
    (checkpoint,) = (tmp_path / "checkpoints").glob("*/chk-*")
    reader = SavepointReader.read(checkpoint)
    for state in ("count", "last", "names"):
        frame = reader.to_dataframe(spark, "count", state)
        assert frame.dtypes[0] == ("key", "bigint")
        assert {row.key: row.value for row in frame.collect()} == dict(reader.entries("count", state))


def test_what_has_no_type_in_spark(tmp_path: Path, spark: Any) -> None:
    """Values would be truncated, or silently lost, when they are converted to a DataFrame and back."""
    plain = ValueStateDescriptor("plain")
    mixed = {"a": 1, "b": "x", "c": {1, 2}}
    accounts = {(1, "a"): Account("Ann", 5), (2, "b"): Account("Bob", 7)}
    huge = {"a": 2**80, "b": 1}
    writer = SavepointWriter.new_savepoint().with_keyed_state("op", plain, mixed)
    writer.with_keyed_state("op", ValueStateDescriptor("accounts"), accounts)
    writer.with_keyed_state("op", ValueStateDescriptor("huge", Types.BIG_INT()), huge)
    writer.with_keyed_state("op", "(timers) event time", [("a", 5, None), ("b", 6, None)])
    writer.with_broadcast_state("op", MapStateDescriptor("rules"), {"limit": 1})
    reader = SavepointReader.read(writer.write(tmp_path / "sp"))
    frames = {state: reader.to_dataframe(spark, "op", state) for state in ("plain", "accounts", "huge", "rules")}
    assert frames["plain"].dtypes == [("key", "string"), ("value", "binary")]
    assert {row.key: pickle.loads(row.value) for row in frames["plain"].collect()} == mixed
    assert frames["accounts"].dtypes[0] == ("key", "struct<f0:bigint,f1:string>")
    assert {row.key: row.value for row in frames["huge"].collect()} == {"a": str(2**80), "b": "1"}
    assert frames["rules"].collect() == [("limit", 1)]
    timers = reader.to_dataframe(spark, "op", "(timers) event time")
    assert [tuple(row) for row in timers.orderBy("timestamp").collect()] == [("a", 5, None), ("b", 6, None)]

    again = SavepointWriter.new_savepoint()
    for state in ("plain", "accounts"):
        again.with_keyed_state("op", ValueStateDescriptor(state), frames[state].where("true"))
    again.with_keyed_state("op", ValueStateDescriptor("huge", Types.BIG_INT()), frames["huge"])
    again.with_keyed_state("op", "(timers) event time", timers)
    reader = SavepointReader.read(again.write(tmp_path / "again"))
    assert dict(reader.entries("op", "plain")) == mixed
    assert dict(reader.entries("op", "accounts")) == accounts
    assert dict(reader.entries("op", "huge")) == huge
    assert sorted(reader.entries("op", "(timers) event time")) == [("a", 5, None), ("b", 6, None)]
    message = failure_of(
        lambda: SavepointWriter.new_savepoint().with_keyed_state("op", plain, spark.range(3)).write(tmp_path / "no")
    )
    assert "needs the columns key, value; this one has id" in message


def test_any_data_frame_becomes_state(tmp_path: Path, spark: Any) -> None:
    """A table of customers would have to go through a file or a stream to become a job's first knowledge."""
    frame = spark.sql(
        "SELECT id AS key, named_struct('name', concat('n', id), 'ids', array(id)) AS value FROM range(50)"
    )
    declared = Types.ROW_NAMED(["name", "ids"], [Types.STRING(), Types.LIST(Types.LONG())])
    writer = SavepointWriter.new_savepoint().with_keyed_state("op", ValueStateDescriptor("rows", declared), frame)
    writer.with_keyed_state("op", ValueStateDescriptor("untyped"), frame)
    reader = SavepointReader.read(writer.write(tmp_path / "sp"))
    for state in ("rows", "untyped"):
        values = dict(reader.entries("op", state))
        assert len(values) == 50
        assert (values[7].name, values[7].ids) == ("n7", [7])


NOON = datetime.datetime(2020, 1, 2, 12, 0, 0, 250_000)
MOMENT = Instant(1_577_966_400, 250_000_000)
TIMES: dict[str, tuple[TypeInformation, Any]] = {
    "instant": (Types.INSTANT(), MOMENT),
    "timestamp": (Types.SQL_TIMESTAMP(), NOON),
    "date": (Types.SQL_DATE(), NOON.date()),
    "time": (Types.SQL_TIME(), NOON.time()),
    "nested": (Types.LIST(Types.TUPLE([Types.INSTANT(), Types.SQL_TIMESTAMP()])), [(MOMENT, NOON), None]),
}


@pytest.fixture(params=["UTC", "Europe/Zurich"])
def zone(request: pytest.FixtureRequest, spark: Any) -> Iterator[str]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield request.param
    spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.parametrize("name", TIMES)
def test_times_in_data_frames(tmp_path: Path, spark: Any, zone: str, name: str) -> None:
    """A state of times could not be a DataFrame, or not become state again, except in sessions of one zone."""
    kind, value = TIMES[name]
    state = ValueStateDescriptor(name, kind)
    writer = SavepointWriter.new_savepoint().with_keyed_state("op", state, {1: value})
    reader = SavepointReader.read(writer.write(tmp_path / "sp"))
    frame = reader.to_dataframe(spark, "op", name)
    again = SavepointWriter.new_savepoint().with_keyed_state("op", state, frame)
    reader = SavepointReader.read(again.write(tmp_path / "again"))
    assert dict(reader.entries("op", name)) == {1: value}


def test_times_of_any_data_frame_become_state(tmp_path: Path, spark: Any, zone: str) -> None:
    """Times of a table would become numbers, or fail, by the zone of the session that reads it."""
    at = "TIMESTAMP'2020-01-02 12:00:00.25 UTC'"
    struct = f"named_struct('at', {at}, 'local', TIMESTAMP_NTZ'2020-01-02 12:00:00.25', 'price', 1.50BD)"
    writer = SavepointWriter.new_savepoint()
    of_struct = spark.sql(f"SELECT 1 AS key, {struct} AS value")
    writer.with_keyed_state("op", ValueStateDescriptor("untyped"), of_struct)
    kinds = [Types.INSTANT(), Types.SQL_TIMESTAMP(), Types.BIG_DEC()]
    declared = ValueStateDescriptor("typed", Types.ROW_NAMED(["at", "local", "price"], kinds))
    writer.with_keyed_state("op", declared, of_struct)
    of_moments = spark.sql(f"SELECT 1 AS key, {at} AS value")
    writer.with_keyed_state("op", ValueStateDescriptor("moments"), of_moments)
    writer.with_keyed_state("op", ValueStateDescriptor("in UTC", Types.SQL_TIMESTAMP()), of_moments)
    reader = SavepointReader.read(writer.write(tmp_path / "sp"))
    expected = Row(at=MOMENT, local=NOON, price=Decimal("1.50"))
    for name, value in (("untyped", expected), ("typed", expected), ("moments", MOMENT), ("in UTC", NOON)):
        assert dict(reader.entries("op", name)) == {1: value}

    dates = ValueStateDescriptor("dates", Types.SQL_DATE())
    wrong = SavepointWriter.new_savepoint().with_keyed_state("op", dates, of_struct)
    message = failure_of(lambda: wrong.write(tmp_path / "no"))
    assert "the column value of the DataFrame does not match the state: a column of the type struct<at:" in message


class Balances(KeyedStateBootstrapFunction[str, Any]):
    """Sums up, and sets a timer."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: tuple[str, int], ctx: KeyedStateBootstrapFunction.Context) -> None:
        self.total.update((self.total.value() or 0) + value[1])
        ctx.timer_service().register_processing_time_timer(1)
        assert ctx.get_current_key() == value[0]


class GoesOn(KeyedProcessFunction[str, Any, Any]):
    """Emits the total with each record, and when the timer fires."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value: tuple[str, int], ctx: Any) -> Iterator[str]:
        self.total.update((self.total.value() or 0) + value[1])
        yield f"{value[0]},{self.total.value()}"

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[str]:
        yield f"timer,{ctx.get_current_key()}"


@pytest.mark.parametrize("parallelism", first_of(1, [3, 1]))
def test_a_job_starts_from_what_a_batch_job_has_made(tmp_path: Path, parallelism: int) -> None:
    """A new job would know nothing of the years before it."""
    history = [(f"k{n % 30}", n) for n in range(3_000)]
    env = environment(STREAMING, 2)
    stream = env.from_collection(history).key_by(lambda pair: pair[0], key_type=Types.STRING())
    writer = SavepointWriter.new_savepoint().bootstrap("balances", stream, Balances())
    writer.with_list_state("balances", ListStateDescriptor("notes"), ["a", "b"])
    path = writer.write(tmp_path / "bootstrapped")
    totals = {f"k{k}": sum(n for n in range(3_000) if n % 30 == k) for k in range(30)}
    reader = SavepointReader.read(path)
    assert dict(reader.entries("balances", "total")) == totals
    assert sorted(reader.read_list_state("balances", "notes")) == ["a", "b"]
    assert reader.operator("balances").parallelism == 2

    out = tmp_path / "out"
    env = environment(STREAMING, parallelism, {"execution.checkpointing.interval": "200 ms", **from_path(path)})
    source = DataGeneratorSource(lambda i: (f"k{i % 30}", 1), 60, RateLimiterStrategy.per_second(60))
    keyed = env.from_source(source, WatermarkStrategy.no_watermarks(), "new").key_by(lambda pair: pair[0])
    keyed.process(GoesOn()).uid("balances").sink_to(
        FileSink.for_row_format(out, Encoder.simple_string_encoder()).build()
    )
    env.execute("balances")
    lines = [line.split(",") for file in visible(out) for line in file.read_text().splitlines()]
    assert sorted(key for what, key in lines if what == "timer") == sorted(totals), "timers have fired in the new job"
    ends = {key: max(int(total) for k, total in lines if k == key) for key in totals}
    assert ends == {key: total + 2 for key, total in totals.items()}


class Notes(StateBootstrapFunction[int]):
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.notes = context.get_operator_state_store().get_list_state(ListStateDescriptor("notes", Types.LONG()))
        self.seen: list[int] = []

    def process_element(self, value: int, ctx: Any) -> None:
        self.seen.append(value)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.notes.update(self.seen)


class Rules(BroadcastStateBootstrapFunction[int]):
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self.rules = store.get_broadcast_state(MapStateDescriptor("rules", Types.LONG(), Types.LONG()))

    def process_element(self, value: int, ctx: Any) -> None:
        self.rules[value] = value * 2

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        pass


class Knows(MapFunction):
    """Emits what its operator state was at the start."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self.notes = list(store.get_list_state(ListStateDescriptor("notes", Types.LONG())))

    def map(self, value: int) -> Any:
        return self.notes


def test_operator_state_is_made_of_records(tmp_path: Path) -> None:
    """Only keyed state could be bootstrapped; broadcast rules would have to be sent again."""
    env = environment(BATCH, 3)
    numbers = env.from_collection(list(range(40)))
    writer = SavepointWriter.new_savepoint().bootstrap("notes", numbers.rebalance(), Notes())
    writer.bootstrap("rules", numbers, Rules())
    reader = SavepointReader.read(writer.write(tmp_path / "sp"))
    assert sorted(reader.read_list_state("notes", "notes")) == [*range(40)]
    assert dict(reader.read_broadcast_state("rules", "rules")) == {n: n * 2 for n in range(40)}
    assert env._configuration.get_string("execution.runtime-mode", "") == "BATCH"


class Emits(Balances):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


class Breaks(Balances):
    def process_element(self, value: Any, ctx: Any) -> None:
        raise ValueError("no")


def test_bootstraps_that_can_not_be(tmp_path: Path) -> None:
    """A savepoint would be written that lacks what was meant to be in it."""
    env = environment(STREAMING, 2)
    keyed = env.from_collection([("a", 1)]).key_by(lambda pair: pair[0])
    new = SavepointWriter.new_savepoint
    assert "emits nothing" in failure_of(lambda: new().bootstrap("op", keyed, Emits()).write(tmp_path / "sp"))
    broken = failure_of(lambda: new().bootstrap("op", keyed, Breaks()).write(tmp_path / "sp"))
    assert "Breaks.process_element" in broken
    assert not (tmp_path / "sp").exists()
    assert "needs a keyed stream" in failure_of(lambda: new().bootstrap("op", env.from_collection([1]), Balances()))
    writer = new().with_keyed_state("op", COUNT, {})
    assert "call remove_operator('op')" in failure_of(lambda: writer.bootstrap("op", keyed, Balances()))
    with pytest.raises(TypeError, match="KeyedStateBootstrapFunction"):
        new().bootstrap("op", keyed, Balances)
    assert collect(env.from_collection([1])) == [1], "the environment goes on as it was"
