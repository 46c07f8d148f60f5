"""Requirements on every source.

    check_source(make_source)      all checks below; raises AssertionError that names the violated requirement

`make_source` is called for each run, so that runs share nothing. The source must be bounded and produce the same
records each time; records need not be hashable.
"""

from __future__ import annotations

import pickle
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

from penstock.api.metrics import MetricGroup
from penstock.api.source import (
    END_OF_INPUT,
    Boundedness,
    Nothing,
    Records,
    Source,
    SourceReader,
    SplitEnumerator,
)
from penstock.common.functions.user_calls import outcome_of
from penstock.engine.plan.static_splits import assign_statically
from penstock.engine.runtime.task.metrics import OperatorCounters, OperatorMetricGroup

MakeSource = Callable[[], Source[Any]]
_POLLS_MAX = 1_000_000


def check_source(make_source: MakeSource, parallelisms: Sequence[int] = (1, 2, 3, 4), max_records: int = 3) -> None:
    """Run the whole suite. Raises AssertionError."""
    expected = read_all(make_source(), 1)
    assert make_source().get_boundedness() is Boundedness.BOUNDED, "the suite needs a bounded source"
    check_pickling(make_source, expected)
    for parallelism in parallelisms:
        check_all_records_once(make_source, expected, parallelism, max_records)
        check_static_assignment(make_source, expected, parallelism, max_records)
    check_resume_everywhere(make_source, expected, 1, max_records)
    check_resume_everywhere(make_source, expected, 2, max_records)


def read_all(source: Source[Any], parallelism: int, max_records: int = 1000) -> list[Any]:
    """Return all records of a bounded source, polling the subtasks in turn."""
    run = SourceRun(source, parallelism)
    run.start()
    return run.read_to_end(max_records)


def check_all_records_once(make_source: MakeSource, expected: list[Any], parallelism: int, max_records: int) -> None:
    """Every record is read exactly once, in chunks no longer than requested."""
    records = read_all(make_source(), parallelism, max_records)
    assert_same_records(records, expected, f"read at parallelism {parallelism}")


def check_static_assignment(make_source: MakeSource, expected: list[Any], parallelism: int, max_records: int) -> None:
    """Batched mode: splits fixed before the start yield the same records, and the assignment is deterministic."""
    source = make_source()
    splits = assign_statically(source, parallelism, 0)
    again = assign_statically(make_source(), parallelism, 0)
    ids = [[split.split_id for split in each] for each in splits]
    assert ids == [[split.split_id for split in each] for each in again], "static assignment differs from run to run"
    flat = [split_id for each in ids for split_id in each]
    assert len(set(flat)) == len(flat), f"two splits have one id: {flat}"
    records = []
    for subtask, assigned in enumerate(pickle.loads(pickle.dumps(splits))):
        reader = source.create_reader(_ReaderContext(SourceRun(source, parallelism), subtask))
        reader.add_splits(assigned)
        reader.no_more_splits()
        reader.start()
        while isinstance(step := reader.poll(max_records), Records):
            records += step.values
        assert step is END_OF_INPUT, f"a reader with all its splits must not wait, but returned {step}"
        reader.close()
    assert_same_records(records, expected, f"assigned statically at parallelism {parallelism}")


def check_resume_everywhere(make_source: MakeSource, expected: list[Any], parallelism: int, max_records: int) -> None:
    """A run restored from a snapshot taken at any poll reads exactly the missing records."""
    polls = 0
    while True:
        run = SourceRun(make_source(), parallelism)
        run.start()
        before = run.read_polls(polls, max_records)
        finished = run.is_finished()
        state = pickle.loads(pickle.dumps(run.snapshot()))
        run.close()
        # A position must not depend on chunk boundaries, so the restored run uses another chunk size.
        resumed = SourceRun(make_source(), parallelism)
        resumed.restore(state)
        after = resumed.read_to_end(max_records + 2)
        assert_same_records(before + after, expected, f"resumed after {polls} polls at parallelism {parallelism}")
        if finished:
            return
        polls += 1


def check_pickling(make_source: MakeSource, expected: list[Any]) -> None:
    """The source can be pickled to workers."""
    source = pickle.loads(pickle.dumps(make_source()))
    assert_same_records(read_all(source, 1), expected, "read from a pickled source")


def assert_same_records(records: list[Any], expected: list[Any], when: str) -> None:
    """Compare as multisets, ignoring the order."""
    missing = Counter(map(repr, expected))
    missing.subtract(map(repr, records))
    lost = [text for text, count in missing.items() if count > 0]
    extra = [text for text, count in missing.items() if count < 0]
    assert not lost and not extra, (
        f"{when}: {len(lost)} records missing, {len(extra)} unexpected; missing {lost[:3]}, unexpected {extra[:3]}"
    )


