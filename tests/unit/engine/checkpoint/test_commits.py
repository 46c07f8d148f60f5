"""The ledger of commits: committables are committed once and in order, or returned to be aborted."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.engine.checkpoint.manifests import manifest_of

from penstock.engine.checkpoint.commits import CommitLedger, Committables, NumberedCommittables
from penstock.engine.checkpoint.effects import AbortCommittables, Commit
from penstock.engine.checkpoint.manifest import packed


def ledger_of() -> tuple[CommitLedger, list[Commit | AbortCommittables]]:
    """A ledger whose commits are numbered from 1, and its effects."""
    effects: list[Commit | AbortCommittables] = []
    return CommitLedger(effects.append, itertools.count(1).__next__), effects


def prepared(number: int, *values: object) -> NumberedCommittables:
    return number, Committables(7, 0, list(values))


NUMBERS = st.integers(1, 9)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["carry", "take", "hand out", "done"]), NUMBERS),
        st.tuples(st.sampled_from(["wait", "restore", "drop"]), st.just(0)),
    ),
    min_size=10,
    max_size=60,
)


@given(STEPS)
def test_the_ledger_loses_nothing_and_doubles_nothing(steps: list[tuple[str, int]]) -> None:
    """Rows would be missing in the output, or be written twice."""
    ledger, effects = ledger_of()
    carried: list[NumberedCommittables] = []
    open_: dict[int, Committables] = {}
    waiting: list[int] = []
    called: list[int] = []
    expected: list[int] = []
    for step, (kind, number) in enumerate(steps):
        if kind == "carry":
            ledger.carry([prepared(number, step)])
            carried.append(prepared(number, step))
        elif kind == "take":
            assert ledger.take_carried(number) == [item for item in carried if item[0] <= number]
            carried = [item for item in carried if item[0] > number]
        elif kind == "drop":
            assert ledger.drop_carried({7}) == carried
            carried = []
        elif kind == "hand out":
            ledger.request_commit(Committables(7, 0, [step]))
            commit = effects[-1]
            assert isinstance(commit, Commit) and commit.committables == [step] and not commit.again
            open_[commit.operation] = Committables(7, 0, [step])
        elif kind == "done":
            operation = list(open_)[number % len(open_)] if open_ else 1_000
            open_.pop(operation, None)
            ledger.done(operation)
            if not open_:
                expected += waiting
                waiting = []
        elif kind == "restore":
            ledger.restored(manifest_of(1), {"w": 7})
            ledger.tasks_ended()
            open_.clear()
            waiting.clear()
        elif kind == "wait":
            (waiting if open_ else expected).append(step)
            ledger.when_all_done(lambda step=step: called.append(step))  # type: ignore[misc]
        assert ledger.open == list(open_.values()), "in the order in which they were handed out"
        assert {ledger.sink_of_open_commit(operation) for operation in open_} <= {7}
        assert ledger.sink_of_open_commit(step + 1_000) is None
        assert called == expected


def test_what_was_prepared_behind_a_barrier_stays_with_its_number() -> None:
    """Output would be committed with a checkpoint that lacks its state, and be written again after a failure."""
    ledger, _ = ledger_of()
    ledger.carry([prepared(2, "b"), prepared(1, "a"), prepared(4, "d")])
    assert ledger.take_carried(2) == [prepared(2, "b"), prepared(1, "a")]
    assert ledger.take_carried(3) == []
    assert ledger.drop_carried({7}) == [prepared(4, "d")]
    assert ledger.drop_carried({7}) == []


@pytest.mark.parametrize("commits", [0, 1, 3])
def test_the_end_comes_with_the_last_commit(commits: int) -> None:
    """Tasks would be closed while a commit can still fail, and it could not be repeated."""
    ledger, _ = ledger_of()
    ended: list[str] = []
    for operation in range(commits):
        ledger.request_commit(Committables(7, operation, ["a"]))
    ledger.when_all_done(lambda: ended.append("end"))
    for operation in range(commits):
        assert ended == []
        ledger.done(operation + 1)
    assert ended == ["end"]
    ledger.done(1)
    assert ended == ["end"], "a commit that is reported twice ends nothing twice"


def test_a_call_that_waits_may_hand_out_more() -> None:
    """The end of a job that begins with a further commit would wait for itself."""
    ledger, _ = ledger_of()
    ended: list[str] = []

    def first() -> None:
        ledger.request_commit(Committables(7, 0, ["last"]))
        ledger.when_all_done(lambda: ended.append("after the last"))

    ledger.request_commit(Committables(7, 0, ["a"]))
    ledger.when_all_done(first)
    ledger.done(1)
    assert ended == []
    ledger.done(2)
    assert ended == ["after the last"]


def test_commits_from_before_a_restore_do_not_count() -> None:
    """A late failure of a commit would fail the attempt that has repeated it successfully."""
    ledger, effects = ledger_of()
    ledger.request_commit(Committables(7, 0, ["a"]))
    ledger.restored(msgspec.structs.replace(manifest_of(1), commits={"w": [packed((0, ["a"]))], "x": ["?"]}), {"w": 7})
    assert effects[-1] == Commit(2, 7, 0, ["a"], again=True), "what other sinks had prepared is not theirs"
    assert (ledger.sink_of_open_commit(1), ledger.sink_of_open_commit(2)) == (None, 7)
    ledger.done(1)
    assert ledger.open == [Committables(7, 0, ["a"])]
