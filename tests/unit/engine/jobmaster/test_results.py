"""Results on the driver: printed, collected, committed."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

import pytest

from penstock.api.sink import Committer
from penstock.common.errors import JobError
from penstock.engine.jobmaster.results.result_sinks import CollectedResults, CommittedResults, PrintResults


class Recording(Committer):
    def __init__(self, fails: bool = False) -> None:
        self.calls: list = []
        self.fails = fails

    def commit(self, committables):
        self.calls.append(("commit", list(committables)))

    def abort(self, committables):
        self.calls.append(("abort", list(committables)))
        if self.fails:
            raise OSError


@pytest.mark.parametrize(
    ("identifier", "parallel", "expected"),
    [
        (None, False, "a\nb\n"),
        (None, True, "3> a\n3> b\n"),
        ("out", False, "out> a\nout> b\n"),
        ("out", True, "out:3> a\nout:3> b\n"),
    ],
)
def test_print_looks_as_in_flink(capsys, identifier, parallel, expected) -> None:
    """Scripts that read the output of Flink's print would not understand ours."""
    PrintResults(identifier, parallel).accept(2, ["a", "b"])
    assert capsys.readouterr().out == expected


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a device that is always full")
def test_output_that_can_not_be_written_is_told_in_words() -> None:
    """A user whose disk is full would read penstock's own traceback, once for each restart."""
    full = Path("/dev/full").open("w")  # noqa: SIM115
    with contextlib.redirect_stdout(full), pytest.raises(JobError, match=r"print\(\) can.t write.*No space"):
        PrintResults(None, False).accept(0, ["a"])
    with contextlib.suppress(OSError):
        full.close()


def test_collected_values_come_as_they_arrive_then_the_error() -> None:
    """Results before a failure would be lost, or the failure would look like the end."""
    results = CollectedResults()
    values = iter(results)
    results.accept(0, [1, 2])
    assert [next(values), next(values)] == [1, 2]
    threading.Timer(0.05, lambda: (results.accept(1, [3]), results.succeeded())).start()
    assert list(values) == [3]

    failed = CollectedResults()
    failed.accept(0, [1])
    failed.failed(JobError("broken"))
    values = iter(failed)
    assert next(values) == 1
    with pytest.raises(JobError, match="broken"):
        next(values)


def test_committables_are_published_on_success_and_removed_on_failure() -> None:
    """Files of a failed job would appear, those of a good one would not."""
    good, bad = Recording(), Recording(fails=True)
    for committer in (good, bad):
        results = CommittedResults(committer)
        results.accept(0, ["a"])
        results.accept(1, ["b"])
        results.succeeded() if committer is good else results.failed(JobError("x"))
    assert good.calls == [("commit", ["a", "b"])]
    assert bad.calls == [("abort", ["a", "b"])]


def test_what_was_committed_is_not_removed_when_another_sink_fails() -> None:
    """The published files of the first sink would be deleted by the failure of the second."""
    committer = Recording()
    results = CommittedResults(committer)
    results.accept(0, ["a"])
    results.succeeded()
    results.failed(JobError("the other sink"))
    assert committer.calls == [("commit", ["a"]), ("abort", [])]


def test_a_store_that_is_away_for_a_moment_is_asked_again() -> None:
    """A part of the results would be published, and the rest removed."""

    class Away(Recording):
        times = 2

        def commit(self, committables):
            super().commit(committables)
            if len(self.calls) <= self.times:
                raise OSError("slow down")

    committer = Away()
    results = CommittedResults(committer, retry_pauses_s=(0, 0))
    results.accept(0, ["a"])
    results.succeeded()
    assert committer.calls == [("commit", ["a"])] * 3
    committer.calls.clear()
    committer.times = 9
    results.accept(0, ["b"])
    with pytest.raises(OSError, match="slow down"):
        results.succeeded()


def test_what_an_attempt_left_is_not_committed_by_the_next() -> None:
    """A job that starts again without checkpoints does all of it again: rows would be there twice."""
    committer = Recording()
    results = CommittedResults(committer)
    results.accept(0, ["a"])
    results.restarted()
    results.accept(0, ["b"])
    results.succeeded()
    assert committer.calls == [("abort", ["a"]), ("commit", ["b"])]
