"""FileSink, killed before and after every effect on the disk: each record is there once, whatever had been done.

A job in a process of its own writes records, takes checkpoints and commits, as a job master and a task would. It is
killed at the n-th line of the sink that has an effect, or follows one, without any clean-up, and started again. This is
done for all n.
"""

from __future__ import annotations

import linecache
import os
import pickle
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

import pytest
from tests.unit.connectors.file_sinks import lines_below, visible_lines

from penstock.common.files import durable
from penstock.connectors.files import sink as sink_package
from penstock.connectors.files.sink import FileCompactor, FileCompactStrategy, FileSink, RollingPolicy
from penstock.testing.conformance.sink import SimpleSinkContext

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills processes that it has forked")

RECORDS = [f"record {number}" for number in range(6)]
_CHUNK = 2
_WATCHED = (str(Path(sink_package.__file__).parent), durable.__file__, __file__)
_KILLED = 9
_EFFECT = re.compile(
    r"open_output_stream|os\.fsync|"
    r"\.(write|flush|close|move|delete_file|create_dir|submit|result|write_bytes|rename)\("
)
"""Also that compaction begins, and is waited for; and the effects of the job below."""


def goes_on(path: Path) -> FileSink:
    return lines_below(path).build()


def rolls(path: Path) -> FileSink:
    return lines_below(path).with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=25)).build()


def compacts(path: Path) -> FileSink:
    strategy = FileCompactStrategy.builder().enable_compaction_on_checkpoint(2).build()
    builder = lines_below(path).with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=25))
    return builder.enable_compact(strategy, FileCompactor.concat_file_compactor()).build()


def compresses(path: Path) -> FileSink:
    return lines_below(path).with_compression("zstd").build()


class Job:
    """A job whose checkpoints are a file. `position` counts the records that are read."""

    def __init__(self, sink: FileSink, store: Path) -> None:
        self._sink = sink
        self._store = store

    def run(self, attempt: str) -> None:
        """From the last checkpoint to the end."""
        number, position, items, committables = self._stored("checkpoint") or (0, 0, [], [])
        committer = self._sink.create_committer()
        prepared, dropped = self._stored("prepared") or (0, [])
        if prepared > number:
            # The checkpoint that it was prepared for has failed.
            committer.abort(dropped)
        committer.commit_again(committables)
        context = SimpleSinkContext(attempt=attempt)
        writer = self._sink.restore_writer(context, items) if items else self._sink.create_writer(context)
        while position < len(RECORDS):
            writer.write_chunk(RECORDS[position : position + _CHUNK], None)
            position += _CHUNK
            number += 1
            writer.flush(position == len(RECORDS))
            committables = writer.prepare_commit()
            items = writer.snapshot_state(number)
            self._store_as("prepared", (number, committables))
            self._store_as("checkpoint", (number, position, items, committables))
            committer.commit(committables)
        writer.close()

    def _stored(self, name: str) -> Any:
        path = self._store / name
        return pickle.loads(path.read_bytes()) if path.exists() else None

    def _store_as(self, name: str, value: Any) -> None:
        unfinished = self._store / f"{name}.unfinished"
        unfinished.write_bytes(pickle.dumps(value))
        unfinished.rename(self._store / name)


def killed_at(line: int, run: Callable[[], None]) -> bool:
    """Run it in a process that is killed at the n-th of these lines. Returns whether it came to that."""
    child = os.fork()
    if child == 0:
        left, follows = line, False

        def trace(frame: FrameType, event: str, argument: object) -> Any:
            nonlocal left, follows
            if not frame.f_code.co_filename.startswith(_WATCHED):
                return None
            if event == "line":
                has_effect = _EFFECT.search(linecache.getline(frame.f_code.co_filename, frame.f_lineno)) is not None
                left -= has_effect or follows
                if left <= 0:
                    os._exit(_KILLED)
                follows = has_effect
            return trace

        try:
            # Compaction has threads of its own.
            threading.settrace(trace)
            sys.settrace(trace)
            run()
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, _KILLED), "the job has failed"
    return status == _KILLED


@pytest.mark.thorough
@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("make_sink", [goes_on, rolls, compacts, compresses])
def test_each_record_is_there_once_wherever_it_was_killed(
    tmp_path: Path, make_sink: Callable[[Path], FileSink], every: int
) -> None:
    """A worker that dies between two steps would leave records twice, or none of them."""
    random, line, killed = Random(1), 0, True
    while killed:
        line += every
        here = tmp_path / str(line)
        here.mkdir()
        job = Job(make_sink(here / "out"), here)
        killed = killed_at(line, lambda job=job: job.run("attempt-1"))
        # And while it recovers, for some of them.
        for again in range(2 if random.random() < 0.3 else 0):
            killed_at(random.randrange(1, 40), lambda job=job, again=again: job.run(f"again-{again}"))
        job.run("last")
        assert sorted(visible_lines(here / "out")) == RECORDS, line
    assert line > 30
