"""The transactions of a subtask, and their names.

    <prefix>-<job>-<sink>/<subtask>/<attempt>/<slot>

A transaction has a producer of its own, and its transactional id is a *slot* of the attempt: once the transaction is
committed, another producer takes the slot over, with the next epoch. So (id, producer id, epoch) names one transaction
for ever, brokers remember a few ids for each attempt, and whether a transaction was committed can be told from the
present state of its id (`is_committed`). docs/internals/decisions/0020 has the reasons.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

import msgspec

from penstock.common.stored import stored_as
from penstock.connectors.base.attempts import order_of
from penstock.connectors.base.former_subtasks import FormerSubtasks
from penstock.connectors.kafka.protocol.transactions import Described, TransactionClient

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
    """State of a writer: which subtask it was, of how many, and what it has prepared and not seen committed."""

    subtask: int
    parallelism: int
    prepared: list[KafkaTransaction]


class TransactionalIds(NamedTuple):
    """The transactional ids of one attempt of one subtask."""

    sink: str
    subtask: int
    attempt: str

    def slot(self, number: int) -> str:
        """The id of a slot."""
        return f"{self.sink}/{self.subtask}/{self.attempt}/{number}"

    def is_of_former(self, transactional_id: str) -> bool:
        """Whether the id is of an earlier attempt of the same sink, of whichever subtask.

        A later one may have prepared what its run commits: who is the former itself must leave that alone.
        """
        attempt = transactional_id.removeprefix(f"{self.sink}/").split("/")[1]
        return order_of(attempt) < order_of(self.attempt)


def is_committed(transaction: KafkaTransaction, now: Described | None) -> bool | None:
    """Whether a transaction was committed, from what its id is `now`; None: it is still open, or nobody knows.

    An id is taken over by another producer, with a later epoch, only when its transaction was seen committed. One that
    the coordinator aborts, because its time is over, or since a job gives it up (`TransactionClient.fence`), leaves the
    next epoch behind, and aborted; or, if two runs of a job give it up at once, says that it was given up.
    """
    if now is None:
        return None
    if (now.producer_id, now.epoch) == (transaction.producer_id, transaction.epoch):
        return True if now.state in _COMMITTED else False if now.state in _ABORTED else None
    if now.producer_id != transaction.producer_id:
        return True
    given_up = now.epoch == transaction.epoch + 1 and now.state in _ABORTED
    return not given_up and now.fenced_epoch != transaction.epoch


def abort_former(
    client: TransactionClient, ids: TransactionalIds, former: FormerSubtasks, kept: set[KafkaTransaction]
) -> None:
    """Abort what former attempts have left open, and fence their producers off.

    `kept`: is committed by the restored checkpoint.
    """
    for transactional_id in client.ongoing(f"{ids.sink}/"):
        subtask = int(transactional_id.removeprefix(f"{ids.sink}/").split("/")[0])
        if not ids.is_of_former(transactional_id) or not former.include(subtask):
            continue
        now = client.describe(transactional_id)
        if now is None or now.state != "Ongoing":
            # It has ended since it was listed: how, is to be seen later, too.
            continue
        if KafkaTransaction(transactional_id, now.producer_id, now.epoch) in kept:
            continue
        _log.info("the transaction '%s' of a former attempt is aborted", transactional_id)
        client.fence(transactional_id, now.producer_id, now.epoch)
