"""A job that keeps everything that a job can keep, and the snapshots that its run leaves behind.

    python -c "from tests.data.formats.program import write; write(5)"

runs it, from the root of the repository, and writes tests/data/formats/version-5 (see README.md). Only public paths of
penstock are used, so the program also runs with other versions than the one it lies beside. All that a snapshot names
lies below DIRECTORY, a path that any machine can have.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import shutil
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from penstock.common import Configuration, Duration, Encoder, Instant, Row, Time, Types, WatermarkStrategy
from penstock.datastream import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    StreamExecutionEnvironment,
)
from penstock.datastream.connectors import DataGeneratorSource, FileSource, NumberSequenceSource, RateLimiterStrategy
from penstock.datastream.connectors.base import TwoPhaseCommitSink, WriteAheadSink
from penstock.datastream.connectors.file_system import FileSink, StreamFormat
from penstock.datastream.functions import (
    AggregateFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessWindowFunction,
    ReduceFunction,
    RuntimeContext,
)
from penstock.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.datastream.window import (
    ContinuousEventTimeTrigger,
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)

DIRECTORY = Path("/var/tmp/penstock-formats")
NUMBERS = 300
KEYS = 3
FAR_MS = 40_000_000_000_000
"""Later than any clock shows: what waits for it is in every snapshot."""
FILES = 6
LINES = 150


@dataclasses.dataclass(frozen=True)
class Station:
    """A key of the user's own."""

    name: str


@dataclasses.dataclass
class Totals:
    """An accumulator of the user's own."""

    count: int = 0
    total: int = 0


class Sum(ReduceFunction[int]):
    def reduce(self, value1: int, value2: int) -> int:
        return value1 + value2


class Mean(AggregateFunction[int, Totals, float]):
    def create_accumulator(self) -> Totals:
        return Totals()

    def add(self, value: int, accumulator: Totals) -> Totals:
        return Totals(accumulator.count + 1, accumulator.total + value)

    def get_result(self, accumulator: Totals) -> float:
        return accumulator.total / accumulator.count

    def merge(self, acc_a: Totals, acc_b: Totals) -> Totals:
        return Totals(acc_a.count + acc_b.count, acc_a.total + acc_b.total)


class Remembers(KeyedProcessFunction[int, Any, str]):
    """A state of every kind, with or without a time to live, and timers of both domains."""

    def __init__(self, ttl: bool, typed: bool) -> None:
        self.ttl, self.typed = ttl, typed

    def open(self, runtime_context: RuntimeContext) -> None:
        long, text = (Types.LONG(), Types.STRING()) if self.typed else (Types.PICKLED_BYTE_ARRAY(),) * 2
        pickled = Types.PICKLED_BYTE_ARRAY()
        value = ValueStateDescriptor("value", pickled)
        numbers = ListStateDescriptor("list", long)
        names = MapStateDescriptor("map", text, long)
        reduced = ReducingStateDescriptor("reducing", Sum(), long)
        mean = AggregatingStateDescriptor("aggregating", Mean(), pickled)
        if self.ttl:
            for descriptor in (value, numbers, names, reduced, mean):
                descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.days(36_500)).build())
        self.value = runtime_context.get_state(value)
        self.numbers = runtime_context.get_list_state(numbers)
        self.names = runtime_context.get_map_state(names)
        self.reduced = runtime_context.get_reducing_state(reduced)
        self.mean = runtime_context.get_aggregating_state(mean)

    def process_element(self, value: int, ctx: Any) -> None:
        self.value.update([Row(n=value, at=Instant.of_epoch_milli(value)), Duration.of_millis(value), (value, "x")])
        self.numbers.add(value)
        self.names.put(f"n{value % 2}", value)
        self.reduced.add(value)
        self.mean.add(value)
        timers = ctx.timer_service()
        timers.register_event_time_timer(FAR_MS)
        timers.register_processing_time_timer(FAR_MS)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[str]:
        if ctx.time_domain().name == "EVENT_TIME":
            names = sorted(self.names.items())
            key, numbers = ctx.get_current_key(), list(self.numbers.get())
            yield f"{key} {self.value.value()} {numbers} {names} {self.reduced.get()} {self.mean.get()}"


