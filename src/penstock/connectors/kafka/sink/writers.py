"""Writers of a KafkaSink, with and without transactions."""

from __future__ import annotations

import contextlib
import threading
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from penstock.api.sink import SinkContext, SinkWriter
from penstock.common.completable_future import WAKE_INTERVAL_S
from penstock.common.functions.user_calls import RAISED, as_exception
from penstock.connectors.base.delivery_guarantee import DeliveryGuarantee
from penstock.connectors.base.former_subtasks import FormerSubtasks
from penstock.connectors.kafka.protocol.transactions import TransactionClient, TransactionDescription
from penstock.connectors.kafka.sink.producer import KafkaProducer, ProducerError
from penstock.connectors.kafka.sink.serialization import KafkaRecordSerializationSchema
from penstock.connectors.kafka.sink.transactions import (
    KafkaTransaction,
    TransactionalIds,
    TransactionsOfWriter,
    abort_earlier_attempts,
    is_committed,
)


class TransactionAbortedError(ProducerError):
    """A transaction was aborted before a completed checkpoint contained it. A restart writes its records again."""


class OpenTransaction(NamedTuple):
    """The transaction that a subtask writes to, its producer, and the timeout after which brokers abort it (ms)."""

    transaction: KafkaTransaction
    producer: KafkaProducer
    timeout_ms: str

    def holds_messages(self, now: TransactionDescription | None) -> bool:
        """Return whether the transaction contains messages. Raise TransactionAbortedError if it has ended.

        `now`: the present state of its id.
        """
        transaction = self.transaction
        if now is not None and (now.producer_id, now.epoch) == (transaction.producer_id, transaction.epoch):
            if now.state == "Ongoing":
                return True
            if now.state == "Empty":
                return False
        raise aborted_error(transaction, now, self.timeout_ms)


def aborted_error(
    transaction: KafkaTransaction, now: TransactionDescription | None, timeout_ms: str
) -> TransactionAbortedError:
    """Return the error for an aborted transaction."""
    state = "unknown" if now is None else f"{now.state}, epoch {now.epoch}"
    return TransactionAbortedError(
        f"the transaction '{transaction.transactional_id}' (epoch {transaction.epoch}) was aborted before a checkpoint "
        f"completed: its id is now {state}. Either it was open for longer than transaction.timeout.ms "
        f"({timeout_ms}): increase that well above the checkpoint interval plus the duration of a checkpoint, or "
        "checkpoint more often. Or another run of this job has begun. A restart writes its records again"
    )


_CLOSE_S = 5.0


class _Writer(SinkWriter[Any]):
    def __init__(self, schema: KafkaRecordSerializationSchema) -> None:
        self._schema = schema

    def write(self, value: Any, timestamp: int | None) -> None:
        self.write_chunk([value], None if timestamp is None else [timestamp])

    def write_chunk(self, values: list[Any], timestamps: list[int] | None) -> None:
        with self._producing() as producer:
            serialize, write = self._schema.serialize, producer.write
            for index, value in enumerate(values):
                timestamp = None if timestamps is None else timestamps[index]
                record = serialize(value, timestamp)
                if record is not None:
                    write(record, timestamp)
            producer.serve()

    def write_columns(self, batch: Any, timestamps: Any = None) -> None:
        with self._producing() as producer:
            messages = self._schema.serialize_columns(batch)
            # Times before 1970 are not those of messages.
            producer.write_batch(messages, None if timestamps is None else timestamps.clip(0).tolist())
            producer.serve()

    @abstractmethod
    def _producing(self) -> contextlib.AbstractContextManager[KafkaProducer]:
        """Return a context with the producer of the next messages."""


class PlainWriter(_Writer):
    """Wait for all messages before a checkpoint with AT_LEAST_ONCE; with NONE only at the end of the data."""

    def __init__(
        self, schema: KafkaRecordSerializationSchema, settings: Mapping[str, Any], guarantee: DeliveryGuarantee
    ) -> None:
        super().__init__(schema)
        self._waits = guarantee is not DeliveryGuarantee.NONE
        self._producer = KafkaProducer(settings)

    def _producing(self) -> contextlib.AbstractContextManager[KafkaProducer]:
        return contextlib.nullcontext(self._producer)

    def flush(self, end_of_input: bool) -> None:
        if self._waits or end_of_input:
            self._producer.flush()

    def close(self) -> None:
        self._producer.abandon()


