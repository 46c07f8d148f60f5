"""What surrounds an operator or an output edge in a task, controlled by the test."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.execution_mode import BATCH, STREAMING
from penstock.engine.runtime.task.budget import Budget
from penstock.engine.runtime.task.context import OperatorContext, SubtaskInfo, TaskContext
from penstock.engine.runtime.task.metrics import OperatorCounters
from penstock.engine.state.backends.rocksdb.backend import Stores
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.state.operator_state import NamedList


class Rig:
    """An operator, set up and open. `patient` False: it has to pause after each chunk of `chunk_records`.

    `restored` is its operator state.

    `log` is what came out: (value, timestamp) pairs, ("watermark", ms), ("status", active), ("side", tag, value, ms).
    """

    def __init__(
        self,
        operator: Any,
        *,
        patient: bool = True,
        chunk_records: int = 1024,
        batched: bool = False,
        uid: str = "",
        restored: list[NamedList] | None = None,
        stores: Stores | None = None,
    ) -> None:
        self.operator = operator
        self.now_ms = 0
        self.blocked_ms = 0
        """For how long the task could not emit so far."""
        self.takes_ms = 0
        """How long the operators behind this one take for a chunk."""
        self.log: list[Any] = []
        self.chunks: list[int] = []
        self.refuses = False
        self.pauses = 0
        self.results: list[Any] = []
        self.counters = OperatorCounters(operator.name)
        self.budget = Budget(lambda: 0, step_ns=1 if patient else 0)
        self.budget.begin_step()
        self.budget.chunk_records = chunk_records
        task = TaskContext(
            # With a store it has all key groups: timers of others are not read from it.
            SubtaskInfo(
                "job", 0, "task", *((1, 4) if stores is None else (0, 1)), 128, mode=BATCH if batched else STREAMING
            ),
            lambda: self.now_ms,
            self.budget,
            KeyGroups(128),
            stores,
            unblocked_ms=lambda: self.now_ms - self.blocked_ms,
            deliver_result=lambda sink, values: self.results.append((sink, values)),
        )
        self.context = OperatorContext(task, operator.name, uid=uid, counters=self.counters)
        operator.setup(self.context, self)
        if restored is not None:
            operator.restore_lists(restored)
        operator.open()

    # The operator's output.

    def emit(self, chunk: Rows) -> bool:
        values, timestamps = chunk.values, chunk.timestamps
        assert timestamps is None or len(timestamps) == len(values)
        self.chunks.append(len(values))
        self.now_ms += self.takes_ms
        self.log.extend(zip(values, timestamps or [None] * len(values), strict=True))
        return not self.refuses

    def emit_side(self, tag: Any, chunk: Rows) -> bool:
        values, timestamps = chunk.values, chunk.timestamps
        for value, timestamp in zip(values, timestamps or [None] * len(values), strict=True):
            self.log.append(("side", tag.tag_id, value, timestamp))
        return not self.refuses

    def watermark(self, timestamp: int) -> bool:
        self.log.append(("watermark", timestamp))
        return not self.refuses

    def status(self, active: bool) -> bool:
        self.log.append(("status", active))
        return True

    # What a test does.

    def process(self, *values: Any, at: list[int] | None = None) -> list[Any]:
        """A chunk; gives what came out of it."""
        return self.do(lambda: self.operator.process(Rows(list(values), at)))

    def until(self, watermark: int) -> list[Any]:
        """Event time reaches `watermark`."""
        return self.do(lambda: self.operator.watermark(watermark))

    def clock(self, now_ms: int) -> list[Any]:
        """The wall clock reaches `now_ms`."""
        self.now_ms = now_ms
        return self.do(lambda: self.operator.processing_time(now_ms))

    def do(self, call: Any) -> list[Any]:
        """Make a call and resume until the operator is done."""
        before = len(self.log)
        answer = call()
        while self.operator.paused:
            assert answer is False, "who pauses has to say so"
            self.pauses += 1
            assert self.pauses < 100_000
            answer = self.operator.resume()
        return self.log[before:]


@pytest.fixture
def rig() -> type[Rig]:
    """Makes rigs: `rig(operator)`."""
    return Rig
