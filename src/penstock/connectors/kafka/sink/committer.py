"""Commits transactions on the driver, whichever process has prepared them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from penstock.api.sink import Committer
from penstock.common.errors import JobError
from penstock.connectors.kafka.protocol.transactions import TransactionClient
from penstock.connectors.kafka.sink.transactions import KafkaTransaction, is_committed

_log = logging.getLogger(__name__)


class TransactionLostError(JobError):
    """A transaction that a checkpoint names was aborted before it could be committed."""


class KafkaCommitter(Committer):
    """Ends transactions by their ids, producer ids and epochs: repeating that changes nothing."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._client = TransactionClient(properties)

    def commit(self, committables: Sequence[KafkaTransaction]) -> None:
        for one in committables:
            if not self._client.end(one.transactional_id, one.producer_id, one.epoch, commit=True):
                self._check(one)

    def abort(self, committables: Sequence[KafkaTransaction]) -> None:
        for one in committables:
            # By its epoch: if it was committed, the id may belong to a transaction that goes on.
            self._client.fence(one.transactional_id, one.producer_id, one.epoch)

    def _check(self, one: KafkaTransaction) -> None:
        now = self._client.describe(one.transactional_id)
        if now is None:
            _log.warning(
                "the transaction '%s' can't be committed: the brokers do not know its id any more, as they forget "
                "those not used for transactional.id.expiration.ms. It was committed long ago, or was aborted",
                one.transactional_id,
            )
        elif not is_committed(one, now):
            raise TransactionLostError(
                f"the transaction '{one.transactional_id}' (producer {one.producer_id}, epoch {one.epoch}) was "
                f"aborted before it could be committed: its id is now {now.state}, epoch {now.epoch}. What it wrote "
                "is lost. Either the job was down for longer than transaction.timeout.ms; or it has failed behind this "
                "savepoint, and has gone back to a checkpoint before it; or another job has the same transactional id "
                "prefix and job id. Start again from an earlier savepoint, or accept the loss and start from one that "
                "was taken later"
            )
