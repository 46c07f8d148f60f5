"""The transactions of a subtask, and their names.

    <prefix>-<job>-<sink>/<subtask>/<attempt>/<slot>

Each transaction has a producer of its own, and its transactional id is a *slot* of the attempt: once the transaction is
committed, another producer uses the slot, with the next epoch. Thus (id, producer id, epoch) always identifies one
transaction, brokers store a few ids for each attempt, and the present state of an id shows whether a transaction was
committed (`is_committed`). docs/internals/decisions/0020 has the reasons.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

import msgspec

from penstock.common.stored import stored_as
from penstock.connectors.base.attempts import order_of
from penstock.connectors.base.former_subtasks import FormerSubtasks
from penstock.connectors.kafka.protocol.transactions import TransactionClient, TransactionDescription

_log = logging.getLogger(__name__)

_COMMITTED = ("PrepareCommit", "CompleteCommit")
_ABORTED = ("PrepareAbort", "CompleteAbort", "PrepareEpochFence")


@stored_as("kafka-transaction")
class KafkaTransaction(msgspec.Struct, frozen=True):
    """A transaction with all of its messages, ready to be committed."""

    transactional_id: str
    producer_id: int
    epoch: int


@stored_as("kafka-transactions-of-writer")
class TransactionsOfWriter(msgspec.Struct, frozen=True):
    """State of a writer: its subtask and parallelism, and prepared transactions that may not be committed yet."""

    subtask: int
    parallelism: int
    prepared: list[KafkaTransaction]


class TransactionalIds(NamedTuple):
    """The transactional ids of one attempt of one subtask."""

    sink: str
    subtask: int
    attempt: str

    def slot(self, number: int) -> str:
        """Return the id of a slot."""
        return f"{self.sink}/{self.subtask}/{self.attempt}/{number}"

    def is_of_earlier_attempt(self, transactional_id: str) -> bool:
        """Return whether the id is of an earlier attempt of the same sink, in any subtask.

        The transactions of a later attempt must stay: its run may have prepared and may commit them.
        """
        attempt = transactional_id.removeprefix(f"{self.sink}/").split("/")[1]
        return order_of(attempt) < order_of(self.attempt)


def is_committed(transaction: KafkaTransaction, now: TransactionDescription | None) -> bool | None:
    """Return whether a transaction was committed, by the state `now` of its id; None if it is open or unknown.

    Another producer uses an id, with a later epoch, only after its transaction was committed. If the coordinator aborts
    a transaction, after its timeout or for `TransactionClient.fence`, the id has the next epoch and is aborted. If two
    runs of a job fence it at the same time, the id contains the fenced epoch.
    """
    if now is None:
        return None
    if (now.producer_id, now.epoch) == (transaction.producer_id, transaction.epoch):
        return True if now.state in _COMMITTED else False if now.state in _ABORTED else None
    if now.producer_id != transaction.producer_id:
        return True
    given_up = now.epoch == transaction.epoch + 1 and now.state in _ABORTED
    return not given_up and now.fenced_epoch != transaction.epoch


def abort_earlier_attempts(
    client: TransactionClient, ids: TransactionalIds, former: FormerSubtasks, to_commit: set[KafkaTransaction]
) -> None:
    """Abort the open transactions of earlier attempts, and fence their producers.

    `to_commit`: transactions that the restored checkpoint commits.
    """
    for transactional_id in client.ongoing(f"{ids.sink}/"):
        subtask = int(transactional_id.removeprefix(f"{ids.sink}/").split("/")[0])
        if not ids.is_of_earlier_attempt(transactional_id) or not former.include(subtask):
            continue
        now = client.describe(transactional_id)
        if now is None or now.state != "Ongoing":
            # It ended after it was listed. Its result can be read later, too.
            continue
        if KafkaTransaction(transactional_id, now.producer_id, now.epoch) in to_commit:
            continue
        _log.info("aborting the transaction '%s' of an earlier attempt", transactional_id)
        client.fence(transactional_id, now.producer_id, now.epoch)
