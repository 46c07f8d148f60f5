"""The transaction that a subtask writes to, and what is wrong when brokers have ended it meanwhile."""

from __future__ import annotations

from typing import NamedTuple

from penstock.connectors.kafka.protocol.transactions import Described
from penstock.connectors.kafka.sink.producer import KafkaProducer, ProducerError
from penstock.connectors.kafka.sink.transactions import KafkaTransaction


class TransactionAbortedError(ProducerError):
    """A transaction was aborted by others, before a completed checkpoint has named it: a restart writes it again."""


class OpenTransaction(NamedTuple):
    """A transaction, its producer, and the time after which brokers abort it (ms)."""

    transaction: KafkaTransaction
    producer: KafkaProducer
    timeout_ms: str

    def holds_messages(self, now: Described | None) -> bool:
        """Whether any were written; `now`: what its id is. Raises TransactionAbortedError if it is open no more."""
        own = self.transaction
        if now is not None and (now.producer_id, now.epoch) == (own.producer_id, own.epoch):
            if now.state == "Ongoing":
                return True
            if now.state == "Empty":
                return False
        raise aborted(own, now, self.timeout_ms)


def aborted(transaction: KafkaTransaction, now: Described | None, timeout_ms: str) -> TransactionAbortedError:
    """The error that says so, and what to do."""
    became = "unknown" if now is None else f"{now.state}, epoch {now.epoch}"
    return TransactionAbortedError(
        f"the transaction '{transaction.transactional_id}' (epoch {transaction.epoch}) was aborted before a checkpoint "
        f"was complete: its id is now {became}. Either it was open for longer than transaction.timeout.ms "
        f"({timeout_ms}): raise that well above the time between two checkpoints and the time that one takes, or "
        "checkpoint more often. Or another run of this job has begun. What it held is written again after a restart"
    )
