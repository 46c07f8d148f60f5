"""A job whose keys, records and state are of the user's own classes, of every kind, and the savepoints that it leaves.

    python -c "from tests.data.formats.classes import write; write('classes-by-name')"

runs it, from the root of the repository, and writes tests/data/formats/classes-by-name (see README.md). Only public
paths of penstock are used, so the program also runs with other versions than the one it lies beside.
"""

from __future__ import annotations

import dataclasses
import enum
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from tests.data.formats.program import keep_only, stores_of, working_directory, write_expected
from tests.data.formats.running import Running

from penstock.common import Configuration, Encoder, Row, Time, Types, WatermarkStrategy
from penstock.datastream import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    StreamExecutionEnvironment,
)
from penstock.datastream.connectors import FileSource
from penstock.datastream.connectors.file_system import FileSink, StreamFormat
from penstock.datastream.functions import (
    BroadcastProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessWindowFunction,
    ReduceFunction,
    RuntimeContext,
)
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from penstock.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows
from penstock.engine.checkpoint.manifest import Manifest

FAR_MS = 40_000_000_000_000
LINES = 60
KINDS = ("plain", "dataclass", "frozen", "slots", "named tuple", "struct", "array struct", "row")
KEYS = ("named tuple", "frozen", "enum", "int enum")


class Color(enum.Enum):
    RED = 1
    GREEN = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Flags(enum.Flag):
    A = enum.auto()
    B = enum.auto()


class Plain:
    def __init__(self, number: int, color: Color, parts: list[Any]) -> None:
        self.number, self.color, self.parts = number, color, parts

    def __repr__(self) -> str:
        return f"Plain({self.number}, {self.color}, {self.parts})"


@dataclasses.dataclass
class Data:
    number: int
    color: Color
    parts: list[Any]


@dataclasses.dataclass(frozen=True)
class Frozen:
    number: int
    color: Color
    parts: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Slots:
    number: int
    color: Color
    parts: Any


class Named(NamedTuple):
    number: int
    color: Color
    parts: Any


class Struct(msgspec.Struct):
    number: int
    color: Color
    parts: Any


class ArrayStruct(msgspec.Struct, array_like=True):
    number: int
    color: Color
    parts: Any


def of_kind(kind: str, number: int) -> Any:
    """A value of a kind, with values of other kinds in it."""
    color = Color.RED if number % 2 else Color.GREEN
    parts = [Level.HIGH, Flags.A | Flags.B, Slots(number, color, None), Named(number, color, ())]
    if kind == "row":
        return Row(number=number, color=color, parts=parts)
    return _CLASSES[kind](number, color, parts)


def of_any_kind(number: int) -> Any:
    """A value of one of the kinds."""
    return of_kind(KINDS[number % len(KINDS)], number)


_CLASSES: dict[str, Any] = {
    "plain": Plain,
    "dataclass": Data,
    "frozen": Frozen,
    "slots": Slots,
    "named tuple": Named,
    "struct": Struct,
    "array struct": ArrayStruct,
}


def key_of(kind: str, number: int) -> Any:
    """A key of a kind, one of two."""
    if kind.endswith("enum"):
        return list({"enum": Color, "int enum": Level}[kind])[number % 2]
    return _CLASSES[kind](number % 2, Color.RED, "key")


class Newer(ReduceFunction[Any]):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return value2


class Remembers(KeyedProcessFunction[Any, int, str]):
    """Keep values of all kinds in a state of each kind, and timers."""

    def open(self, runtime_context: RuntimeContext) -> None:
        pickled = Types.PICKLED_BYTE_ARRAY()
        self.values = {
            kind: runtime_context.get_state(ValueStateDescriptor(f"value {kind}", pickled)) for kind in KINDS
        }
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", pickled))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", pickled, pickled))
        self.reduced = runtime_context.get_reducing_state(ReducingStateDescriptor("reduced", Newer(), pickled))

    def process_element(self, value: int, ctx: Any) -> None:
        made = [of_kind(kind, value) for kind in KINDS]
        for state, one in zip(self.values.values(), made, strict=True):
            state.update(one)
        if value % 10 < 2:
            self.list.add_all(made)
        self.map.put(made[value % len(made)].color, made)
        self.reduced.add(made)
        timers = ctx.timer_service()
        timers.register_event_time_timer(FAR_MS)
        timers.register_processing_time_timer(FAR_MS)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[str]:
        if ctx.time_domain().name == "EVENT_TIME":
            values = [state.value() for state in self.values.values()]
            entries = sorted(self.map.items(), key=repr)
            yield f"{ctx.get_current_key()}: {values} {list(self.list.get())} {entries} {self.reduced.get()}"


