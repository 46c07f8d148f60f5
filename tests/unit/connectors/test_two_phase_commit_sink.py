"""TwoPhaseCommitSink on a target with transactions: a directory of files."""

import json
import pickle
import uuid

import pytest

from penstock.connectors.base.two_phase_commit_sink import TwoPhaseCommitSink
from penstock.testing.conformance.sink import SimpleSinkContext, check_sink


class Table(TwoPhaseCommitSink):
    """A transaction is a file: `<id>.open`, then `<id>.ready`, then `<id>.done`. Calls are recorded."""

    def __init__(self, path):
        self.path = path
        self.log = path.parent / f"{path.name}.log"
        path.mkdir(exist_ok=True)

    def begin_transaction(self):
        name = uuid.uuid4().hex
        (self.path / f"{name}.open").touch()
        return name

    def invoke(self, transaction, value, context):
        with (self.path / f"{transaction}.open").open("a") as file:
            file.write(json.dumps([value, context.timestamp()]) + "\n")

    def pre_commit(self, transaction):
        self.move(transaction, "open", "ready")

    def commit(self, transaction):
        self.note("commit", transaction)
        self.move(transaction, "ready", "done")

    def recover_and_commit(self, transaction):
        self.note("recover_and_commit", transaction)
        self.move(transaction, "ready", "done")

    def abort(self, transaction):
        self.note("abort", transaction)
        for state in ("open", "ready"):
            (self.path / f"{transaction}.{state}").unlink(missing_ok=True)

    def recover_and_abort(self, transaction):
        self.note("recover_and_abort", transaction)
        self.abort(transaction)

    def open(self, context):
        self.note("open", context.attempt)

    def close(self):
        self.note("close", "")

    def move(self, transaction, before, after):
        if (self.path / f"{transaction}.{before}").exists():
            (self.path / f"{transaction}.{before}").rename(self.path / f"{transaction}.{after}")

    def note(self, *words):
        with self.log.open("a") as file:
            file.write(" ".join(words).strip() + "\n")

    def notes(self):
        return self.log.read_text().splitlines()

    def seen(self):
        lines = [line for path in self.path.glob("*.done") for line in path.read_text().splitlines()]
        return [json.loads(line)[0] for line in lines]

    def left(self):
        return sorted(path.suffix for path in self.path.iterdir() if path.suffix != ".done")


def prepared(writer, checkpoint_id):
    """Return the checkpoint of a writer: committables and state."""
    writer.flush(False)
    return pickle.loads(pickle.dumps((writer.prepare_commit(), writer.snapshot_state(checkpoint_id))))


def test_conformance(tmp_path):
    """Readers of the target would see records that may be repeated, or miss some."""
    tables = []

    def make_sink():
        tables.append(Table(tmp_path / str(len(tables))))
        return tables[-1]

    check_sink(make_sink, lambda: tables[-1].seen(), [*range(9)])
    assert not [state for table in tables for state in table.left()], "nothing is left open"


def test_what_was_left_open_is_aborted_after_a_restart(tmp_path):
    """Locks and half-written data of a killed worker would stay in the target forever."""
    table = Table(tmp_path / "table")
    writer = table.create_writer(SimpleSinkContext())
    writer.write(1, None)
    committables, state = prepared(writer, 1)
    table.create_committer().commit(committables)
    writer.write(2, None)  # into the transaction that the state names; then the worker is killed
    assert table.left() == [".open"]

    again = pickle.loads(pickle.dumps(table)).restore_writer(SimpleSinkContext(attempt="attempt-2"), state)
    left = state[0].transaction
    assert table.notes()[-2:] == [f"recover_and_abort {left}", f"abort {left}"]
    again.write(2, None)
    table.create_committer().commit(prepared(again, 2)[0])
    again.close()
    assert sorted(table.seen()) == [1, 2]
    assert not table.left()


def test_another_job_leaves_a_transaction_alone(tmp_path):
    """A job that starts from a savepoint aborted what the one that runs on writes to: its output was missing."""
    table = Table(tmp_path / "table")
    runs_on = table.create_writer(SimpleSinkContext(job_id="a"))
    runs_on.write(1, None)
    committables, state = prepared(runs_on, 1)
    table.create_committer().commit(committables)
    runs_on.write(2, None)
    other = Table(tmp_path / "table").restore_writer(SimpleSinkContext(job_id="b", is_restored=True), state)
    table.create_committer().commit(prepared(runs_on, 2)[0])
    assert sorted(table.seen()) == [1, 2]
    other.close()
    runs_on.close()

    before_jobs_were_kept = [table.create_writer(SimpleSinkContext()).snapshot_state(1)[0].transaction]
    table.restore_writer(SimpleSinkContext(), before_jobs_were_kept)
    assert table.notes()[-2] == f"recover_and_abort {before_jobs_were_kept[0]}"


def test_what_was_pre_committed_but_belongs_to_no_checkpoint_is_aborted(tmp_path):
    """Replayed records would be duplicated once in-doubt transactions are resolved."""
    table = Table(tmp_path / "table")
    writer = table.create_writer(SimpleSinkContext())
    _, state = prepared(writer, 1)
    writer.write(1, None)
    prepared(writer, 2)  # never complete
    again = table.restore_writer(SimpleSinkContext(), state)
    assert table.left() == [".open"] * 2, "the one that no checkpoint names, and the new one"
    again.close()
    assert not table.seen()


def test_recovery_commits_are_told_from_first_ones(tmp_path):
    """A target that has forgotten a committed transaction would fail the job permanently."""
    table = Table(tmp_path / "table")
    committer = table.create_committer()
    writer = table.create_writer(SimpleSinkContext())
    handed_over = []
    for value in (1, 2):
        writer.write(value, None)
        handed_over += prepared(writer, value)[0]
        committer.commit(handed_over[-1:])
    committer.commit(handed_over[-1:])  # after a restart
    another_run = Table(tmp_path / "table")
    another_run.create_committer().commit(handed_over[-1:])  # the driver was killed, and the program is run again
    first, second = (one.transaction for one in handed_over)
    assert [note for note in table.notes() if "commit" in note] == [
        f"commit {first}",
        f"commit {second}",
        f"recover_and_commit {second}",
        f"recover_and_commit {second}",
    ]


def test_a_transaction_without_records_goes_on(tmp_path):
    """A quiet stream would begin and commit a transaction with each checkpoint."""
    table = Table(tmp_path / "table")
    writer = table.create_writer(SimpleSinkContext())
    states = []
    for checkpoint_id in (1, 2):
        committables, state = prepared(writer, checkpoint_id)
        assert not committables
        states += state
    assert len(states) == 2 and len(set(states)) == 1
    assert len(list(table.path.iterdir())) == 1


def test_the_end_of_the_data(tmp_path):
    """An empty transaction would stay open after each job that ends."""
    table = Table(tmp_path / "table")
    writer = table.create_writer(SimpleSinkContext())
    writer.write(1, 5)
    writer.flush(True)
    table.create_committer().commit(writer.prepare_commit())
    assert writer.snapshot_state(1) == []
    writer.close()
    assert table.seen() == [1]
    assert not table.left()
    assert table.notes()[0] == "open attempt-1" and table.notes()[-1] == "close"


def test_a_failure_aborts_and_closes(tmp_path):
    """The connection would stay open if the abort also fails."""

    class Broken(Table):
        def abort(self, transaction):
            raise OSError("no route to host")

    table = Broken(tmp_path / "table")
    with pytest.raises(OSError, match="no route"):
        table.create_writer(SimpleSinkContext()).close()
    assert table.notes()[-1] == "close"
