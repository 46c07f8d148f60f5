"""A sink whose target has transactions: what belongs to a checkpoint is written in one, and committed with it.

    subtask   begin_transaction   invoke, invoke, ...   pre_commit            begin_transaction ...
                                                             │ with the snapshot
    driver                                                   └────────▶ checkpoint complete: commit

A snapshot holds the transaction that was begun last, still without records in it. Should the job go back to that
snapshot, that transaction has had records since, and is aborted. Source: Flink, `TwoPhaseCommitSinkFunction`.
"""

from __future__ import annotations

import uuid
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, Self, TypeVar

import msgspec

from penstock.common.stored import stored_as
from penstock.connectors.base.function_sink import FunctionSinkContext
from penstock.runtime.sink import Committer, Sink, SinkContext, SinkWriter

T = TypeVar("T")
Transaction = TypeVar("Transaction")


class TwoPhaseCommitSink(Sink[T], Generic[T, Transaction]):
    """Extend it for a target that has transactions. A record is seen when its checkpoint is complete, and then once.

    A transaction is named by a handle of your own choice, which must pickle: an id, not a connection. Subtasks, each
    with a copy of the sink, call `open`, `begin_transaction`, `invoke`, `pre_commit`, `recover_and_abort` and `close`.
    The driver calls `commit` and `recover_and_commit`: there are the handle and what `__init__` has set, but nothing
    that `open` made. Either of them calls `abort`: the driver for what was pre-committed by a job that has failed.

    Without checkpoints, and in batched mode, all is one transaction for each subtask, committed when the job has ended
    well. Transactions of a killed process that no snapshot knows stay open until the target gives them up: let it do so
    after a time longer than any checkpoint and restart will take.
    """

    _run = ""
    """Tells this run of the program from an earlier one. Pickled with the sink."""

    def __new__(cls, *_: Any, **__: Any) -> Self:
        # Not in __init__: classes that extend this one may have their own, and forget this one.
        sink = super().__new__(cls)
        sink._run = uuid.uuid4().hex
        return sink

    def open(self, context: SinkContext) -> None:
        """Called once in each subtask, before all else: the place to connect."""

    @abstractmethod
    def begin_transaction(self) -> Transaction:
        """Begin a transaction, and return its handle. While no record comes it stays open, over checkpoints too."""

    @abstractmethod
    def invoke(self, transaction: Transaction, value: T, context: FunctionSinkContext) -> None:
        """Write one record. `context` tells timestamp, processing time and watermark, as in `add_sink`."""

    @abstractmethod
    def pre_commit(self, transaction: Transaction) -> None:
        """Make the transaction ready: from here on its commit must not fail. No record comes any more."""

    @abstractmethod
    def commit(self, transaction: Transaction) -> None:
        """Make it visible. May be repeated after a failure: to commit what is committed changes nothing."""

    @abstractmethod
    def abort(self, transaction: Transaction) -> None:
        """Give it up. To abort what is aborted, committed or unknown changes nothing."""

    def recover_and_commit(self, transaction: Transaction) -> None:
        """Called instead of `commit` after a failure, when nobody knows whether that was done. Default: `commit`."""
        self.commit(transaction)

    def recover_and_abort(self, transaction: Transaction) -> None:
        """Called in a new subtask for what a failed one has left open. Default: `abort`."""
        self.abort(transaction)

    def close(self) -> None:
        """Called once in each subtask, at the very end, also after a failure."""

    def create_writer(self, context: SinkContext) -> SinkWriter[T]:
        """A writer that has a transaction open."""
        return _TransactionWriter(self, context, [])

    def restore_writer(self, context: SinkContext, state: list[Any]) -> SinkWriter[T]:
        """A writer that first gives up what was left open."""
        return _TransactionWriter(self, context, state)

    def create_committer(self) -> Committer:
        """A committer that calls this sink."""
        return _TransactionCommitter(self)


@stored_as("prepared-transaction")
class Prepared(msgspec.Struct, frozen=True):
    """A committable: a transaction, and where it stands in the order of its writer's."""

    run: str
    writer: str
    number: int
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
        for transaction in left_open:
            sink.recover_and_abort(transaction)
        self._begin()

    def write(self, value: T, timestamp: int | None) -> None:
        self._written = True
        self._context._timestamp = timestamp
        self._sink.invoke(self._transaction, value, self._context)

    def flush(self, end_of_input: bool) -> None:
        self._ended = self._ended or end_of_input

    def prepare_commit(self) -> list[Any]:
        if not self._written:
            # Nothing to commit: the next records go into the same transaction.
            return []
        self._sink.pre_commit(self._transaction)
        prepared = Prepared(self._sink._run, self._id, self._number, self._transaction)
        self._begun = self._written = False
        self._number += 1
        if not self._ended:
            self._begin()
        return [prepared]

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        return [self._transaction] if self._begun else []

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
    """Knows which transactions may have been committed before: those of another run, and those it has seen."""

    def __init__(self, sink: TwoPhaseCommitSink[Any, Any]) -> None:
        self._sink = sink
        self._seen: dict[str, int] = {}
        """By writer: the number of the last transaction."""

    def commit(self, committables: Sequence[Prepared]) -> None:
        for prepared in committables:
            again = prepared.run != self._sink._run or prepared.number <= self._seen.get(prepared.writer, -1)
            if not again:
                self._seen[prepared.writer] = prepared.number
            commit = self._sink.recover_and_commit if again else self._sink.commit
            commit(prepared.transaction)

    def abort(self, committables: Sequence[Prepared]) -> None:
        for prepared in committables:
            self._sink.abort(prepared.transaction)