class WindowTotal(ProcessWindowFunction[int, str, Any, Any]):
    """Sums the records of a window, and counts its firings and those of all windows of the key."""

    def __init__(self, window_state: bool = True) -> None:
        self.window_state = window_state

    def process(self, key: Any, context: Any, elements: Iterable[int]) -> Iterable[str]:
        descriptor = ValueStateDescriptor("firings", Types.LONG())
        states = [context.global_state().get_state(descriptor)]
        if self.window_state:
            states.append(context.window_state().get_state(descriptor))
        for state in states:
            state.update((state.value() or 0) + 1)
        return [f"{key} {context.window()} {sorted(elements)} {[state.value() for state in states]}"]

    def clear(self, context: Any) -> None:
        if self.window_state:
            context.window_state().get_state(ValueStateDescriptor("firings", Types.LONG())).clear()


class Remembered(MapFunction[int, str], CheckpointedFunction):
    """Operator state of every redistribution."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self.split = store.get_list_state(ListStateDescriptor("split", Types.LONG()))
        self.union = store.get_union_list_state(ListStateDescriptor("union", Types.PICKLED_BYTE_ARRAY()))
        self.rules = store.get_broadcast_state(MapStateDescriptor("rules", Types.STRING(), Types.LONG()))

    def map(self, value: int) -> str:
        self.split.update([*self.split.get(), value][-3:])
        self.union.update([Row(value, Station("u"))])
        self.rules.put(f"r{value % 2}", value)
        return f"{value} {list(self.split.get())} {list(self.union.get())} {sorted(self.rules.items())}"

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        pass


class Tagged(MapFunction[Any, str]):
    def __init__(self, tag: str) -> None:
        self.tag = tag

    def map(self, value: Any) -> str:
        return f"{self.tag}: {value}"


class Transactions(TwoPhaseCommitSink[str, str]):
    """A transaction is a file, and visible when it is called `.done`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin_transaction(self) -> str:
        self.values: list[str] = []
        return uuid.uuid4().hex

    def invoke(self, transaction: str, value: str, context: object) -> None:
        self.values.append(value)

    def pre_commit(self, transaction: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / f"{transaction}.ready").write_text("\n".join(self.values))

    def commit(self, transaction: str) -> None:
        if (self.folder / f"{transaction}.ready").exists():
            (self.folder / f"{transaction}.ready").rename(self.folder / f"{transaction}.done")

    def abort(self, transaction: str) -> None:
        (self.folder / f"{transaction}.ready").unlink(missing_ok=True)


