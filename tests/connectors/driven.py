"""Sources and writers of sinks, driven as a job drives them, without one."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable
from typing import Any

from penstock.api.sink import SinkWriter
from penstock.api.source import END_OF_INPUT, Records, Source, SourceReader
from penstock.common.functions.user_calls import outcome_of
from penstock.engine.runtime.task.metrics import OperatorCounters, OperatorMetricGroup

PATIENCE_S = 60


class SourceInTest:
    """The subtasks of a source and its enumerator, without a job. Calls that wait are made at once."""

    def __init__(self, source: Source[Any], parallelism: int = 1, state: Any = None, batched: bool = False) -> None:
        self.parallelism = parallelism
        self.available = threading.Event()
        self.readers: list[SourceReader[Any]] = []
        self.metrics: list[OperatorMetricGroup] = []
        self.counters = [OperatorCounters("source") for _ in range(parallelism)]
        self.ended = [False] * parallelism
        enumerator_state, splits = state or (None, [[] for _ in range(parallelism)])
        source = pickle.loads(pickle.dumps(source))
        self.enumerator = (
            source.create_enumerator(self) if state is None else source.restore_enumerator(self, enumerator_state)
        )
        self._requests: list[int] = []
        for subtask in range(parallelism):
            group = OperatorMetricGroup(self.counters[subtask])
            self.metrics.append(group)
            context = ReaderContextInTest(subtask, parallelism, batched, self.available, group, self._requests)
            self.readers.append(source.create_reader(context))
        self.enumerator.start()
        for reader, restored in zip(self.readers, splits, strict=True):
            reader.add_splits(restored)
            reader.start()
        self._answer()

    # EnumeratorContext

    def now_ms(self) -> int:
        return 0

    def assign_split(self, split: Any, subtask: int) -> None:
        self.readers[subtask].add_splits([pickle.loads(pickle.dumps(split))])

    def signal_no_more_splits(self, subtask: int) -> None:
        self.readers[subtask].no_more_splits()

    def call_async(self, call: Callable[[], Any], handler: Callable[[Any, Exception | None], None]) -> None:
        handler(*outcome_of(call))

    # What tests do.

    def read(self, count: int | None = None, max_records: int = 1000) -> list[Records]:
        """Polls until `count` records have come, or without it to the end; waits only to be notified."""
        chunks: list[Records] = []
        left = count
        while (left is None or left > 0) and not all(self.ended):
            self.available.clear()
            came = False
            for subtask, reader in enumerate(self.readers):
                if self.ended[subtask] or left == 0:
                    continue
                step = reader.poll(max_records if left is None else min(left, max_records))
                if isinstance(step, Records):
                    came = True
                    chunks.append(step)
                    left = None if left is None else left - len(step.values)
                elif step is END_OF_INPUT:
                    came = self.ended[subtask] = True
            if not came and not self._answer():
                assert self.available.wait(PATIENCE_S), "nothing arrived, and no notification either"
        return chunks

    def _answer(self) -> bool:
        asked = bool(self._requests)
        while self._requests:
            self.enumerator.handle_split_request(self._requests.pop(0))
        return asked

    def values(self, count: int | None = None, max_records: int = 1000) -> list[Any]:
        return [value for chunk in self.read(count, max_records) for value in chunk.values]

    def snapshot(self, checkpoint_id: int = 1) -> Any:
        for reader in self.readers:
            reader.prepare_snapshot(checkpoint_id)
        state = self.enumerator.snapshot_state(), [reader.snapshot_state() for reader in self.readers]
        return pickle.loads(pickle.dumps(state))

    def close(self) -> None:
        for reader in self.readers:
            reader.close()
        self.enumerator.close()


class ReaderContextInTest:
    checkpointing = True

    def __init__(
        self,
        subtask: int,
        parallelism: int,
        batched: bool,
        available: threading.Event,
        metric_group: OperatorMetricGroup,
        requests: list[int],
    ) -> None:
        self.subtask = subtask
        self.parallelism = parallelism
        self.batched = batched
        self.metric_group = metric_group
        self.notify_available = available.set
        self._requests = requests

    def now_ms(self) -> int:
        return 0

    def request_split(self) -> None:
        self._requests.append(self.subtask)


def prepared(writer: SinkWriter[Any], checkpoint_id: int = 1) -> tuple[list[Any], list[Any]]:
    """A writer's part of a checkpoint: committables and state."""
    writer.flush(False)
    committables = writer.prepare_commit()
    return pickle.loads(pickle.dumps((committables, writer.snapshot_state(checkpoint_id))))  # type: ignore[no-any-return]


def until(condition: Callable[[], bool]) -> None:
    """Waits for something that a server does by itself."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)
