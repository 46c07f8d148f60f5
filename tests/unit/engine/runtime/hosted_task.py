"""A task in a slot, with its channels, clock and source played by the test."""

from __future__ import annotations

from random import Random

from tests.unit.plain_buffers import decoded, encoded

from penstock.api.source import Nothing
from penstock.common import Duration, WatermarkStrategy
from penstock.engine.runtime.execution_mode import BATCH, STREAMING
from penstock.engine.runtime.network.buffer import NO_KEY_GROUP, Header, decode_header
from penstock.engine.runtime.network.edge import EdgeInfo
from penstock.engine.runtime.network.partitioners import ForwardPartitioner, Partitioner, RebalancePartitioner
from penstock.engine.runtime.network.set_aside import AlignmentLimits
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.source import SourceOperator
from penstock.engine.runtime.operators.stateless import MapOperator
from penstock.engine.runtime.task.async_calls import OpenEventLoop
from penstock.engine.runtime.task.environment import Environment
from penstock.engine.runtime.task.events import (
    SnapshotWritten,
    WriteSnapshot,
)
from penstock.engine.runtime.task.slot import Slot
from penstock.engine.runtime.task.vertex import ChainLink, ChainNode, LevelSpec, VertexSpec
from penstock.engine.state.handles import RestoredOperator
from penstock.hosts.simulator.storage import MemoryStorage
from penstock.hosts.simulator.stores import MemorySpill
from penstock.state_processor.new_tables import finished

IN, OUT = 0, 1


class Host:
    """Subtask 0 of one vertex between two edges, as a host drives it. Time advances only when the test says."""

    def __init__(
        self,
        *operators,
        senders: int = 2,
        source: bool = False,
        leaves: bool = True,
        batched: bool = False,
        exactly_once: bool = True,
        unaligned_after_ms: int | None = None,
        restored: RestoredOperator | None = None,
        storage: MemoryStorage | None = None,
        buffer_timeout_ms: int = 5,
        latency_interval_ms: int = 0,
        alignment: AlignmentLimits | None = None,
        partitioner: Partitioner | None = None,
        sorted_inputs_bytes: int = 1 << 20,
        open_event_loop: OpenEventLoop | None = None,
        in_loop: bool = False,
    ) -> None:
        self.now_ms = 1000
        self.ns = 0
        self.storage = storage or MemoryStorage(Random(0), 0)
        self.tick_ns = 0
        into = EdgeInfo(IN, 1, senders, 1, 0, 1, (senders, 1, 1), in_loop=in_loop)
        out = EdgeInfo(OUT, 2, 1, 1, 1, 2, (senders, 1, 1))
        nodes = [ChainNode(op, "", [ChainLink(operator=n + 1)]) for n, op in enumerate(operators)]
        nodes[-1].links = [ChainLink(edge=OUT)] if leaves else []
        vertex = VertexSpec(
            1,
            "vertex",
            1,
            128,
            nodes,
            [] if source else [(into, partitioner or RebalancePartitioner())],
            [(out, ForwardPartitioner())] if leaves else [],
            buffer_timeout_ms,
        )
        level = LevelSpec(
            "job",
            1,
            (senders, 1, 1),
            [vertex],
            {IN: into},
            BATCH if batched else STREAMING,
            exactly_once=exactly_once,
            unaligned_after_ms=unaligned_after_ms,
            latency_interval_ms=latency_interval_ms,
            alignment_limits=alignment or AlignmentLimits(),
            sorted_inputs_bytes=sorted_inputs_bytes,
        )
        self.spilled: list[MemorySpill] = []
        environment = Environment(
            lambda: self.now_ms, self.clock, open_spill=self.open_spill, open_event_loop=open_event_loop
        )
        self.slot = Slot(level, 0, environment)
        self.task = self.slot.tasks[1]
        if restored is not None:
            self.task.restore({nodes[0].state_id: restored}, self.storage)
        self.slot.open()
        self.sequences = [0] * senders
        self.effects: list = []

    def open_spill(self) -> MemorySpill:
        self.spilled.append(MemorySpill())
        return self.spilled[-1]

    def clock(self) -> int:
        self.ns += self.tick_ns
        return self.ns

    def sends(self, sender: int, *segments, group: int = NO_KEY_GROUP) -> Host:
        """A buffer arrives. A list means records without timestamps."""
        parts = [(s, None) if isinstance(s, list) else s for s in segments]
        header = Header(group, IN, sender, self.sequences[sender], 0, 0)
        self.sequences[sender] += 1
        self.slot.receive(encoded(header, parts))
        return self

    def handle(self, event) -> Host:
        self.slot.handle(1, event)
        return self

    def works(self) -> Host:
        """Steps until nothing is left to do now."""
        for _ in range(10_000):
            if not self.slot.step():
                self.task.check()
                return self
            self.task.check()
        raise AssertionError("the task is never done")

    def left(self) -> list:
        """What left by the outgoing edge since the last call: values and elements, in order."""
        out: list = []
        for _, buffer in self.slot.outbox.take():
            assert decode_header(buffer).edge == OUT
            for segment in decoded(buffer):
                out.extend(segment[0] if isinstance(segment, tuple) else [segment])
        return out

    def flushed(self) -> list:
        """The same, with what the buffer timeout brings."""
        self.works()
        self.now_ms += 5
        self.works()
        return self.left()

    def asks(self) -> list:
        """Effects since the last call. Snapshots are written at once."""
        return asked_of(self.slot, self.storage, self.handle)


def mapping(function=lambda value: value, name: str = "map"):
    return MapOperator(name, UserFunction(function, "map"))


class Function:
    """Open, close and process functions of a test."""

    def __init__(self, calls: list, fails_in: str = "") -> None:
        self.calls, self.fails_in = calls, fails_in

    def called(self, what: str) -> None:
        self.calls.append(what)
        if what == self.fails_in:
            raise ValueError(f"{what} failed")

    def open(self, context):
        self.called("open")

    def map(self, value):
        return value

    def close(self):
        self.called("close")


class Script:
    """A source and its reader, that gives what the test puts into `script`."""

    interleaved = True

    def __init__(self) -> None:
        self.script: list = []
        self.calls: list = []

    def create_reader(self, context):
        self.context = context
        return self

    def start(self):
        self.context.request_split()

    def add_splits(self, splits):
        self.calls.append(("splits", [split.split_id for split in splits]))

    def interleaves(self, split):
        return self.interleaved

    def no_more_splits(self):
        self.calls.append("no more")

    def poll(self, max_records):
        return self.script.pop(0) if self.script else Nothing()

    def prepare_snapshot(self, checkpoint_id, savepoint=False):
        self.prepared = checkpoint_id

    def snapshot_state(self):
        return [1, 2]

    def close(self):
        self.calls.append("closed")


class Split:
    split_id = "s"


def sourced(script, **settings) -> Host:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(0))
    return Host(SourceOperator("source", script, strategy, 200), source=True, **settings)


def asked_of(slot, storage, handle) -> list:
    """What a slot asks since the last call. Snapshots are written at once: `handle` gets the answer."""
    effects: list = []
    for effect in slot.take_effects():
        if not isinstance(effect, WriteSnapshot):
            effects.append(effect)
            continue
        handle(SnapshotWritten(effect.snapshot.checkpoint_id, finished(effect.snapshot.write(storage))))
        effects += asked_of(slot, storage, handle)
    return effects