class Batches(WriteAheadSink[str]):
    """A file for each batch; the same batch twice is the same file."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def send_values(self, values: Sequence[str], checkpoint_id: int, timestamp: int) -> bool:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / f"{min(values).replace(' ', '')[:40]}.done").write_text("\n".join(values))
        return True


class _Timed:
    """Event time of a number: a tenth of a second each."""

    def extract_timestamp(self, value: int, record_timestamp: int) -> int:
        return value * 100


def key_of(value: int) -> int:
    return value % KEYS


def station_of(value: int) -> tuple[str, Station]:
    return "station", Station(f"s{value % KEYS}")


def double(value: int) -> int:
    return value * 2


def build(env: StreamExecutionEnvironment, directory: Path, small: bool) -> None:
    """The job. `small`: with fewer operators, where each has files of a store."""
    timed = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_Timed().extract_timestamp)
    numbers = env.from_source(NumberSequenceSource(1, NUMBERS), timed, "numbers").uid("numbers")
    slow = numbers.map(_same, Types.LONG()).uid("slow")
    keyed = slow.key_by(key_of, Types.LONG())
    second, event = Time.seconds(1), TumblingEventTimeWindows
    total = WindowTotal()
    outs: dict[str, Any] = {
        "states": keyed.process(Remembers(ttl=False, typed=True)),
        "ttl": keyed.process(Remembers(ttl=True, typed=False)),
        "tumbling-process": keyed.window(event.of(second)).process(total),
        "session": keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(450))).process(WindowTotal(False)),
    }
    if not small:
        sliding = SlidingEventTimeWindows.of(second, Time.milliseconds(500))
        continuous = ContinuousEventTimeTrigger.of(Time.milliseconds(400))
        stations = slow.key_by(station_of)
        outs |= {
            "stations": stations.process(Remembers(ttl=False, typed=False)),
            "tumbling-reduce": keyed.window(event.of(second)).reduce(Sum()),
            "sliding-aggregate": keyed.window(sliding).aggregate(Mean()),
            "late": stations.window(event.of(second)).allowed_lateness(500).reduce(Sum()),
            "continuous": keyed.window(event.of(second)).trigger(continuous).process(total),
            "sessions-reduced": keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(450))).reduce(Sum()),
            "count": keyed.window(CountTumblingWindowAssigner.of(7)).apply(_applied),
            "count-sliding": keyed.window(CountSlidingWindowAssigner.of(7, 3)).apply(_applied),
            "count-window": keyed.count_window(6).reduce(Sum()),
            "global": keyed.window(GlobalWindows.create())
            .trigger(PurgingTrigger.of(CountTrigger.of(5)))
            .process(total),
            "rolling": keyed.reduce(Sum()),
        }
        # A window that does not end: what comes of it at the end is not to be known.
        keyed.window(TumblingProcessingTimeWindows.of(Time.milliseconds(FAR_MS))).process(total).name("for ever").uid(
            "processing-time"
        ).map(Tagged("never"), Types.STRING()).filter(_none).print()
        collection = env.from_collection([*range(NUMBERS)], Types.LONG()).uid("collection")
        outs["operator"] = collection.map(Remembered(), Types.STRING())
        generated = DataGeneratorSource(double, NUMBERS, RateLimiterStrategy.per_second(300))
        outs["generated"] = env.from_source(generated, WatermarkStrategy.no_watermarks(), "generated").uid("generated")
    files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(directory / "input")).build()
    lines = env.from_source(files, WatermarkStrategy.no_watermarks(), "line files").uid("line files")
    outs["lines"] = lines.map(_same, Types.STRING()).uid("slow lines")
    united = []
    for tag, stream in outs.items():
        if tag != "generated":
            stream.uid(tag)
        united.append(stream.map(Tagged(tag), Types.STRING()).uid(f"tag {tag}"))
    results = united[0].union(*united[1:])
    results.sink_to(FileSink.for_row_format(str(directory / "out"), Encoder.simple_string_encoder()).build()).uid(
        "files"
    )
    if not small:
        united[0].union(united[-1]).sink_to(Transactions(directory / "transactions")).uid("transactions")
        united[1].union(united[-1]).sink_to(Batches(directory / "batches")).uid("batches")


def _applied(key: Any, window: Any, inputs: Iterable[int]) -> list[str]:
    return [f"{key} {window} {list(inputs)}"]


def _same(value: Any) -> Any:
    return value


def _none(value: Any) -> bool:
    return False


def graph_of(name: str, directory: Path) -> Any:
    """The job graph of the program that has left the snapshot `name`."""
    from penstock.service.client.plan_executor import PlanExecutor

    plans = PlanExecutor()
    env = StreamExecutionEnvironment(Configuration(), executor=plans).set_parallelism(1)
    env.set_max_parallelism(8)
    build(env, directory, small=name.endswith("rocksdb"))
    env.execute("everything")
    return plans.graphs[0]


@contextlib.contextmanager
def working_directory() -> Iterator[Path]:
    """DIRECTORY with its input, for one test on this machine at a time: snapshots name it, so it has no other path."""
    with DIRECTORY.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(DIRECTORY, ignore_errors=True)
        lay_input(DIRECTORY)
        try:
            yield DIRECTORY
        finally:
            shutil.rmtree(DIRECTORY, ignore_errors=True)


def lay_input(directory: Path) -> None:
    """The files that the job reads."""
    (directory / "input").mkdir(parents=True, exist_ok=True)
    for number in range(FILES):
        (directory / "input" / f"{number}.txt").write_text("".join(f"{number}-{i}\n" for i in range(LINES)))


SNAPSHOTS = ("savepoint-heap", "checkpoint-heap", "savepoint-rocksdb", "checkpoint-rocksdb")


def stores_of(name: str) -> Any:
    """What keeps the state of the job of that snapshot; None: the heap."""
    if not name.endswith("rocksdb"):
        return None
    from penstock.engine.runtime.task.vertex import RocksDBSettings
    from penstock.engine.stores.rocksdb import rocksdb_stores

    return rocksdb_stores(RocksDBSettings(None, 1 << 20, cached_entries=1))


def results_in(directory: Path) -> list[str]:
    """The published results, sorted."""
    found = [path for path in (directory / "out").rglob("*") if path.is_file() and not path.name.startswith(".")]
    found += [*(directory / "transactions").glob("*.done"), *(directory / "batches").glob("*.done")]
    return sorted(line for path in found for line in path.read_text().splitlines())


def write(version: int) -> None:
    """Run the job once for each snapshot, and write what is stored to version-N beside this file."""
    from tests.data.formats.running import Running

    from penstock.engine.runtime.task.restore import KeyedChain

    # However small the state is: the third checkpoint refers to the files of the first two.
    KeyedChain.growth_max = 1_000
    target = Path(__file__).parent / f"version-{version}"
    for name in SNAPSHOTS:
        shutil.rmtree(DIRECTORY, ignore_errors=True)
        shutil.rmtree(target / name, ignore_errors=True)
        lay_input(DIRECTORY)
        job = Running(graph_of(name, DIRECTORY), target / name, stores=stores_of(name))
        for checkpoint in (1, 2, 3):
            for _ in range(4 if checkpoint == 1 else 1):
                job.step()
            if checkpoint == 3 and name.startswith("savepoint"):
                job.snapshot(checkpoint, str(target / name))
                break
            before = job.manifest
            job.snapshot(checkpoint)
            if checkpoint < 3:
                job.complete(checkpoint)
            assert before is None or before.checkpoint_id == checkpoint - 1
        keep_only(target / name, 3 if name.startswith("checkpoint") else None)
        write_expected(target / name)


def keep_only(stored: Path, checkpoint: int | None) -> None:
    """Of a job's directory what its last snapshot needs."""
    from penstock.engine.checkpoint.storage import DirectoryStorage, read_manifest

    if checkpoint is None:
        for folder in [*stored.glob("chk-*"), stored / "shared"]:
            shutil.rmtree(folder)
    else:
        manifest = read_manifest(str(stored / f"chk-{checkpoint}"))
        DirectoryStorage(str(stored), newest=checkpoint).sweep([manifest])
        shutil.rmtree(stored / "record")


