"""Writers of a KafkaSink: with and without transactions."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from penstock.api.sink import SinkContext, SinkWriter
from penstock.common.completable_future import WAKES_S
from penstock.common.functions.user_calls import RAISED, as_exception
from penstock.connectors.base.delivery_guarantee import DeliveryGuarantee
from penstock.connectors.base.former_subtasks import FormerSubtasks
from penstock.connectors.kafka.protocol.transactions import Described, TransactionClient
from penstock.connectors.kafka.sink.producer import KafkaProducer, ProducerError
from penstock.connectors.kafka.sink.serialization import KafkaRecordSerializationSchema
from penstock.connectors.kafka.sink.transactions import (
    KafkaTransaction,
    TransactionalIds,
    TransactionsOfWriter,
    abort_former,
    is_committed,
)

# The transaction that a subtask writes to, and what is wrong when brokers have ended it meanwhile.


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


_CLOSE_S = 5.0


class _Writer(SinkWriter[Any]):
    def __init__(self, schema: KafkaRecordSerializationSchema) -> None:
        self._schema = schema

    def write(self, value: Any, timestamp: int | None) -> None:
        self.write_chunk([value], None if timestamp is None else [timestamp])

    def _write(self, producer: KafkaProducer, values: list[Any], timestamps: list[int] | None) -> None:
        serialize, write = self._schema.serialize, producer.write
        for index, value in enumerate(values):
            timestamp = None if timestamps is None else timestamps[index]
            record = serialize(value, timestamp)
            if record is not None:
                write(record, timestamp)
        producer.serve()


class PlainWriter(_Writer):
    """AT_LEAST_ONCE waits for all messages before a checkpoint; NONE only at the end of the data."""

    def __init__(
        self, schema: KafkaRecordSerializationSchema, settings: Mapping[str, Any], guarantee: DeliveryGuarantee
    ) -> None:
        super().__init__(schema)
        self._waits = guarantee is not DeliveryGuarantee.NONE
        self._producer = KafkaProducer(settings)

    def write_chunk(self, values: list[Any], timestamps: list[int] | None) -> None:
        self._write(self._producer, values, timestamps)

    def flush(self, end_of_input: bool) -> None:
        if self._waits or end_of_input:
            self._producer.flush()

    def close(self) -> None:
        self._producer.abandon()


class TransactionalWriter(_Writer):
    """EXACTLY_ONCE: what is written between two checkpoints is a transaction, which the driver commits.

    A transaction begins with its first message. The producer of the next one is made ready by a thread meanwhile,
    since its coordinator has to be asked.
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
            abort_former(self._client, ids, former, prepared)
        self._timeout_ms = settings["transaction.timeout.ms"]
        self._prepared = list(prepared)
        """Transactions of former attempts and this one in the order of preparation, whose commit was not seen yet."""
        self._next = _NextProducer(ids, settings, properties)
        self._open: OpenTransaction | None = None
        """The present one. After the end of the data there is none."""
        self._next.prepare(self._prepared)

    def write_chunk(self, values: list[Any], timestamps: list[int] | None) -> None:
        if self._open is None:
            self._open = self._next.take()
            self._open.producer.begin_transaction()
            self._next.prepare(self._prepared)
        with self._explained(self._open):
            self._write(self._open.producer, values, timestamps)

    def flush(self, end_of_input: bool) -> None:
        if self._open is not None:
            with self._explained(self._open):
                self._open.producer.flush()

    def prepare_commit(self) -> list[KafkaTransaction]:
        if self._open is None:
            return []
        transaction = self._open.transaction
        if not self._open.holds_messages(self._client.describe(transaction.transactional_id)):
            # All values were left out by the serializer: nothing was written, and the transaction goes on.
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
        # Readers of committed messages wait for what is open. If brokers are away, the next attempt ends it.
        client = TransactionClient(self._client.properties, _CLOSE_S)
        with contextlib.suppress(OSError):
            client.fence(*msgspec.structs.astuple(transaction.transaction))
        client.close()

    def _is_settled(self, one: KafkaTransaction) -> bool:
        """Whether it was committed. Raises TransactionAbortedError if it was aborted.

        It may have been prepared for a checkpoint that failed: then the next one that completes names what is lost.
        """
        now = self._client.describe(one.transactional_id)
        outcome = is_committed(one, now)
        if outcome is False:
            raise aborted(one, now, self._timeout_ms)
        # An id that brokers have forgotten has nothing open.
        return outcome is True or now is None

    @contextlib.contextmanager
    def _explained(self, transaction: OpenTransaction) -> Iterator[None]:
        """A client that was fenced can't tell why. If the transaction was aborted, TransactionAbortedError says so."""
        try:
            yield
        except ProducerError:
            client = TransactionClient(self._client.properties, _CLOSE_S)
            with contextlib.suppress(OSError):
                transaction.holds_messages(client.describe(transaction.transaction.transactional_id))
            client.close()
            raise


class _NextProducer:
    """Makes a producer ready on a thread: for a slot whose transaction is committed, or for a new one."""

    def __init__(self, ids: TransactionalIds, settings: Mapping[str, Any], properties: Mapping[str, str]) -> None:
        self._ids = ids
        self._settings = settings
        self._client = TransactionClient(properties)
        self._slots = 0
        self._waiting: list[KafkaTransaction] = []
        """Transactions of this attempt: their commit frees their slots."""
        self._changed = threading.Condition()
        self._ready: OpenTransaction | None = None
        self._error: Exception | None = None
        self._is_closed = False

    def prepare(self, prepared: Sequence[KafkaTransaction]) -> None:
        """Begin to make the next one. `prepared`: transactions that may not be committed yet."""
        known = {one.transactional_id for one in self._waiting}
        own = f"{self._ids.sink}/{self._ids.subtask}/{self._ids.attempt}/"
        self._waiting += [
            one for one in prepared if one.transactional_id.startswith(own) and one.transactional_id not in known
        ]
        threading.Thread(target=self._make, name="penstock-kafka-producer", daemon=True).start()

    def take(self) -> OpenTransaction:
        """Wait for a producer that may begin, and return it. Raise the error of one that failed."""
        with self._changed:
            while self._ready is None and self._error is None:
                # In pieces: a wait without an end could not be interrupted everywhere.
                self._changed.wait(WAKES_S)
            if self._error is not None:
                raise self._error
            assert self._ready is not None
            ready, self._ready = self._ready, None
            return ready

    def close(self) -> None:
        """Drop the one that is ready, or will be: the thread may wait for brokers that are away."""
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
                raise ConnectionError(f"the brokers do not know the transactional id '{slot}' that they have given out")
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