class SourceRun:
    """An attempt of a source: an enumerator and readers, polled in turn; its clock advances when all are idle."""

    def __init__(self, source: Source[Any], parallelism: int) -> None:
        self.parallelism = parallelism
        self.clock_ms = 0
        self._source = source
        self._enumerator: SplitEnumerator | None = None
        self._requests: deque[int] = deque()
        self._calls: deque[tuple[Callable[[], Any], Callable[[Any, Exception | None], None]]] = deque()
        self._readers: list[SourceReader[Any]] = []
        self._ended: set[int] = set()

    def start(self) -> None:
        """Start from the beginning."""
        self._enumerator = self._source.create_enumerator(self)
        self._begin([[] for _ in range(self.parallelism)])

    def restore(self, state: tuple[Any, list[list[Any]]]) -> None:
        """Restore the state returned by `snapshot`."""
        enumerator_state, splits = state
        self._enumerator = self._source.restore_enumerator(self, enumerator_state)
        self._begin(splits)

    def snapshot(self) -> tuple[Any, list[list[Any]]]:
        """Return the state of the enumerator and of each reader."""
        assert self._enumerator is not None
        return self._enumerator.snapshot_state(), [reader.snapshot_state() for reader in self._readers]

    def read_to_end(self, max_records: int) -> list[Any]:
        """Poll all readers in turn until each has ended."""
        records = self.read_polls(_POLLS_MAX, max_records)
        assert self.is_finished(), "the source does not end"
        self.close()
        return records

    def read_polls(self, polls: int, max_records: int) -> list[Any]:
        """Poll all readers in turn, at most `polls` times."""
        records: list[Any] = []
        for _ in range(polls):
            if self.is_finished():
                break
            retries: list[int] = []
            waiting = 0
            for subtask, reader in enumerate(self._readers):
                if subtask in self._ended:
                    continue
                step = reader.poll(max_records)
                if isinstance(step, Records):
                    assert len(step.values) <= max_records, f"poll({max_records}) returned {len(step.values)} records"
                    assert step.timestamps is None or len(step.timestamps) == len(step.values)
                    records += step.values
                elif isinstance(step, Nothing):
                    waiting += 1
                    retries += [] if step.retry_at_ms is None else [step.retry_at_ms]
                else:
                    self._ended.add(subtask)
            moved = self._answer_requests()
            if waiting and waiting == len(self._readers) - len(self._ended) and not moved:
                assert retries, "all readers wait without a time to retry: the source never continues"
                self.clock_ms = max(self.clock_ms, min(retries))
        return records

    def is_finished(self) -> bool:
        """Return True if every reader has ended."""
        return len(self._ended) == self.parallelism

    def close(self) -> None:
        """Close readers and enumerator."""
        for reader in self._readers:
            reader.close()
        assert self._enumerator is not None
        self._enumerator.close()

    def now_ms(self) -> int:
        """Return the time of the run's own clock."""
        return self.clock_ms

    def assign_split(self, split: Any, subtask: int) -> None:
        """Assign a pickled copy of the split, as between processes."""
        self._readers[subtask].add_splits([pickle.loads(pickle.dumps(split))])

    def signal_no_more_splits(self, subtask: int) -> None:
        """Forward to the reader."""
        self._readers[subtask].no_more_splits()

    def call_async(self, call: Callable[[], Any], handler: Callable[[Any, Exception | None], None]) -> None:
        """Record the call; it is made between two polls."""
        self._calls.append((call, handler))

    def discover(self) -> int | None:
        """Let the enumerator look for new splits. Returns when it wants to look again (ms), or None for never."""
        assert self._enumerator is not None
        at_ms = self._enumerator.discover()
        self._make_calls()
        return at_ms

    def request_split(self, subtask: int) -> None:
        """Record the request; it is answered between two polls."""
        self._requests.append(subtask)

    def _begin(self, splits: list[list[Any]]) -> None:
        assert self._enumerator is not None
        self._readers = [self._source.create_reader(_ReaderContext(self, i)) for i in range(self.parallelism)]
        self._enumerator.start()
        self._make_calls()
        self.discover()
        for reader, assigned in zip(self._readers, splits, strict=True):
            if assigned:
                reader.add_splits(assigned)
            reader.start()
        self._answer_requests()

    def _make_calls(self) -> bool:
        moved = bool(self._calls)
        while self._calls:
            call, handler = self._calls.popleft()
            handler(*outcome_of(call))
        return moved

    def _answer_requests(self) -> bool:
        moved = self._make_calls() or bool(self._requests)
        while self._requests:
            assert self._enumerator is not None
            self._enumerator.handle_split_request(self._requests.popleft())
        return moved


class _ReaderContext:
    def __init__(self, run: SourceRun, subtask: int) -> None:
        self._run = run
        self.subtask = subtask
        self.parallelism = run.parallelism
        self.checkpointing = False
        self.batched = False
        self._metrics = OperatorMetricGroup(OperatorCounters("source"))

    def now_ms(self) -> int:
        return self._run.clock_ms

    def request_split(self) -> None:
        self._run.request_split(self.subtask)

    def notify_available(self) -> None:
        """The readers are polled in turn, so there is nothing to wake up."""

    @property
    def metric_group(self) -> MetricGroup:
        return self._metrics
