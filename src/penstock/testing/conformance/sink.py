"""Requirements on every sink with a committer.

    check_sink(make_sink, read_committed, records)

`make_sink()` creates a sink with an empty target; `read_committed()` returns the records that a reader of the latest
target would see.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from typing import Any

from penstock.api.sink import Committer, Sink, SinkWriter
from penstock.common.constants import MIN_TIMESTAMP
from penstock.testing.conformance.source import assert_same_records

MakeSink = Callable[[], Sink[Any]]
ReadCommitted = Callable[[], list[Any]]
_attempts = itertools.count(1)


class SimpleSinkContext:
    """A context with a clock that tests set."""

    def __init__(
        self,
        subtask: int = 0,
        parallelism: int = 1,
        attempt: str = "attempt-1",
        clock_ms: int = 0,
        checkpointing: bool = True,
        job_id: str = "job",
        operator_id: str = "sink",
        is_restored: bool = False,
    ) -> None:
        self.subtask = subtask
        self.parallelism = parallelism
        self.attempt = attempt
        self.clock_ms = clock_ms
        self.checkpointing = checkpointing
        self.job_id = job_id
        self.operator_id = operator_id
        self.is_restored = is_restored
        self.watermark = MIN_TIMESTAMP

    def now_ms(self) -> int:
        """Return the time set by the test."""
        return self.clock_ms

    def current_watermark(self) -> int:
        """Return the watermark set by the test."""
        return self.watermark


def check_sink(make_sink: MakeSink, read_committed: ReadCommitted, records: list[Any]) -> None:
    """Run the whole suite. Raises AssertionError."""
    check_nothing_before_commit(make_sink, read_committed, records)
    check_commit_is_idempotent(make_sink, read_committed, records)
    check_abort(make_sink, read_committed, records)
    check_only_one_attempt_is_seen(make_sink, read_committed, records)
    check_rounds(make_sink, read_committed, records)


def check_nothing_before_commit(make_sink: MakeSink, read_committed: ReadCommitted, records: list[Any]) -> None:
    """Records written, flushed and prepared are invisible; a writer closed without a commit leaves nothing visible."""
    sink = make_sink()
    writer, _ = _begin(sink)
    writer.write_chunk(records, None)
    writer.flush(False)
    assert not read_committed(), "records are visible before their commit"
    writer.close()
    assert not read_committed(), "records of a writer closed without a commit are visible"
    writer, committer = _begin(sink)
    writer.write_chunk(records, None)
    committables = _prepare(writer)
    assert not read_committed(), "records are visible although they are only prepared"
    writer.close()
    committer.commit(committables)
    assert_same_records(read_committed(), records, "after commit")


def check_commit_is_idempotent(make_sink: MakeSink, read_committed: ReadCommitted, records: list[Any]) -> None:
    """Repeating a commit, wholly or in part, with the same committer or a new one, has no effect."""
    sink = make_sink()
    writer, committer = _begin(sink)
    writer.write_chunk(records, None)
    committables = _prepare(writer)
    committer.commit(committables[:1])
    _committer(sink).commit(committables)
    committer.commit(committables)
    assert_same_records(read_committed(), records, "after three commits")
    writer.close()
    assert_same_records(read_committed(), records, "after close")


def check_abort(make_sink: MakeSink, read_committed: ReadCommitted, records: list[Any]) -> None:
    """Aborted records stay invisible, and the abort can be repeated."""
    sink = make_sink()
    writer, committer = _begin(sink)
    writer.write_chunk(records, None)
    committables = _prepare(writer)
    committer.abort(committables)
    committer.abort(committables)
    writer.close()
    assert not read_committed(), "aborted records are visible"


def check_only_one_attempt_is_seen(make_sink: MakeSink, read_committed: ReadCommitted, records: list[Any]) -> None:
    """Two attempts of one subtask write the same records concurrently.

    Only those of the committed attempt are visible.
    """
    sink = make_sink()
    first, committer = _begin(sink)
    second, _ = _begin(sink)
    first.write_chunk(records, None)
    second.write_chunk(records, None)
    lost = _prepare(first)
    committer.commit(_prepare(second))
    committer.abort(lost)
    first.close()
    second.close()
    assert_same_records(read_committed(), records, "after one of two attempts was committed")


def check_rounds(make_sink: MakeSink, read_committed: ReadCommitted, records: list[Any]) -> None:
    """Several commits of one writer add up, and a round without records has nothing to commit."""
    sink = make_sink()
    writer, committer = _begin(sink)
    for start in range(0, len(records), 2):
        writer.write_chunk(records[start : start + 2], None)
        committer.commit(_prepare(writer))
    assert _prepare(writer) == [], "prepare_commit returned committables although nothing was written"
    writer.close()
    assert_same_records(read_committed(), records, "after several rounds")


def _begin(sink: Sink[Any]) -> tuple[SinkWriter[Any], Committer]:
    sink = pickle.loads(pickle.dumps(sink))
    # Never the same number twice, as in a job: a closed writer may still end what it started under its name.
    return sink.create_writer(SimpleSinkContext(attempt=f"conformance-{next(_attempts)}")), _committer(sink)


def _committer(sink: Sink[Any]) -> Committer:
    committer = sink.create_committer()
    assert committer is not None, "this suite is for sinks that commit"
    return committer


def _prepare(writer: SinkWriter[Any]) -> list[Any]:
    # At the end of input a writer must hand over everything; at a checkpoint it may keep a part and continue.
    writer.prepare_savepoint()
    writer.flush(False)
    return pickle.loads(pickle.dumps(writer.prepare_commit()))  # type: ignore[no-any-return]
