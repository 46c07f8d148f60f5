"""What a sink has prepared and no acknowledgement has told the driver of, when its task ends."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.engine.runtime.hosted_task import Host

from penstock.api.sink import Committer, Sink, SinkWriter
from penstock.engine.runtime.checkpoint_options import CheckpointOptions
from penstock.engine.runtime.network.buffer import CheckpointBarrier, EndOfData
from penstock.engine.runtime.operators.sink import SinkOperator
from penstock.engine.runtime.task.events import Acknowledge, Cancel, Close, Result, SnapshotFailed, WriteSnapshot


class Parts(Sink[str]):
    """Each committable is what was written since the one before. Notes what is aborted."""

    def __init__(self, fails: bool = False) -> None:
        self.aborted: list[list[str]] = []
        self.closed = False
        self.fails = fails

    def create_writer(self, context: Any) -> SinkWriter[str]:
        return PartWriter(self)

    def create_committer(self) -> Committer:
        return PartCommitter(self)


class PartWriter(SinkWriter[str]):
    def __init__(self, sink: Parts) -> None:
        self.sink = sink
        self.written = ""

    def write(self, value: str, timestamp: int | None) -> None:
        self.written += value

    def prepare_commit(self) -> list[str]:
        written, self.written = self.written, ""
        return [written] if written else []

    def close(self) -> None:
        self.sink.closed = True


class PartCommitter(Committer):
    def __init__(self, sink: Parts) -> None:
        self.sink = sink

    def commit(self, committables: Any) -> None:
        raise AssertionError("a worker commits nothing")

    def abort(self, committables: Any) -> None:
        assert not self.sink.closed
        self.sink.aborted.append(list(committables))
        if self.sink.fails:
            raise OSError("no such directory")


def hosted(sink: Parts) -> Host:
    return Host(SinkOperator("out", sink, 9), senders=1, leaves=False)


def barrier(number: int) -> CheckpointBarrier:
    return CheckpointBarrier(number, 0, CheckpointOptions(savepoint=f"/sp-{number}"))


def takes(host: Host, *fail: int) -> None:
    """The host begins to write what was frozen; writing some of it fails."""
    numbers = [e.snapshot.checkpoint_id for e in host.slot.take_effects() if isinstance(e, WriteSnapshot)]
    for number in fail:
        assert number in numbers
        host.handle(SnapshotFailed(number, "the disk is full"))


def delivered(host: Host) -> list[str]:
    return [name for effect in host.asks() if isinstance(effect, Result) for name in effect.values.value]


@pytest.mark.parametrize("failed", [(), (1,), (2,), (2, 1), (1, 2)])
def test_what_was_prepared_for_a_savepoint_that_failed_is_delivered_at_the_end(failed: tuple[int, ...]) -> None:
    """Without a checkpoint interval nothing else commits it: a full disk would cost a part of the output."""
    sink = Parts()
    host = hosted(sink)
    host.sends(0, ["a"], barrier(1), ["b"], barrier(2), ["c"], EndOfData()).works()
    takes(host, *failed)
    host.handle(Close())
    assert delivered(host) == ["a", "b", "c"]
    assert not sink.aborted and sink.closed


@pytest.mark.parametrize("failed", [(), (1,)])
@pytest.mark.parametrize("ended", [True, False])
def test_what_nobody_knows_of_is_aborted(ended: bool, failed: tuple[int, ...]) -> None:
    """After each cancel of a job one of whose subtasks had ended, a hidden file would stay for ever."""
    sink = Parts()
    host = hosted(sink)
    host.sends(0, ["a"], barrier(1), ["b"], *([EndOfData()] if ended else [])).works()
    takes(host, *failed)
    host.handle(Cancel())
    assert not delivered(host)
    assert sink.aborted == [["a", "b"] if ended else ["a"]] and sink.closed


def test_what_was_acknowledged_is_the_drivers() -> None:
    """A checkpoint would name files that are gone."""
    sink = Parts()
    host = hosted(sink)
    host.sends(0, ["a"], barrier(1)).works()
    (acknowledged,) = [effect for effect in host.asks() if isinstance(effect, Acknowledge)]
    assert acknowledged.commits.value == [(9, ["a"])]
    host.handle(Cancel())
    assert not sink.aborted and sink.closed


def test_a_writer_is_closed_though_nothing_can_be_aborted() -> None:
    """Its connection would stay open because a directory is gone."""
    sink = Parts(fails=True)
    host = hosted(sink)
    host.sends(0, ["a"], EndOfData()).works()
    with pytest.raises(Exception, match=r"in Parts\.abort[\s\S]*no such directory"):
        host.handle(Cancel())
    assert sink.closed
