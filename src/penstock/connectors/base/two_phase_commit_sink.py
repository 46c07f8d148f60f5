"""A sink for targets with transactions: one transaction per checkpoint, committed when the checkpoint completes.

    subtask   begin_transaction   invoke, invoke, ...   pre_commit            begin_transaction ...
                                                             │ with the snapshot
    driver                                                   └────────▶ checkpoint complete: commit

A snapshot also holds the transaction that was begun last and is still empty at the barrier. If the job restores that
snapshot, this transaction has received records since, and is aborted. Source: Flink, `TwoPhaseCommitSinkFunction`.
"""

from __future__ import annotations

import uuid
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, Self, TypeVar

import msgspec

from penstock.api.sink import Committer, Sink, SinkContext, SinkWriter
from penstock.common.stored import stored_as
from penstock.connectors.base.function_sink import FunctionSinkContext

T = TypeVar("T")
Transaction = TypeVar("Transaction")


class TwoPhaseCommitSink(Sink[T], Generic[T, Transaction]):
    """Base class of sinks whose target has transactions. A record becomes visible exactly once, with its checkpoint.

    A transaction is identified by a handle of the subclass's choice. The handle must pickle: an id, not a connection.
    Subtasks, each with a copy of the sink, call `open`, `begin_transaction`, `invoke`, `pre_commit`,
    `recover_and_abort` and `close`. The driver calls `commit` and `recover_and_commit`; there only the handle and the
    attributes set in `__init__` exist, nothing that `open` created. Both call `abort`: the driver for transactions that
    were pre-committed by a failed job.

    Without checkpoints, and in batched mode, each subtask uses one transaction, which is committed when the job has
    succeeded. Transactions of a killed process that no snapshot contains stay open until the target times them out:
    configure that timeout to exceed the longest checkpoint plus restart.
    """

    _run = ""
    """Identify this run of the program. Pickled with the sink."""
    run_attributes: ClassVar[tuple[str, ...]] = ("_run",)
    """Attributes that differ between runs of one program: engine/plan/same_code.py does not compare them."""

    def __new__(cls, *_: Any, **__: Any) -> Self:
        # Not in __init__: subclasses may define their own without calling super().__init__().
        sink = super().__new__(cls)
        sink._run = uuid.uuid4().hex
        return sink

    def open(self, context: SinkContext) -> None:
        """Called once in each subtask before all other methods. Connect here."""

    @abstractmethod
    def begin_transaction(self) -> Transaction:
        """Begin a transaction and return its handle. Without records it stays open, also across checkpoints."""

    @abstractmethod
    def invoke(self, transaction: Transaction, value: T, context: FunctionSinkContext) -> None:
        """Write one record. `context` has timestamp, processing time and watermark, as in `add_sink`."""

    @abstractmethod
    def pre_commit(self, transaction: Transaction) -> None:
        """Make the transaction durable: its commit must not fail from here on. No further records are written to it."""

    @abstractmethod
    def commit(self, transaction: Transaction) -> None:
        """Make the transaction visible. Must be idempotent: it may be repeated after a failure."""

    @abstractmethod
    def abort(self, transaction: Transaction) -> None:
        """Discard the transaction. Must be idempotent, and do nothing if it is committed or unknown."""

    def recover_and_commit(self, transaction: Transaction) -> None:
        """Called instead of `commit` after a failure, when a commit may already have happened. Default: `commit`."""
        self.commit(transaction)

    def recover_and_abort(self, transaction: Transaction) -> None:
        """Called in a restored subtask for transactions that the failed one left open. Default: `abort`.

        Transactions of another job, from whose checkpoint or savepoint this one starts, stay: that job may use them.
        """
        self.abort(transaction)

    def close(self) -> None:
        """Called once in each subtask at the end, also after a failure."""

    def create_writer(self, context: SinkContext) -> SinkWriter[T]:
        """Create a writer, which begins its first transaction."""
        return _TransactionWriter(self, context, [])

    def restore_writer(self, context: SinkContext, state: list[Any]) -> SinkWriter[T]:
        """Create a writer that first aborts the transactions of this job in `state`."""
        return _TransactionWriter(self, context, state)

    def create_committer(self) -> Committer:
        """Create a committer that calls this sink."""
        return _TransactionCommitter(self)


@stored_as("prepared-transaction")
class Prepared(msgspec.Struct, frozen=True):
    """A committable: a transaction and its sequence number within its writer."""

    run: str
    writer: str
    number: int
    transaction: Any


@stored_as("begun-transaction")
class Begun(msgspec.Struct, frozen=True):
    """A begun transaction, and the job that began it."""

    job_id: str
    transaction: Any


class _TransactionWriter(SinkWriter[T]):
    def __init__(self, sink: TwoPhaseCommitSink[T, Any], context: SinkContext, left_open: Sequence[Any]) -> None:
        self._sink = sink
        self._id = uuid.uuid4().hex
        self._number = 0
        self._context = FunctionSinkContext(context)
        self._ended = False
        self._begun = self._written = False
        self._transaction: Any = None
        sink.open(context)
        self._job_id = context.job_id
        for one in left_open:
            if not isinstance(one, Begun):
                # Earlier versions of penstock did not store the job.
                sink.recover_and_abort(one)
            elif one.job_id == context.job_id:
                sink.recover_and_abort(one.transaction)
        self._begin()

    def write(self, value: T, timestamp: int | None) -> None:
        self._written = True
        self._context._timestamp = timestamp
        self._sink.invoke(self._transaction, value, self._context)

    def flush(self, end_of_input: bool) -> None:
        self._ended = self._ended or end_of_input

    def prepare_commit(self) -> list[Any]:
        if not self._written:
            # The empty transaction is kept for the next records: an idle subtask begins no transaction per checkpoint.
            return []
        self._sink.pre_commit(self._transaction)
        prepared = Prepared(self._sink._run, self._id, self._number, self._transaction)
        self._begun = self._written = False
        self._number += 1
        # After the end of the data no record follows: a new transaction would stay open in the target.
        if not self._ended:
            self._begin()
        return [prepared]

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        # Begun, but not prepared: it will contain records from after the barrier, which a restore of this checkpoint
        # reprocesses. The restored writer therefore aborts it.
        return [Begun(self._job_id, self._transaction)] if self._begun else []

    def close(self) -> None:
        try:
            if self._begun:
                self._begun = False
                self._sink.abort(self._transaction)
        finally:
            self._sink.close()

    def _begin(self) -> None:
        self._transaction = self._sink.begin_transaction()
        self._begun = True


class _TransactionCommitter(Committer):
    """Call `commit`, or `recover_and_commit` for transactions that may be committed: of another run, or seen before."""

    def __init__(self, sink: TwoPhaseCommitSink[Any, Any]) -> None:
        self._sink = sink
        self._seen: dict[str, int] = {}
        """By writer: the number of the last committed transaction."""

    def commit(self, committables: Sequence[Prepared]) -> None:
        for prepared in committables:
            # A restored job commits transactions of its manifest again, since the failed one may or may not have
            # committed them. A restart within one run repeats numbers that this committer has seen.
            again = prepared.run != self._sink._run or prepared.number <= self._seen.get(prepared.writer, -1)
            if not again:
                self._seen[prepared.writer] = prepared.number
            commit = self._sink.recover_and_commit if again else self._sink.commit
            commit(prepared.transaction)

    def abort(self, committables: Sequence[Prepared]) -> None:
        for prepared in committables:
            self._sink.abort(prepared.transaction)
