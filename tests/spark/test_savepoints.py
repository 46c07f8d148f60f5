"""Savepoints of a running job: taken, stopped with, drained, and what can be started from one."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.jobs import (
    STREAMING,
    SlowUntil,
    collect,
    environment,
    failure_of,
    lines_to,
    wait_until,
    wait_until_running,
)
from tests.spark.test_lost_workers import CountsAndDies, killed, visible
from tests.spark.test_recovery import Slowly
from tests.spark.test_recovery import settings as recovering

from penstock.common import Encoder, JobStatus, Time, Types, WatermarkStrategy
from penstock.connectors.base.data_generator import DataGeneratorSource
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.connectors.base.rate_limiter import RateLimiterStrategy
from penstock.datastream import CheckpointedFunction, FunctionInitializationContext, FunctionSnapshotContext
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.functions import KeyedProcessFunction, MapFunction, RuntimeContext
from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.datastream.window import TumblingEventTimeWindows

pytestmark = pytest.mark.spark
NONE = WatermarkStrategy.no_watermarks()
NUMBERS = 9_000
PER_KEY = NUMBERS // 20


class Remembers(KeyedProcessFunction[int, int, Any]):
    """Keeps a count, the last numbers and a dict, and emits all it knows with each record."""

    value_type = Types.LONG()

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", self.value_type))
        self.last = runtime_context.get_list_state(ListStateDescriptor("last", Types.LONG()))
        self.names = runtime_context.get_map_state(MapStateDescriptor("names", Types.STRING(), Types.LONG()))

    def process_element(self, value: int, ctx: Any) -> Iterator[str]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.last.update([*self.last.get(), value][-3:])
        self.names.put(f"n{count % 3}", value)
        yield f"{ctx.get_current_key()},{count},{value}"


class RemembersTexts(Remembers):
    value_type = Types.STRING()


def start(out: Path, parallelism: int, settings: dict[str, str], function: Any = Remembers, uid: str = "count") -> Any:
    env = environment(STREAMING, parallelism, {"execution.checkpointing.interval": "300 ms", **settings})
    source = DataGeneratorSource(lambda i: i, NUMBERS, SlowUntil(1_500, _in_a_hurry(out)))
    numbers = env.from_source(source, NONE, "numbers").uid("numbers")
    counted = numbers.key_by(lambda v: v % 20, key_type=Types.LONG()).process(function()).uid(uid)
    counted.sink_to(lines_to(out)).uid("files")
    return env.execute_async("remembers")


def hurry(out: Path) -> None:
    """From now on, jobs that write there read as fast as they can."""
    _in_a_hurry(out).touch()


def _in_a_hurry(out: Path) -> Path:
    return out.with_name(f"{out.name} in a hurry")


def rows(*outs: Path) -> list[tuple[int, int, int]]:
    lines = [line for out in outs for path in visible(out) for line in path.read_text().splitlines()]
    return [tuple(map(int, line.split(","))) for line in lines]  # type: ignore[misc]


def complete(found: list[tuple[int, int, int]]) -> None:
    assert sorted(value for _, _, value in found) == [*range(NUMBERS)], "each number once"
    assert Counter(key for key, _, _ in found) == dict.fromkeys(range(20), PER_KEY)
    for key in range(20):
        assert sorted(count for k, count, _ in found if k == key) == [*range(1, PER_KEY + 1)], "state went on"


def from_path(path: str) -> dict[str, str]:
    return {"execution.state-recovery.path": path}


def test_stopped_with_a_savepoint_and_started_with_another_parallelism(tmp_path: Path) -> None:
    """A job could not be moved, grown or shrunk without losing records, or counting some twice."""
    out = tmp_path / "out"
    client = start(out, 2, {})
    wait_until(lambda: len(rows(out)) > NUMBERS // 10, "nothing comes out")
    path = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    client.get_job_execution_result().result()
    assert client.get_job_status().result() is JobStatus.FINISHED
    stopped_at = len(rows(out))
    assert stopped_at < NUMBERS

    second = start(out, 3, from_path(path) | {"env.log.dir": str(tmp_path / "logs")})
    wait_until_running(second)
    (log,) = (tmp_path / "logs").glob("*/driver.log")
    assert f"the job starts from the state in {path}" in log.read_text(), (
        "who reads it later asks with what the job began"
    )
    path = second.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    second.get_job_execution_result().result()
    hurry(out)
    start(out, 1, from_path(path)).get_job_execution_result().result()
    complete(rows(out))


def test_a_savepoint_that_the_job_outlives_and_two_forks_of_it(tmp_path: Path) -> None:
    """An experiment on yesterday's state would disturb the job that goes on, or the other experiment."""
    out, forks = tmp_path / "out", [tmp_path / "fork0", tmp_path / "fork1"]
    client = start(out, 2, {})
    wait_until(lambda: len(rows(out)) > NUMBERS // 10, "nothing comes out")
    path = client.trigger_savepoint(str(tmp_path / "savepoints")).result()
    moved = tmp_path / "moved"
    Path(path).rename(moved)
    clients = [start(fork, p, from_path(str(moved))) for fork, p in zip(forks, (1, 2), strict=True)]
    for running in (out, *forks):
        hurry(running)
    for job in [client, *clients]:
        job.get_job_execution_result().result()
    complete(rows(out))
    for fork in forks:
        values = sorted(value for _, _, value in rows(fork))
        first = values[0] if values else NUMBERS
        assert values[-1:] == [NUMBERS - 1]
        assert first > 0
        counts = {(key, count) for key, count, _ in rows(fork)}
        assert len(counts) == len(values)
        assert max(count for _, count in counts) == PER_KEY, "it went on counting where the savepoint was"


def test_what_is_in_a_savepoint_can_be_read_by_other_tools(tmp_path: Path) -> None:
    """State would be an opaque blob, though its types were declared."""
    client = start(tmp_path / "out", 2, {})
    wait_until(lambda: rows(tmp_path / "out"), "nothing comes out")
    path = Path(client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result())
    tables: dict[str, list[pa.Table]] = {}
    for file in path.glob("*.parquet"):
        table = pq.read_table(file)
        groups = table.column("key_group").to_pylist()
        assert groups == sorted(groups)
        tables.setdefault(table.schema.metadata[b"penstock.table"].decode(), []).append(table)
    assert tables.keys() == {"count", "last", "names"}
    count = pa.concat_tables(tables["count"])
    assert (count.schema.field("key").type, count.schema.field("value").type) == (pa.int64(), pa.int64())
    assert sorted(count.column("key").to_pylist()) == [*range(20)]
    assert pa.concat_tables(tables["last"]).schema.field("value").type == pa.list_(pa.int64())
    assert pa.concat_tables(tables["names"]).schema.field("value").type == pa.map_(pa.string(), pa.int64())


def test_programs_that_a_savepoint_does_not_fit(tmp_path: Path) -> None:
    """State would be dropped silently, or be read as another type."""
    out = tmp_path / "out"
    client = start(out, 2, {})
    wait_until(lambda: rows(out), "nothing comes out")
    path = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()

    text = failure_of(lambda: start(out, 2, from_path(path), uid="other"))
    assert "'KEYED PROCESS' (count)" in text or "(count)" in text
    assert "--allow-non-restored-state" in text
    job = start(out, 2, {**from_path(path), "restart-strategy.type": "none"}, RemembersTexts)
    text = failure_of(job.get_job_execution_result().result)
    assert "the state 'count' was written as value of Long, the program declares it as value of String" in text
    hurry(tmp_path / "other")
    start(
        tmp_path / "other",
        2,
        {**from_path(path), "execution.state-recovery.ignore-unclaimed-state": "true"},
        uid="other",
    ).get_job_execution_result().result()
    assert min(count for _, count, _ in rows(tmp_path / "other")) == 1, "that state was left behind"


@pytest.mark.parametrize("interval", ["300 ms", None])
def test_drained(tmp_path: Path, interval: str | None) -> None:
    """A job that is ended for good would keep the windows that are open to itself."""
    settings = {"execution.checkpointing.interval": interval} if interval else {}
    env = environment(STREAMING, 2, {**settings, "execution.checkpointing.savepoint-dir": str(tmp_path / "savepoints")})
    source = DataGeneratorSource(lambda i: i, 1_000_000, RateLimiterStrategy.per_second(500))
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value)
    numbers = env.from_source(source, strategy, "numbers")
    windows = numbers.key_by(lambda v: 0).window(TumblingEventTimeWindows.of(Time.hours(1)))
    out = tmp_path / "out"
    windows.reduce(lambda a, b: max(a, b)).map(str).sink_to(
        FileSink.for_row_format(out, Encoder.simple_string_encoder()).build()
    )
    client = env.execute_async("hour")
    wait_until_running(client)
    wait_until(
        lambda: any(metrics["numRecordsOut"] > 500 for metrics in client.get_metrics().values()), "nothing is read"
    )
    assert Path(client.stop_with_savepoint(True).result(), "_metadata").exists()
    client.get_job_execution_result().result()
    (line,) = [line for path in visible(out) for line in path.read_text().splitlines()]
    assert int(line) >= 500