class TransactionalWriter(_Writer):
    """Write the records between two checkpoints in one transaction, which the driver commits (EXACTLY_ONCE).

    A transaction begins with its first message. Meanwhile a thread prepares the producer of the next transaction,
    because that takes a request to the coordinator.
    """

    def __init__(
        self,
        schema: KafkaRecordSerializationSchema,
        settings: Mapping[str, Any],
        properties: Mapping[str, str],
        context: SinkContext,
        ids: TransactionalIds,
        restored: Sequence[TransactionsOfWriter],
    ) -> None:
        super().__init__(schema)
        self._client = TransactionClient(properties)
        self._ids = ids
        self._subtask = context.subtask
        self._parallelism = context.parallelism
        prepared = {one for state in restored for one in state.prepared}
        former = FormerSubtasks.of(context, [(state.subtask, state.parallelism) for state in restored])
        if former.owners:
            abort_earlier_attempts(self._client, ids, former, prepared)
        self._timeout_ms = settings["transaction.timeout.ms"]
        self._prepared = list(prepared)
        """Transactions of earlier attempts and this one that may not be committed yet, in the order of preparation."""
        self._next = _NextProducer(ids, settings, properties)
        self._open: OpenTransaction | None = None
        """The present transaction. After the end of the data there is none."""
        self._next.prepare(self._prepared)

    @contextlib.contextmanager
    def _producing(self) -> Iterator[KafkaProducer]:
        if self._open is None:
            self._open = self._next.take()
            self._open.producer.begin_transaction()
            self._next.prepare(self._prepared)
        with self._explained(self._open):
            yield self._open.producer

    def flush(self, end_of_input: bool) -> None:
        if self._open is not None:
            with self._explained(self._open):
                self._open.producer.flush()

    def prepare_commit(self) -> list[KafkaTransaction]:
        if self._open is None:
            return []
        transaction = self._open.transaction
        if not self._open.holds_messages(self._client.describe(transaction.transactional_id)):
            # The serializer skipped all values: the transaction is empty and stays open.
            return []
        self._prepared = [one for one in self._prepared if not self._is_settled(one)]
        self._prepared.append(transaction)
        producer, self._open = self._open.producer, None
        producer.abandon()
        return [transaction]

    def snapshot_state(self, checkpoint_id: int) -> list[TransactionsOfWriter]:
        return [TransactionsOfWriter(self._subtask, self._parallelism, list(self._prepared))]

    def close(self) -> None:
        self._next.close()
        self._client.close()
        transaction, self._open = self._open, None
        if transaction is None:
            return
        transaction.producer.abandon()
        # Readers wait for open transactions. If brokers are unavailable, the next attempt ends it.
        client = TransactionClient(self._client.properties, _CLOSE_S)
        with contextlib.suppress(OSError):
            client.fence(*msgspec.structs.astuple(transaction.transaction))
        client.close()

    def _is_settled(self, one: KafkaTransaction) -> bool:
        """Return whether the transaction was committed. Raise TransactionAbortedError if it was aborted.

        It may have been prepared for a checkpoint that failed: then the next one that completes contains records that
        are lost.
        """
        now = self._client.describe(one.transactional_id)
        outcome = is_committed(one, now)
        if outcome is False:
            raise aborted_error(one, now, self._timeout_ms)
        # An id that brokers have deleted has no open transaction.
        return outcome is True or now is None

    @contextlib.contextmanager
    def _explained(self, transaction: OpenTransaction) -> Iterator[None]:
        """Raise TransactionAbortedError instead of a ProducerError whose reason is that the transaction was aborted."""
        try:
            yield
        except ProducerError:
            client = TransactionClient(self._client.properties, _CLOSE_S)
            with contextlib.suppress(OSError):
                transaction.holds_messages(client.describe(transaction.transaction.transactional_id))
            client.close()
            raise


class _NextProducer:
    """Prepare a producer on a thread: for a slot whose transaction is committed, or for a new slot."""

    def __init__(self, ids: TransactionalIds, settings: Mapping[str, Any], properties: Mapping[str, str]) -> None:
        self._ids = ids
        self._settings = settings
        self._client = TransactionClient(properties)
        self._slots = 0
        self._waiting: list[KafkaTransaction] = []
        """Transactions of this attempt: a commit frees their slots."""
        self._changed = threading.Condition()
        self._ready: OpenTransaction | None = None
        self._error: Exception | None = None
        self._is_closed = False

    def prepare(self, prepared: Sequence[KafkaTransaction]) -> None:
        """Begin to prepare the next producer. `prepared`: transactions that may not be committed yet."""
        known = {one.transactional_id for one in self._waiting}
        prefix = f"{self._ids.sink}/{self._ids.subtask}/{self._ids.attempt}/"
        self._waiting += [
            one for one in prepared if one.transactional_id.startswith(prefix) and one.transactional_id not in known
        ]
        threading.Thread(target=self._make, name="penstock-kafka-producer", daemon=True).start()

    def take(self) -> OpenTransaction:
        """Wait for a prepared producer and return it. Raise the error if the preparation failed."""
        with self._changed:
            while self._ready is None and self._error is None:
                # In short waits: a wait without a timeout cannot be interrupted everywhere.
                self._changed.wait(WAKE_INTERVAL_S)
            if self._error is not None:
                raise self._error
            assert self._ready is not None
            ready, self._ready = self._ready, None
            return ready

    def close(self) -> None:
        """Drop the prepared producer, or the one in preparation: its thread may wait for unavailable brokers."""
        with self._changed:
            self._is_closed = True
            if self._ready is not None:
                self._ready.producer.abandon()
                self._ready = None

    def _make(self) -> None:
        try:
            slot = self._free_slot()
            producer = KafkaProducer({**self._settings, "transactional.id": slot})
            producer.init_transactions()
            now = self._client.describe(slot)
            if now is None:
                raise ConnectionError(f"the brokers do not know the transactional id '{slot}' that they initialized")
            transaction = KafkaTransaction(slot, now.producer_id, now.epoch)
            ready = OpenTransaction(transaction, producer, self._settings["transaction.timeout.ms"])
        except RAISED as error:
            with self._changed:
                self._error = as_exception(error)
                self._changed.notify()
            return
        with self._changed:
            if self._is_closed:
                producer.abandon()
            else:
                self._ready = ready
                self._changed.notify()

    def _free_slot(self) -> str:
        for one in self._waiting:
            if is_committed(one, now := self._client.describe(one.transactional_id)) and now is not None:
                if now.state != "CompleteCommit":
                    continue
                self._waiting.remove(one)
                return one.transactional_id
        self._slots += 1
        return self._ids.slot(self._slots - 1)
