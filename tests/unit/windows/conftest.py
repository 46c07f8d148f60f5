"""Drives one window operator by hand: records, watermarks and the clock in, results out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.api.output_tag import OutputTag
from penstock.api.windows.assigner import WindowAssigner
from penstock.api.windows.trigger import Trigger
from penstock.common.time import to_milliseconds
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.execution_mode import BATCH, STREAMING
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.task.budget import Budget
from penstock.engine.runtime.task.context import OperatorContext, SubtaskInfo, TaskContext
from penstock.engine.runtime.task.metrics import OperatorCounters
from penstock.engine.runtime.windows.choice import window_operator
from penstock.engine.runtime.windows.contents import Aggregated, AllRecords, Contents, Reduced
from penstock.engine.runtime.windows.evaluation import Apply, Evaluation, Process
from penstock.engine.runtime.windows.window_operator import WindowOperator
from penstock.engine.runtime.windows.windowing import WindowSettings
from penstock.engine.state.backends.rocksdb.backend import RocksDBKeyedStateBackend, Stores
from penstock.engine.state.key_groups import KeyGroups
from penstock.hosts.simulator.stores import MemoryStore


class Driver:
    """An operator with what surrounds it. Records are pairs (key, value); `take` gives (result, timestamp) pairs."""

    def __init__(
        self,
        operator: Any,
        batched: bool = False,
        patient: bool = False,
        chunk_records: int = 1024,
        stores: Stores | None = None,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self.operator = operator
        self.now_ms = 0
        self.results: list[tuple[Any, int]] = []
        self.side: list[tuple[Any, int]] = []
        self.watermarks: list[int] = []
        self.chunks: list[int] = []
        self.pauses = 0
        budget = Budget(lambda: 0, step_ns=0 if patient else 1) if clock is None else Budget(clock)
        self._budget = budget
        self.longest_step_ns = 0
        self._step_began = budget.begin_step()
        budget.chunk_records = chunk_records
        self.counters = OperatorCounters("window")
        info = SubtaskInfo("job", 0, "task", 0, 1, 128, mode=BATCH if batched else STREAMING)
        task = TaskContext(info, lambda: self.now_ms, budget, KeyGroups(128), stores)
        self.context = OperatorContext(task, "window", uid="", counters=self.counters)
        operator.setup(self.context, self)
        assert isinstance(operator.backend, RocksDBKeyedStateBackend) is (stores is not None and not batched)
        operator.open()

    # What the operator emits into.

    def emit(self, chunk: Rows) -> bool:
        values, timestamps = chunk.values, chunk.timestamps
        assert timestamps is not None and len(values) == len(timestamps)
        self.chunks.append(len(values))
        self.results.extend(zip(values, timestamps, strict=True))
        return True

    def emit_side(self, tag: OutputTag[Any], chunk: Rows) -> bool:
        values, timestamps = chunk.values, chunk.timestamps
        assert timestamps is not None
        self.side.extend(zip(values, timestamps, strict=True))
        return True

    def watermark(self, timestamp: int) -> bool:
        self.watermarks.append(timestamp)
        return True

    # What a test does.

    def records(self, *records: tuple[Any, int]) -> Driver:
        """(value, timestamp) pairs, as one chunk."""
        self._until_done(self.operator.process(Rows([value for value, _ in records], [at for _, at in records])))
        return self

    def untimed(self, *values: Any) -> Driver:
        """Records without timestamps, as one chunk."""
        self._until_done(self.operator.process(Rows(list(values))))
        return self

    def until(self, watermark: int) -> Driver:
        """Event time goes on."""
        self._until_done(self.operator.watermark(watermark))
        return self

    def clock(self, now_ms: int) -> Driver:
        """The wall clock goes on; a task calls the operator if it asked for that."""
        self.now_ms = now_ms
        wake = self.operator.wake_at_ms()
        if wake is not None and wake <= now_ms:
            self._until_done(self.operator.processing_time(now_ms))
        return self

    def end_key(self) -> Driver:
        """Batched mode: the records of a key are complete."""
        self._until_done(self.operator.end_key())
        return self

    def take(self) -> list[tuple[Any, int]]:
        """The results since the last call."""
        results, self.results = self.results, []
        return results

    def taken(self) -> list[Any]:
        """The same without timestamps."""
        return [result for result, _ in self.take()]

    @property
    def late(self) -> int:
        return self.counters.late_records_dropped

    @property
    def is_empty(self) -> bool:
        """Whether neither state nor timers are left."""
        timers = self.operator.timers
        return (
            not any(self.operator.backend.tables.values())
            and not len(timers.event_time)
            and not len(timers.processing_time)
        )

    def _until_done(self, _: bool) -> None:
        while self.operator.paused:
            self.pauses += 1
            self._end_step()
            self.operator.resume()
        self._end_step()
        self.operator.backend.maintain(3)

    def _end_step(self) -> None:
        now = self._budget.clock()
        self.longest_step_ns = max(self.longest_step_ns, now - self._step_began)
        self._step_began = self._budget.begin_step()


class Drive:
    """Makes drivers: `drive.sum(TumblingEventTimeWindows.of(10))` sums the values of each key and window."""

    def __init__(self, general: bool, stored: bool = False) -> None:
        self.general = general
        self.stores = Stores(MemoryStore, cached_entries=1) if stored else None

    def __call__(
        self,
        assigner: WindowAssigner[Any, Any],
        contents: Contents,
        evaluation: Evaluation | None = None,
        trigger: Trigger[Any, Any] | None = None,
        lateness: Any = 0,
        late_tag: OutputTag[Any] | None = None,
        **settings: Any,
    ) -> Driver:
        make: Callable[..., Any] = WindowOperator if self.general else window_operator
        windows = WindowSettings(
            assigner=assigner,
            trigger=trigger or assigner.get_default_trigger(None),
            contents=contents,
            evaluation=evaluation or Evaluation(),
            allowed_lateness_ms=to_milliseconds(lateness),
            late_tag=late_tag,
        )
        operator = make("window", lambda record: record[0], windows)
        return Driver(operator, stores=self.stores, **settings)

    def sum(self, assigner: WindowAssigner[Any, Any], **settings: Any) -> Driver:
        """Reduces to (key, sum of values)."""
        return self(assigner, Reduced(UserFunction(lambda a, b: (a[0], a[1] + b[1]), "reduce")), **settings)

    def aggregate(self, assigner: WindowAssigner[Any, Any], function: Any, **settings: Any) -> Driver:
        """Aggregates by an AggregateFunction."""
        return self(assigner, Aggregated(UserFunction(function, "add")), **settings)

    def apply(self, assigner: WindowAssigner[Any, Any], function: Any, **settings: Any) -> Driver:
        """Applies a function of key, window and all records."""
        return self(assigner, AllRecords(), Apply(UserFunction(function, "apply")), **settings)

    def process(self, assigner: WindowAssigner[Any, Any], function: Any, **settings: Any) -> Driver:
        """Runs a ProcessWindowFunction on all records."""
        return self(assigner, AllRecords(), Process(UserFunction(function, "process")), **settings)

    def lists(self, assigner: WindowAssigner[Any, Any], **settings: Any) -> Driver:
        """Gives (key, window, the values in it)."""
        return self.apply(assigner, _listed, **settings)


def _listed(key: Any, window: Any, records: list[Any]) -> list[Any]:
    span = (window.start, window.end) if hasattr(window, "start") else getattr(window, "id", None)
    return [(key, span, [value for _, value in records])]


@pytest.fixture(params=["fast where it can", "general", "stored"])
def drive(request: pytest.FixtureRequest) -> Drive:
    """Each test runs on both window operators; where the fast one does not apply, on the general one twice.

    Then once more with state in a key-value store, where it goes bit by bit.
    """
    return Drive(general=request.param == "general", stored=request.param == "stored")


@pytest.fixture
def drive_once() -> Drive:
    """On the operator that a program would get."""
    return Drive(general=False)


@pytest.fixture
def drivers() -> tuple[Drive, Drive, Drive]:
    """The fast and the general operator, to compare, and the fast one with its state in a key-value store."""
    return Drive(general=False), Drive(general=True), Drive(general=False, stored=True)
