"""Writers of a KafkaSink: with and without transactions."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.api.sink import SinkContext, SinkWriter
from penstock.common.completable_future import WAKES_S
from penstock.common.user_calls import RAISED, as_exception
from penstock.connectors.base.delivery_guarantee import DeliveryGuarantee
from penstock.connectors.kafka.protocol.transactions import TransactionClient
from penstock.connectors.kafka.sink.producer import KafkaProducer
from penstock.connectors.kafka.sink.serialization import KafkaRecordSerializationSchema
from penstock.connectors.kafka.sink.transactions import (
    KafkaTransaction,
    TransactionalIds,
    TransactionsOfWriter,
    abort_former,
    is_committed,
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
        owned = [(state.subtask, state.parallelism) for state in restored]
        if not owned and not context.is_restored:
            owned = [(self._subtask, self._parallelism)]
        if owned and context.checkpointing:
            abort_former(self._client, ids, owned, prepared)
        self._prepared = [one for one in prepared if not self._is_settled(one)]
        """Of former attempts and this one, by the order of preparation: not seen committed yet."""
        self._next = _NextProducer(ids, settings, properties)
        self._slot = ""
        self._producer: KafkaProducer | None = None
        """That of the present transaction. After the end of the data there is none."""
        self._next.prepare(self._prepared)

    def write_chunk(self, values: list[Any], timestamps: list[int] | None) -> None:
        producer = self._producer
        if producer is None:
            self._slot, producer = self._next.take()
            self._producer = producer
            producer.begin_transaction()
            self._next.prepare(self._prepared)
        self._write(producer, values, timestamps)

    def flush(self, end_of_input: bool) -> None:
        if self._producer is not None:
            self._producer.flush()

    def prepare_commit(self) -> list[KafkaTransaction]:
        if self._producer is None:
            return []
        now = self._client.describe(self._slot)
        if now is None or now.state == "Empty":
            # All values were left out by the serializer: nothing was written, and the transaction goes on.
            return []
        transaction = KafkaTransaction(self._slot, now.producer_id, now.epoch)
        self._prepared = [one for one in self._prepared if not self._is_settled(one)]
        self._prepared.append(transaction)
        producer, self._producer = self._producer, None
        producer.abandon()
        return [transaction]

    def snapshot_state(self, checkpoint_id: int) -> list[TransactionsOfWriter]:
        return [TransactionsOfWriter(self._subtask, self._parallelism, list(self._prepared))]

    def close(self) -> None:
        self._next.close()
        self._client.close()
        producer, self._producer = self._producer, None
        if producer is None:
            return
        producer.abandon()
        # Readers of committed messages wait for what is open. If brokers are away, the next attempt ends it.
        client = TransactionClient(self._client.properties, _CLOSE_S)
        with contextlib.suppress(OSError):
            client.fence(self._slot)
        client.close()

    def _is_settled(self, one: KafkaTransaction) -> bool:
        return is_committed(one, self._client.describe(one.transactional_id)) is True


class _NextProducer:
    """Makes a producer ready on a thread: for a slot whose transaction is committed, or for a new one."""

    def __init__(self, ids: TransactionalIds, settings: Mapping[str, Any], properties: Mapping[str, str]) -> None:
        self._ids = ids
        self._settings = settings
        self._client = TransactionClient(properties)
        self._slots = 0
        self._waiting: list[KafkaTransaction] = []
        """Of this attempt: their slots are free when they are committed."""
        self._changed = threading.Condition()
        self._ready: tuple[str, KafkaProducer] | None = None
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

    def take(self) -> tuple[str, KafkaProducer]:
        """The transactional id, and a producer that may begin. Waits for it. Raises what has failed."""
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
                self._ready[1].abandon()
                self._ready = None

    def _make(self) -> None:
        try:
            slot = self._free_slot()
            producer = KafkaProducer({**self._settings, "transactional.id": slot})
            producer.init_transactions()
        except RAISED as error:
            with self._changed:
                self._error = as_exception(error)
                self._changed.notify()
            return
        with self._changed:
            if self._is_closed:
                producer.abandon()
            else:
                self._ready = slot, producer
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