class Contents(ProcessWindowFunction[Any, str, Any, Any]):
    """List the records of a window, and what it remembers of its key."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[str]:
        last = context.global_state().get_state(ValueStateDescriptor("last", Types.PICKLED_BYTE_ARRAY()))
        before, records = last.value(), sorted(elements, key=lambda one: (one.number, repr(one)))
        last.update(records[-1])
        return [f"{key} {context.window()} {before} {records}"]


class Rules(BroadcastProcessFunction[Any, Any, str]):
    """Keep values by their colors in broadcast state."""

    descriptor = MapStateDescriptor("rules", Types.PICKLED_BYTE_ARRAY(), Types.PICKLED_BYTE_ARRAY())

    def process_element(self, value: Any, ctx: Any) -> Iterator[str]:
        if value == LINES - 1:
            yield str(sorted(ctx.get_broadcast_state(self.descriptor).items(), key=repr))

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(self.descriptor).put((value.color, value.number % 4), value)


class Remembered(MapFunction[int, str], CheckpointedFunction):
    """Keep the last values of each kind in operator state."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self.split = store.get_list_state(ListStateDescriptor("split", Types.PICKLED_BYTE_ARRAY()))
        self.union = store.get_union_list_state(ListStateDescriptor("union", Types.PICKLED_BYTE_ARRAY()))

    def map(self, value: int) -> str:
        self.split.update([of_kind(kind, value) for kind in KINDS])
        self.union.update([*self.union.get(), of_any_kind(value)][-4:])
        return f"{value} {list(self.split.get())} {list(self.union.get())}"

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        pass


class _Key:
    def __init__(self, kind: str) -> None:
        self.kind = kind

    def of_number(self, number: int) -> Any:
        return key_of(self.kind, number)

    def of_record(self, record: Any) -> Any:
        return key_of(self.kind, record.number)


class _Made:
    def __init__(self, kind: str) -> None:
        self.kind = kind

    def of(self, number: int) -> Any:
        return of_kind(self.kind, number)


class _Timed:
    def extract_timestamp(self, value: int, record_timestamp: int) -> int:
        return value * 100


class _Tagged:
    def __init__(self, tag: str) -> None:
        self.tag = tag

    def of(self, value: Any) -> str:
        return f"{self.tag}: {value}"


def build(env: StreamExecutionEnvironment, directory: Path) -> None:
    """The job: it reads numbers from a file in `directory`, and writes lines of text to its folder `out`."""
    numbers, others = _numbers(env, directory, "numbers"), _numbers(env, directory, "others")
    second, gap = Time.seconds(1), Time.milliseconds(450)
    outs: dict[str, Any] = {}
    for kind in KEYS:
        outs[f"last by {kind}"] = numbers.map(_Made("slots").of).key_by(_Key(kind).of_record).reduce(Newer())
    outs["states"] = numbers.key_by(_Key("named tuple").of_number).process(Remembers())
    mixed = numbers.map(of_any_kind).key_by(_Key("named tuple").of_record)
    outs["windows"] = mixed.window(TumblingEventTimeWindows.of(second)).process(Contents())
    outs["sessions"] = mixed.window(EventTimeSessionWindows.with_gap(gap)).process(Contents())
    both = numbers.map(_Made("slots").of).union(others.map(_Made("named tuple").of))
    outs["windows of both"] = (
        both.key_by(_Key("frozen").of_record).window(TumblingEventTimeWindows.of(second)).process(Contents())
    )
    rules = numbers.map(_Made("slots").of).broadcast(Rules.descriptor)
    outs["broadcast"] = numbers.connect(rules).process(Rules())
    outs["operator state"] = numbers.map(Remembered(), Types.STRING())
    tagged = [stream.uid(tag).map(_Tagged(tag).of, Types.STRING()).uid(f"tag {tag}") for tag, stream in outs.items()]
    tagged[0].union(*tagged[1:]).sink_to(
        FileSink.for_row_format(str(directory / "out"), Encoder.simple_string_encoder()).build()
    ).uid("files")


def _numbers(env: StreamExecutionEnvironment, directory: Path, name: str) -> Any:
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(directory / name)).build()
    timed = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_Timed().extract_timestamp)
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), name).uid(name)
    return lines.map(int, Types.LONG()).assign_timestamps_and_watermarks(timed).uid(f"time of {name}")


def graph_of(directory: Path) -> Any:
    """The job graph of the program."""
    from penstock.service.client.plan_executor import PlanExecutor

    plans = PlanExecutor()
    env = StreamExecutionEnvironment(Configuration(), executor=plans).set_parallelism(1)
    env.set_max_parallelism(4)
    build(env, directory)
    env.execute("classes")
    return plans.graphs[0]


SNAPSHOTS = ("savepoint-heap", "savepoint-rocksdb", "unaligned-heap", "unaligned-rocksdb")


def lay_numbers(directory: Path) -> None:
    """The files that the job reads."""
    for name in ("numbers", "others"):
        (directory / name).mkdir(parents=True, exist_ok=True)
        (directory / name / "0.txt").write_text("".join(f"{number}\n" for number in range(LINES)))


def running(name: str, directory: Path, stored: Path, origin: Manifest | None = None) -> Running:
    """The job that leaves, or goes on from, the snapshot `name`."""
    settings = {"unaligned_after_ms": 0} if name.startswith("unaligned") else {}
    return Running(graph_of(directory), stored, origin, stores_of(name), settings)


def write(folder: str) -> None:
    """Run the job once for each snapshot, and write what is stored to this folder beside this file."""
    for name in SNAPSHOTS:
        stored = Path(__file__).parent / folder / name
        shutil.rmtree(stored, ignore_errors=True)
        with working_directory() as directory:
            lay_numbers(directory)
            job = running(name, directory, stored)
            for number in (1, 2):
                for _ in range(6):
                    job.step()
                is_savepoint = number == 2 and name.startswith("savepoint")
                job.snapshot(number, str(stored) if is_savepoint else "", staggered=number == 2)
                if number == 1:
                    job.complete(number)
            keep_only(stored, None if is_savepoint else 2)
            write_expected(stored)