def test_a_savepoint_that_can_not_be_taken(tmp_path: Path) -> None:
    """The caller would wait for ever, or the job would fail because of a wrong directory."""
    (tmp_path / "file").touch()
    client = start(tmp_path / "out", 2, {})
    wait_until_running(client)
    assert "execution.checkpointing.savepoint-dir" in failure_of(client.trigger_savepoint().result)
    assert "the savepoint failed" in failure_of(client.trigger_savepoint(str(tmp_path / "file")).result)
    assert "the savepoint failed" in failure_of(client.stop_with_savepoint(False, str(tmp_path / "file")).result)
    hurry(tmp_path / "out")
    client.get_job_execution_result().result()
    complete(rows(tmp_path / "out"))
    assert "the job has ended" in failure_of(client.trigger_savepoint(str(tmp_path)).result)


class Gathers(MapFunction, CheckpointedFunction):
    """Stores the numbers that it has seen, in a list for each redistribution; emits them at the start."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        states = context.get_operator_state_store()
        self.split = states.get_list_state(ListStateDescriptor("split", Types.LONG()))
        self.union = states.get_union_list_state(ListStateDescriptor("union", Types.LONG()))
        self.rules = states.get_broadcast_state(MapStateDescriptor("rules", Types.STRING(), Types.LONG()))
        self.seen: list[int] = []
        found = list(self.split), sorted(self.union), dict(self.rules.items())
        self.found: Any = found if context.is_restored() else None

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.split.add_all(self.seen)
        self.union.add_all(self.seen)
        self.rules["checkpoint"] = context.get_checkpoint_id()
        self.seen = []

    def map(self, value: int) -> str:
        self.seen.append(value)
        found, self.found = self.found, None
        return f"{value}" if found is None else f"{value} {found}"


def test_operator_state_is_dealt_out_anew(tmp_path: Path) -> None:
    """Buffers and offsets that functions keep would be lost, or held twice, after a rescale."""

    def gather(parallelism: int, numbers: int, settings: dict[str, str]) -> tuple[Any, Path]:
        out = tmp_path / f"out{parallelism}"
        env = environment(STREAMING, parallelism, settings)
        source = DataGeneratorSource(lambda i: i, numbers, RateLimiterStrategy.per_second(300))
        gathered = env.from_source(source, NONE, "numbers").uid("numbers").rebalance().map(Gathers()).uid("gathers")
        gathered.sink_to(lines_to(out)).uid("files")
        return env.execute_async("gathers"), out

    def lines(out: Path) -> list[str]:
        return [line for path in visible(out) for line in path.read_text().splitlines()]

    first, out = gather(2, 100_000, {"execution.checkpointing.interval": "200 ms"})
    wait_until(lambda: len(lines(out)) > 200, "nothing comes out")
    path = first.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    first.get_job_execution_result().result()
    seen = sorted(map(int, lines(out)))
    second, out = gather(3, 100_000, {"execution.checkpointing.interval": "200 ms", **from_path(path)})
    wait_until(lambda: sum("(" in line for line in lines(out)) == 3, "not all three have started")
    second.cancel().result()
    found = [ast.literal_eval(line.partition(" ")[2]) for line in lines(out) if "(" in line]
    assert sorted(number for split, _, _ in found for number in split) == seen
    assert min(len(split) for split, _, _ in found) >= len(seen) // 3, "in turn"
    assert all(union == seen for _, union, _ in found)
    assert len({tuple(rules.items()) for _, _, rules in found}) == 1


ROCKS = {
    "state.backend.type": "rocksdb",
    # So few that all there is goes through RocksDB.
    "state.backend.rocksdb.cached-entries": "3",
    "state.backend.rocksdb.memory.fixed-per-slot": "4m",
}


def test_another_backend(tmp_path: Path) -> None:
    """A job that outgrows its memory could not be moved to a backend that keeps its state on disk."""
    out, rocks = tmp_path / "out", {**ROCKS, "state.backend.rocksdb.localdir": str(tmp_path / "rocks")}
    client = start(out, 2, {})
    wait_until(lambda: len(rows(out)) > NUMBERS // 10, "nothing comes out")
    path = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    client.get_job_execution_result().result()
    second = start(out, 3, {**from_path(path), **rocks})
    wait_until(lambda: [*(tmp_path / "rocks").rglob("*.log"), *(tmp_path / "rocks").rglob("MANIFEST*")], "no RocksDB")
    # On a machine that is busy the first job may have written a third by itself.
    wait_until_running(second)
    wait_until(lambda: len(rows(out)) > NUMBERS // 3, "nothing comes out")
    path = second.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    second.get_job_execution_result().result()
    hurry(out)
    start(out, 2, from_path(path)).get_job_execution_result().result()
    complete(rows(out))


def test_rocksdb_and_workers_that_are_killed(tmp_path: Path) -> None:
    """What was on the lost worker's disk would be gone."""
    deaths = tmp_path / "deaths"
    deaths.mkdir()
    env = environment(STREAMING, 2, recovering(tmp_path, **ROCKS))
    numbers = env.from_source(NumberSequenceSource(0, 19_999), NONE, "numbers").map(Slowly())
    counted = numbers.key_by(lambda v: v % 500).process(CountsAndDies(deaths))
    collected = collect(counted)
    assert killed(deaths) == ["CountsAndDies-0", "CountsAndDies-1"]
    assert sorted(value for _, _, value in collected) == [*range(20_000)]
    assert {count for _, count, _ in collected} == {*range(1, 41)}
