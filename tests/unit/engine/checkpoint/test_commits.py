"""The ledger of commits: what sinks have prepared is committed once, in order, or given back to be aborted."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.engine.checkpoint.manifests import manifest_of

from penstock.engine.checkpoint.commits import CommitLedger, Committables, Numbered
from penstock.engine.checkpoint.effects import AbortCommittables, Commit
from penstock.engine.checkpoint.manifest import packed


def ledger_of() -> tuple[CommitLedger, list[Commit | AbortCommittables]]:
    """A ledger whose commits are numbered from 1, and what it asks of the host."""
    effects: list[Commit | AbortCommittables] = []
    return CommitLedger(effects.append, itertools.count(1).__next__), effects


def prepared(number: int, *values: object) -> Numbered:
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
    """Rows would be missing in the output, or be there twice."""
    ledger, effects = ledger_of()
    carried: list[Numbered] = []
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
            ledger.hand_out(Committables(7, 0, [step]))
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
        assert {ledger.sink_of_open(operation) for operation in open_} <= {7}
        assert ledger.sink_of_open(step + 1_000) is None
        assert called == expected


def test_what_was_prepared_behind_a_barrier_stays_with_its_number() -> None:
    """It would be committed with a checkpoint that does not have the state from before it, and come again."""
    ledger, _ = ledger_of()
    ledger.carry([prepared(2, "b"), prepared(1, "a"), prepared(4, "d")])
    assert ledger.take_carried(2) == [prepared(2, "b"), prepared(1, "a")]
    assert ledger.take_carried(3) == []
    assert ledger.drop_carried({7}) == [prepared(4, "d")]
    assert ledger.drop_carried({7}) == []


@pytest.mark.parametrize("commits", [0, 1, 3])
def test_the_end_comes_with_the_last_commit(commits: int) -> None:
    """Tasks would be closed while a commit can still fail, and no one could make it again."""
    ledger, _ = ledger_of()
    ended: list[str] = []
    for operation in range(commits):
        ledger.hand_out(Committables(7, operation, ["a"]))
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
        ledger.hand_out(Committables(7, 0, ["last"]))
        ledger.when_all_done(lambda: ended.append("after the last"))

    ledger.hand_out(Committables(7, 0, ["a"]))
    ledger.when_all_done(first)
    ledger.done(1)
    assert ended == []
    ledger.done(2)
    assert ended == ["after the last"]


def test_commits_from_before_a_restore_do_not_count() -> None:
    """A commit that fails late would fail the attempt that has made it again with success."""
    ledger, effects = ledger_of()
    ledger.hand_out(Committables(7, 0, ["a"]))
    ledger.restored(msgspec.structs.replace(manifest_of(1), commits={"w": [packed((0, ["a"]))], "x": ["?"]}), {"w": 7})
    assert effects[-1] == Commit(2, 7, 0, ["a"], again=True), "what other sinks had prepared is not theirs"
    assert (ledger.sink_of_open(1), ledger.sink_of_open(2)) == (None, 7)
    ledger.done(1)
    assert ledger.open == [Committables(7, 0, ["a"])]