def snapshot_in(stored: Path) -> Path:
    """The savepoint or checkpoint that a folder of version-N holds."""
    checkpoints = sorted(stored.glob("chk-*/_metadata"))
    return checkpoints[-1].parent if checkpoints else stored


def write_expected(stored: Path) -> None:
    """What had been published before, what stood ready to be committed, and what was read in the snapshot then."""
    ready = {
        str(path.relative_to(DIRECTORY)): path.read_text()
        for path in DIRECTORY.rglob("*")
        if path.name.endswith((".inprogress", ".savepoint", ".ready"))
    }
    content = content_of(snapshot_in(stored))
    expected = {"published": results_in(DIRECTORY), "ready": ready, "state": content}
    (stored / "expected.json").write_text(json.dumps(expected, indent=0))


def content_of(snapshot: Path) -> dict[str, dict[str, list[str]]]:
    """By uid and state the entries of a snapshot, as text, sorted."""
    from penstock.state_processor import SavepointReader

    reader = SavepointReader.read(snapshot)
    content: dict[str, dict[str, list[str]]] = {}
    for operator in reader.operators():
        of_operator = content.setdefault(operator.uid, {})
        for state in reader.keyed_states(operator.uid):
            of_operator[state] = sorted(map(repr, reader.entries(operator.uid, state)))
        for state in reader.list_states(operator.uid):
            of_operator[f"list {state}"] = sorted(map(repr, reader.items(operator.uid, state)))
    return content
