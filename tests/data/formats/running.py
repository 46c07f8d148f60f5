"""Runs a pipelined job in this thread, slot by slot, and takes snapshots of it: without Spark, chance or a clock."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from penstock.engine.checkpoint.manifest import Manifest, OperatorPart, SubtaskPart, packed, unpacked
from penstock.engine.checkpoint.restore import assign
from penstock.engine.checkpoint.storage import DirectoryStorage, SavepointStorage
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.plan.pickling import dump_level, load_level
from penstock.engine.runtime.checkpoint_options import CheckpointOptions
from penstock.engine.runtime.network.buffer import HEADER_BYTES
from penstock.engine.runtime.operators.sink import SinkOperator
from penstock.engine.runtime.task.budget import Budget
from penstock.engine.runtime.task.environment import Environment
from penstock.engine.runtime.task.events import (
    Acknowledge,
    AssignSplits,
    CheckpointComplete,
    Close,
    DataEnded,
    NoMoreSplits,
    Opaque,
    RequestSplit,
    SnapshotWritten,
    TriggerCheckpoint,
    WriteSnapshot,
)
from penstock.engine.runtime.task.slot import Slot

_CHUNK_RECORDS = 5
_STEP_BYTES = 300
_START_MS = 1_700_000_000_000


class _Vertex(NamedTuple):
    """What is asked of a vertex when state is assigned to it."""

    id: int
    name: str
    parallelism: int
    max_parallelism: int
    operators: list[tuple[str, str]]
    is_source: bool


class Running:
    """A job whose vertices have one subtask each. It goes on from `origin`, if there is one, below `directory`.

    `settings`: fields of LevelSpec.
    """

    def __init__(
        self,
        graph: JobGraph,
        directory: Path,
        origin: Manifest | None = None,
        stores: Any = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.now_ms = _START_MS
        self._clock_ns = 0
        self.ended: set[int] = set()
        self.sent: list[tuple[str, bytes]] = []
        """What went over connections: its kind, and the pickle in it."""
        self.manifest = origin
        self._graph = graph
        self._storage = DirectoryStorage(str(directory))
        self._vertices = [
            _Vertex(v.id, v.name, 1, v.max_parallelism, [(n.uid, n.name) for n in v.nodes], v.level == 0)
            for v in graph.vertices
        ]
        self._acknowledged: dict[int, Acknowledge] = {}
        self._commits: dict[str, list[str]] = {}
        nodes = [node for vertex in graph.vertices for node in vertex.nodes]
        self._sinks = {n.operator.sink_id: n for n in nodes if isinstance(n.operator, SinkOperator)}
        states: dict[str, Any] = {}
        restored = {}
        if origin is not None:
            restored = assign(origin, self._vertices, owns_files=True, allow_non_restored=False)  # type: ignore[arg-type]
            states = {uid: unpacked(text) for uid, text in origin.enumerators.items()}
            self._commits = dict(origin.commits)
            self._commit()
        levels = graph.levels("job", checkpointing=True, restore=restored, **(settings or {}))
        self._slots = [Slot(load_level(dump_level(level)), 0, self._environment(stores)) for level in levels]
        self._rows: list[list[bytes]] = [[] for _ in self._slots]
        self._enumerators = {}
        for vertex in graph.sources:
            source, uid = vertex.nodes[0].operator.source, vertex.nodes[0].uid  # type: ignore[attr-defined]
            context = _Assignments(self, vertex.id)
            restored_enumerator = uid in states and source.restore_enumerator(context, states[uid])
            self._enumerators[vertex.id] = restored_enumerator or source.create_enumerator(context)
        for slot in self._slots:
            slot.restore(self._storage)
            slot.open()
        for enumerator in self._enumerators.values():
            enumerator.start()

    def _now(self) -> int:
        return self.now_ms

    def _clock(self) -> int:
        # It goes on with each look, so that a step ends after a few chunks.
        self._clock_ns += 1_000_000
        return self._clock_ns

    def _environment(self, stores: Any) -> Environment:
        return Environment(self._now, self._clock, budget=self._budget(), stores=stores)

    def _budget(self) -> Budget:
        budget = Budget(self._clock, step_bytes=_STEP_BYTES)
        budget.chunk_records = _CHUNK_RECORDS
        return budget

    def step(self, done: frozenset[int] = frozenset()) -> None:
        """A step of each slot, sources first, but for slots whose vertices are all among `done`; time goes by."""
        self.now_ms += 25
        for level, slot in enumerate(self._slots):
            if slot.tasks.keys() <= done:
                continue
            rows, self._rows[level] = self._rows[level], []
            for row in rows:
                slot.receive(row)
            slot.budget.chunk_records = _CHUNK_RECORDS
            slot.step()
            if level + 1 < len(self._slots):
                rows = [row for _, row in slot.outbox.take()]
                self._rows[level + 1] += rows
                self.sent += [("row", row[HEADER_BYTES:]) for row in rows]
            for effect in slot.take_effects():
                self._take(slot, effect)

    def _take(self, slot: Slot, effect: Any) -> None:
        if isinstance(effect, RequestSplit):
            self._enumerators[effect.vertex].handle_split_request(effect.subtask)
        elif isinstance(effect, DataEnded):
            self.ended.add(effect.vertex)
        elif isinstance(effect, Acknowledge):
            self._acknowledged[effect.vertex] = effect
            self.sent.append(("commits", effect.commits.to_bytes()))
        elif isinstance(effect, WriteSnapshot):
            snapshot = effect.snapshot
            writing = snapshot.write(SavepointStorage(snapshot.savepoint) if snapshot.savepoint else self._storage)
            while True:
                try:
                    next(writing)
                except StopIteration as end:
                    slot.handle(effect.vertex, SnapshotWritten(snapshot.checkpoint_id, end.value))
                    return

    def tell(self, vertex: int, event: Any) -> None:
        """An event for the task of a vertex."""
        if isinstance(event, AssignSplits):
            self.sent.append(("splits", event.splits.to_bytes()))
        self._slots[self._graph.vertices[vertex].level].handle(vertex, event)

    def snapshot(self, number: int, savepoint: str = "", full: bool = False, staggered: bool = False) -> Manifest:
        """Take checkpoint `number`, or a savepoint, and publish it. What it commits is committed by `complete`.

        `staggered`: each source sends records before its barrier that another source's barrier may overtake.
        """
        self._acknowledged.clear()
        nodes = {vertex: self._graph.vertices[vertex].nodes[0] for vertex in self._enumerators}
        enumerators = {node.uid: packed(self._enumerators[v].snapshot_state()) for v, node in nodes.items()}
        for vertex in nodes:
            self.tell(
                vertex, TriggerCheckpoint(number, self.now_ms, CheckpointOptions(full or bool(savepoint), savepoint))
            )
            if staggered:
                self.step()
        while len(self._acknowledged) < len(self._vertices):
            self.step(frozenset(self._acknowledged))
        states = {id: a.state.operators for id, a in self._acknowledged.items()}
        parts = [
            OperatorPart(uid, name, 1, vertex.max_parallelism, [SubtaskPart(0, states[vertex.id][uid])])
            for vertex in self._vertices
            for uid, name in vertex.operators
            if uid in states[vertex.id]
        ]
        for acknowledged in self._acknowledged.values():
            for sink, committables in acknowledged.commits.value:
                self._commits.setdefault(self._sinks[sink].uid, []).append(packed((0, committables)))
        self.manifest = Manifest(
            "job", "everything", number, 0, self.now_ms, self.now_ms, parts, [], enumerators, dict(self._commits),
            savepoint=bool(savepoint),
        )  # fmt: skip
        (SavepointStorage(savepoint) if savepoint else self._storage).publish(self.manifest)
        return self.manifest

    def complete(self, number: int) -> None:
        """The checkpoint is complete: sinks commit, tasks hear of it."""
        self._commit()
        for vertex in self._vertices:
            self.tell(vertex.id, CheckpointComplete(number))
        self.step()

    def _commit(self) -> None:
        sinks = {node.uid: node.operator.sink for node in self._sinks.values()}
        for uid, texts in self._commits.items():
            committer = sinks[uid].create_committer()
            for text in texts:
                committer.commit(unpacked(text)[1])
        self._commits.clear()

    def finish(self, number: int) -> None:
        """Run to the end of the data; the last checkpoint has this number."""
        for _ in range(20_000):
            if len(self.ended) == len(self._vertices):
                break
            self.step()
        else:
            raise AssertionError("the job does not end")
        self.snapshot(number)
        self.complete(number)
        for slot in self._slots:
            slot.handle_all(Close())


class _Assignments:
    """The EnumeratorContext of a source."""

    parallelism = 1

    def __init__(self, job: Running, vertex: int) -> None:
        self._job = job
        self._vertex = vertex

    def now_ms(self) -> int:
        return self._job.now_ms

    def assign_split(self, split: Any, subtask: int) -> None:
        self._job.tell(self._vertex, AssignSplits(Opaque([split])))

    def call_async(self, call: Any, handler: Any) -> None:
        handler(call(), None)

    def signal_no_more_splits(self, subtask: int) -> None:
        self._job.tell(self._vertex, NoMoreSplits())
